"""Logs to learn from: MovieLens, and synthetic ones with a planted truth."""
