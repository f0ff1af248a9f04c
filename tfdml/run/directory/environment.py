"""Tells the versions and the machine that a run is computed with."""

import contextlib
import platform
from importlib import metadata

import keras
import numpy as np
import tensorflow as tf

from tfdml.console.startup import __version__


def environment():
    """Versions of the software of this process, and the machine, name to text."""
    gpus = [
        tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    return {
        "tfdml": __version__,
        "Keras": keras.__version__,
        "TensorFlow": tf.__version__,
        **_faiss(),
        "NumPy": np.__version__,
        "Python": platform.python_version(),
        "machine": ", ".join([platform.platform(), *gpus]),
    }


def _faiss():
    """The version of the build of faiss that is installed, without loading it, which is slow."""
    found = {}
    for name in ("faiss-cpu", "faiss-gpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
