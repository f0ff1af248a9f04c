"""Distribution strategies: one device, several devices, or several machines."""

import json
import os
import re

from tfdml.runtime.backends import tensorflow_if_used
from tfdml.runtime.keras_internals import devices_per_worker

tf = tensorflow_if_used()


def strategy_for(devices):
    """Creates the `tf.distribute.Strategy` for a value of `--devices`: `auto`, `cpu:N`, `gpu:N` or `workers`.

    It must be called before TensorFlow computes anything.
    """
    if devices == "workers":
        return _workers()
    match = re.fullmatch(r"(auto)|(cpu|gpu):([1-9]\d*)", devices)
    if not match:
        raise ValueError(f"--devices must be auto, cpu:N, gpu:N or workers. Received: --devices={devices}.")
    gpus = tf.config.list_physical_devices("GPU")
    if match[1]:
        return _mirrored("GPU", len(gpus)) if len(gpus) > 1 else tf.distribute.get_strategy()
    count = int(match[3])
    if match[2] == "gpu":
        if count > len(gpus):
            raise ValueError(f"--devices={devices} needs {count} GPUs, but TensorFlow finds {len(gpus)}.")
        tf.config.set_visible_devices(gpus[:count], "GPU")
        return _mirrored("GPU", count) if count > 1 else tf.distribute.get_strategy()
    tf.config.set_visible_devices([], "GPU")
    if count == 1:
        return tf.distribute.get_strategy()
    virtual = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], virtual)
    return _mirrored("CPU", count)


def is_chief(strategy):
    """Whether this process writes files, because it is the only process or the first of several workers."""
    resolver = strategy.cluster_resolver
    if resolver is None or resolver.task_type in (None, "chief"):
        return True
    return resolver.task_type == "worker" and resolver.task_id == 0 and "chief" not in resolver.cluster_spec().jobs


def is_multi_worker(strategy):
    """Whether the strategy is a MultiWorkerMirroredStrategy with more than one worker."""
    multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return multi_worker and strategy.num_replicas_in_sync > devices_per_worker(strategy)


def worker_of(strategy):
    """Returns this worker's index and the number of workers of a MultiWorkerMirroredStrategy. A chief is first."""
    resolver = strategy.cluster_resolver
    cluster = resolver.cluster_spec()
    chiefs = cluster.num_tasks("chief") if "chief" in cluster.jobs else 0
    return resolver.task_id + (chiefs if resolver.task_type == "worker" else 0), chiefs + cluster.num_tasks("worker")


def _mirrored(kind, count):
    return tf.distribute.MirroredStrategy([f"{kind}:{number}" for number in range(count)])


def _workers():
    written = os.environ.get("TF_CONFIG", "")
    try:
        config = json.loads(written)
        task = config["task"]
        is_complete = config["cluster"]["worker"] and task["type"] and isinstance(task["index"], int)
    except (ValueError, KeyError, TypeError):
        is_complete = False
    if not is_complete:
        received = f"TF_CONFIG={written!r}" if written else "TF_CONFIG is not set"
        raise ValueError(
            "--devices=workers needs the environment variable TF_CONFIG. Expected a value such as "
            '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}. '
            f"Received: {received}."
        )
    return tf.distribute.MultiWorkerMirroredStrategy()
