"""The live service under load and faults."""
