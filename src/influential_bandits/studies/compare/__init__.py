"""Policies compared on families of instances and of populations, paired, and written down."""
