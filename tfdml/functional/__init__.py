"""Pure functions on tensors of any Keras backend: checks, distances, pairs and mining."""
