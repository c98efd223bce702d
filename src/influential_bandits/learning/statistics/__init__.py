"""From events to sums: the design of a history, pooled sums, and how sums of parts are added."""
