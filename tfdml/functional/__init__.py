"""Pure functions of Keras tensors: checks, distances, pairs and mining."""
