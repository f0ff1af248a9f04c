"""What trains and compares scores: one driver for all studies, and the image sets and weights that they need."""
