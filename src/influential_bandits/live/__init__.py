"""Live decisions: the policies behind a durable service."""
