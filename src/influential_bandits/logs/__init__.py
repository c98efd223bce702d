"""Logs of events: what an EventLog is, and how files of any kind become one."""
