"""How TensorFlow computes in a run's process, which is settled before its first operation."""

import os

import keras
import tensorflow as tf

from tfdml import registry
from tfdml.runtime.devices import strategy_for


def set_up(settings):
    """Sets TensorFlow and Keras up, and imports the user's modules; gives the `tf.distribute.Strategy` of the devices.

    Args:
        settings: `RunSettings`.
    """
    if settings.jit_compile and settings.deterministic:
        raise ValueError("--jit_compile needs --nodeterministic: XLA has no deterministic form of some operations.")
    # First of all: TensorFlow's devices cannot be set up after it has computed something.
    strategy = start_tensorflow(settings.devices, settings.deterministic)
    registry.import_modules(settings.import_modules)
    keras.mixed_precision.set_global_policy(settings.precision)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    return strategy


def start_tensorflow(devices, deterministic):
    """Sets threads, precision and devices of TensorFlow up; gives the `tf.distribute.Strategy` of the devices.

    Args:
        devices: what `--devices` says.
        deterministic: what `--deterministic` says.
    """
    if deterministic:
        # TensorFlow sums three gradients or more in the order in which their buffers come free, which depends on
        # timing where operations run at once. Its deterministic operations do not cover this; one thread does.
        # Operations themselves may use all cores.
        tf.config.threading.set_inter_op_parallelism_threads(1)
    # Where a GPU computes the model, the cores prepare images, one each: sharing the small operations on an image
    # among cores takes longer than they do.
    on_gpu = not devices.startswith("cpu") and tf.config.list_physical_devices("GPU")
    if on_gpu and not os.environ.get("TF_NUM_INTRAOP_THREADS"):
        tf.config.threading.set_intra_op_parallelism_threads(1)
    # On some GPUs TensorFlow would otherwise round float32 products to ten bits, in distances and losses too.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    # What is set as TensorFlow starts holds for the functions of input pipelines, whose graphs each pass would improve
    # anew, for a quarter of a second and no gain; what is set later, for all other functions.
    _improve_graphs(False)
    try:
        strategy = strategy_for(devices)
        tf.config.list_logical_devices()
    finally:
        _improve_graphs(True)
    return strategy


def _improve_graphs(wanted):
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not wanted})
