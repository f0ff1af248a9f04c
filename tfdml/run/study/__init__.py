"""Studies: rows of flags that are trained over seeds, and the tables of what came out."""
