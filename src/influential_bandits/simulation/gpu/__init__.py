"""Runs on graphics processors, one a thread: the same functions, the same bits."""
