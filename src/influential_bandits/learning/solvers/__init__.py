"""From sums to coefficients: certified, separate, pooled."""
