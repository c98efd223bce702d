"""Arithmetic and random streams that give the same bits on every machine."""
