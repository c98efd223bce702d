"""Benchmarks: the best counts for every horizon, with proof, and regret against them."""
