"""From sums to coefficients: certified, separate, pooled, partially pooled."""
