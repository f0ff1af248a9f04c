"""Devices, workers, sharded variables, and all uses of private Keras names."""
