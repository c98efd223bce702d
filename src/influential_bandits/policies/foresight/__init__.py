"""Foresight: one model of how arms influence each other, and one rule for what a pull is worth."""
