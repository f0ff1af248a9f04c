"""Embeds on Apache Spark, each shard by some task."""

import functools
import os
import shutil
import sys

from pyspark import SparkConf, SparkContext

from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import ExportedModel


def embed_on_spark(job, images, model, *, batch_size, options):
    """Writes the missing shards of an `EmbeddingJob`; options are properties such as `--spark.master=local[2]`.

    All executors can read the images, an `ImageList` of files, and the folder of the model, and write to the folder of
    the job.
    """
    configuration = _configuration(options)
    parts = [(number, images.part(job.rows(number))) for number in job.missing()]
    if not parts:
        return
    _check_java()
    # Spark's own default is whichever python3 comes first.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        with SparkContext(appName="tfdml.embed", conf=configuration) as context:
            # One shard in each task, so that what fails is tried again alone.
            context.parallelize(parts, len(parts)).foreach(functools.partial(_write, job, model, batch_size))
    # What a task raises comes through Java, what starts Java raises its own.
    except Exception as error:
        hint = "Complete shards stay; repeat the command for the others"
        raise ValueError(f"Apache Spark failed: {_reason(error)}. {hint} (--debug shows where).") from error


def _configuration(options):
    found = SparkConf()
    for option in options:
        name, equals, value = option.removeprefix("--").partition("=")
        if not (option.startswith("--spark.") and equals):
            raise ValueError(f"--runner=spark: expected properties such as --spark.master=local[2], received {option}.")
        found.set(name, value)
    return found


def _check_java():
    home = os.environ.get("JAVA_HOME")
    if not shutil.which(os.path.join(home, "bin", "java") if home else "java"):
        where = f"JAVA_HOME={home} has no bin/java" if home else "there is no java"
        raise ValueError(f"--runner=spark needs Java 17 or later: {where}. Debian: apt install default-jre-headless.")


# Each process, which Spark keeps for several tasks, loads a model once.
_loaded = functools.cache(ExportedModel)


def _write(job, model, batch_size, part):
    number, images = part
    found = embed_rows(images, range(len(images)), _loaded(model), batch_size=batch_size)
    job.write(number, images, *found)


def _reason(error):
    """Returns the last line above the frames of Java: what Python raised, or what Spark says of a lost executor."""
    text = str(error).partition("\n\tat ")[0].removesuffix("Driver stacktrace:")
    # Frames of Python and the code of an error in SQL are indented.
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(" ")]
    return (lines or [type(error).__name__])[-1].rpartition("most recent failure: ")[2].rstrip(".")
