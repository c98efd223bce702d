"""Studies: one file each, settings as data, results as rows and pictures."""
