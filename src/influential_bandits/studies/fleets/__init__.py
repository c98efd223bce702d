"""Fleets compared: who serves many users best, on families of populations."""
