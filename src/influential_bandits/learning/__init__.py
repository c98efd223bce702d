"""Learn from logs: sufficient statistics, models, validation, tests of influence, plans."""
