"""Devices, workers, sharded variables, and every private name of Keras."""
