"""Studies of this project, for `tfdml.study`, and the image sets and weights that they need."""
