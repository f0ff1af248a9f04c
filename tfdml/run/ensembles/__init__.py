"""Members of an ensemble, trained on parts of the classes, and their joining."""
