"""From sums to coefficients: certified, by gradient, separate, pooled, partially pooled."""
