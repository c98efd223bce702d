"""Learn from logs: events, sufficient statistics, models, validation and tests of influence."""
