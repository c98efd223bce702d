"""The arena: policies on families of instances, paired, ranked, and written down."""
