"""What many numbers say: slopes, resampled intervals, and how both are written."""
