"""Policies: one family a file, all under the contract of :mod:`.contract`."""
