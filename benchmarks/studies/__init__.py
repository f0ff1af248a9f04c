"""Studies, which train and compare scores: one driver for all, and the image sets and weights that they need."""
