"""Random numbers for policies and noises of one's own: ``uniform`` and ``normal``."""

from influential_bandits.numerics.streams import normal, uniform

__all__ = ["normal", "uniform"]
