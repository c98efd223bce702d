"""Policies on instances from files: one, or many in pieces."""
