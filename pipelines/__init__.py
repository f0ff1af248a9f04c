"""Input pipelines: datasets, samplers and preprocessing, joined to tf.data."""
