"""Requests of a batch: they become events, and all is written at once."""
