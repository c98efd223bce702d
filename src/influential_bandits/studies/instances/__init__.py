"""Policies on instance files, and what is known of an instance."""
