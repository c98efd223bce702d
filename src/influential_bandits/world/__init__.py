"""The world: instances, interactions, noise, generators, and the Gymnasium environment."""
