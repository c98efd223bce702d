"""Reports: the same figures as data drawn for print (matplotlib) and for the browser (plotly)."""
