"""Where work is done: threads and processes of this computer, or a Dask cluster."""
