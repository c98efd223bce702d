"""Where work is done: threads of this computer, or a Dask cluster."""
