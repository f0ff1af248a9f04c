"""Embeds images with Apache Spark, with one task per shard."""

import functools
import os
import shutil
import sys

from pyspark import SparkConf, SparkContext

from tfdml.serving.embedding import embed_rows
from tfdml.serving.exported_model import ExportedModel


def embed_on_spark(job, images, model, *, batch_size, options):
    """Writes the missing shards of an `EmbeddingJob`. Options are properties such as `--spark.master=local[2]`.

    All executors must be able to read the images, an `ImageList` of files, and the model folder, and to write to the
    job's folder.
    """
    configuration = _configuration(options)
    parts = [(number, images.part(job.rows(number))) for number in job.missing()]
    if not parts:
        return
    _check_java()
    # By default, Spark would use the first python3 on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        with SparkContext(appName="tfdml.embed", conf=configuration) as context:
            # With one shard per task, Spark retries a failed shard alone.
            context.parallelize(parts, len(parts)).foreach(functools.partial(_write, job, model, batch_size))
    # Errors of tasks arrive through Java, but errors of starting Java have other classes.
    except Exception as error:
        hint = "Complete shards are kept. Repeat the command to embed the others"
        raise ValueError(f"Apache Spark failed: {_reason(error)}. {hint} (use --debug for the traceback).") from error


def _configuration(options):
    found = SparkConf()
    for option in options:
        name, equals, value = option.removeprefix("--").partition("=")
        if not (option.startswith("--spark.") and equals):
            raise ValueError(f"--runner=spark expects properties such as --spark.master=local[2]. Received: {option}.")
        found.set(name, value)
    return found


def _check_java():
    home = os.environ.get("JAVA_HOME")
    if not shutil.which(os.path.join(home, "bin", "java") if home else "java"):
        where = f"JAVA_HOME={home} has no bin/java" if home else "java is not on the PATH"
        raise ValueError(
            f"--runner=spark needs Java 17 or later, but {where}. Install it, for example on Debian: "
            "apt install default-jre-headless."
        )


# Spark keeps each process for several tasks, so load the model only once.
_loaded = functools.cache(ExportedModel)


def _write(job, model, batch_size, part):
    number, images = part
    found = embed_rows(images, range(len(images)), _loaded(model), batch_size=batch_size)
    job.write(number, images, *found)


def _reason(error):
    """Returns the last line before the Java stack: what Python raised, or what Spark reports about a lost executor."""
    text = str(error).partition("\n\tat ")[0].removesuffix("Driver stacktrace:")
    # Python stack frames and the code of an SQL error are indented.
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith(" ")]
    return (lines or [type(error).__name__])[-1].rpartition("most recent failure: ")[2].rstrip(".")
