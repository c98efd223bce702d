"""How influence fades in a made-up log, as models are told."""

from influential_bandits import Fading


def fading_of(memory=1.0, half_life_days=None, **others):
    """Return the fading of a log that was made with these settings."""
    return Fading(memory, None if half_life_days is None else 24.0 * half_life_days)
