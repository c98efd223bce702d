"""How studies run: settings and rows, results on disk, piece by piece."""
