"""Simulation: the compiled engine, its threads, and what a run returns."""
