"""Starts TensorFlow as a run on so many GPUs does and prints what is set: `GPUS DEVICES DETERMINISTIC`."""

import json
import sys

import tensorflow as tf

from tfdml.run.experiment.experiment import start_tensorflow


def main():
    gpus, devices, deterministic = sys.argv[1:]
    seen = tf.config.list_physical_devices
    # One is enough to be taken for a machine with a GPU, and is not used by name.
    tf.config.list_physical_devices = lambda kind: [kind] * int(gpus) if kind == "GPU" else seen(kind)
    start_tensorflow(devices, deterministic == "True")
    settings = {
        "threads_in_operations": tf.config.threading.get_intra_op_parallelism_threads(),
        "operations_at_once": tf.config.threading.get_inter_op_parallelism_threads(),
        "improves_graphs": not tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"],
        "rounds": tf.config.experimental.tensor_float_32_execution_enabled(),
    }
    print(json.dumps(settings))


if __name__ == "__main__":
    main()
