"""Hostile files, numbers, disks and moments: no crash, nothing lost, nothing silently other data.

Each case is a function of (subject, seed, number) and is played in a worker process that may die.
``make hostile`` plays many and prints a table; ``test_hostile.py`` plays a few in the suite.
"""
