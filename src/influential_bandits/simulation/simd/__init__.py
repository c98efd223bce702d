"""Many runs of few arms side by side in vector registers, to the bits of the general loop."""
