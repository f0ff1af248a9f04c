"""The project's studies for `tfdml.study`, and the datasets and weights that they need."""
