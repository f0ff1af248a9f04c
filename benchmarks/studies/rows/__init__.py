"""Studies by name, a module each, which declares its rows and its table in `STUDY`."""
