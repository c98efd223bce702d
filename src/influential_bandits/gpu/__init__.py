"""Code for graphics processors: how functions of the package are compiled for them."""
