"""Input pipelines: datasets, samplers and image preparation, joined to tf.data."""
