"""One module per study, which declares its rows and its table in `STUDY`."""
