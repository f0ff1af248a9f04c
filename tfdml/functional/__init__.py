"""Pure functions on Keras tensors: checks, distances, pairs, mining."""
