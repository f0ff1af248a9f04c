"""Input pipelines: datasets, samplers and preprocessing, joined to tf.data."""

# First of all, because `import tfdml` imports files of this package, which would then be imported in part only.
import tfdml.registry  # noqa: F401
