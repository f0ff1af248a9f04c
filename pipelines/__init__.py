"""Input pipelines: datasets, samplers and preprocessing, joined to tf.data."""

# `import tfdml` imports files of this package. It must be complete before any of them is imported on its own, as by
# `from pipelines.datasets import load`.
import tfdml.console  # noqa: F401
