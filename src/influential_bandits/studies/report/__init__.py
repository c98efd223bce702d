"""Reports: figures as data, drawn for print and into one page that needs nothing else."""
