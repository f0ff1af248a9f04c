"""Input pipelines: datasets, samplers and preprocessing, combined into `tf.data` batches."""

# `import tfdml` imports files of this package. It must finish before any of them is imported on its own, for example
# by `from pipelines.datasets import load`.
import tfdml.console  # noqa: F401
