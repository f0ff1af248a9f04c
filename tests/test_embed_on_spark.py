"""Bulk embedding on Apache Spark writes the files that one process writes. The extra `spark` is not part of `test`."""

import json
import os
import shutil
import signal

import pytest

from tests.bulk_fixtures import contents, write_photos
from tests.commands import Command, Forked, assert_one_error, ok, processes_with, run
from tests.serving_fixtures import exported, picture
from tfdml.files.shards import EmbeddingJob, EmbeddingShards
from tfdml.serving.image_list import ImageList

pytestmark = pytest.mark.slow
# Two executors of one core, each a process of its own as on a cluster, and no task before both are there.
EXECUTORS = ["--runner=spark", "--", "--spark.master=local-cluster[2,1,1024]", "--spark.ui.enabled=false"]
EXECUTORS += ["--spark.scheduler.minRegisteredResourcesRatio=1", "--spark.driver.bindAddress=127.0.0.1"]
EXECUTORS += ["--spark.scheduler.maxRegisteredResourcesWaitingTime=600s", "--spark.driver.host=127.0.0.1"]


@pytest.fixture(autouse=True)
def spark():
    pytest.importorskip("pyspark", reason="make test-spark installs Apache Spark")
    if not shutil.which("java"):
        pytest.skip("Apache Spark needs Java")


def executors_of(log):
    """Numbers of the executors that have completed a task, from the log of Spark's events."""
    files = [path for path in log.rglob("*") if path.is_file() and not path.name.startswith(("appstatus", "."))]
    events = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return {event["Task Info"]["Executor ID"] for event in events if event["Event"] == "SparkListenerTaskEnd"}


def test_two_executors_write_the_files_of_one_process(tmp_path):
    for name in ("photos", "log"):
        (tmp_path / name).mkdir()
    given = [f"--images={write_photos(tmp_path / 'photos')}/photos.csv", f"--model={exported()}", "--shard_rows=5"]
    assert run("tfdml.embed", *given, f"--out={tmp_path}/one").returncode == 0
    log = ["--spark.eventLog.enabled=true", f"--spark.eventLog.dir=file://{tmp_path}/log"]
    done = ok("tfdml.embed", *given, f"--out={tmp_path}/spark", *EXECUTORS, *log, "--spark.eventLog.compress=false")
    assert "Skipped 2 of 13 images that cannot be read" in done.stdout and "Embedded 11 images" in done.stdout
    assert contents(tmp_path / "spark") == contents(tmp_path / "one")
    assert executors_of(tmp_path / "log") == {"0", "1"}
    # A shard that is lost is made anew.
    (tmp_path / "spark" / "shard-000001.parquet").unlink()
    done = ok("tfdml.embed", *given, f"--out={tmp_path}/spark", "--runner=spark", "--", "--spark.master=local[2]")
    assert contents(tmp_path / "spark") == contents(tmp_path / "one")


def test_a_killed_executor_is_one_error_and_the_command_goes_on_when_repeated(tmp_path):
    (tmp_path / "photos").mkdir()
    for number in range(100):
        (tmp_path / "photos" / f"{number:03d}.png").write_bytes(picture(number))
    given = [f"--images={tmp_path}/photos", f"--model={exported()}", f"--out={tmp_path}/out", "--shard_rows=1"]
    options = [*EXECUTORS, f"--spark.executor.extraJavaOptions=-Dtested={tmp_path}", "--spark.task.maxFailures=1"]
    command = Command("tfdml.embed", *given, *options).until(lambda: list(tmp_path.glob("out/shard-*.json")))
    os.kill(processes_with("CoarseGrainedExecutorBackend", tmp_path)[0], signal.SIGKILL)
    done = command.wait()
    # Spark writes there, too.
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert done.returncode == 1 and errors == done.stderr.splitlines()[-1:], done.stderr
    assert "Apache Spark failed: Lost task" in errors[0] and "code 137" in errors[0] and "repeat the" in errors[0]
    whole = {shard.name: shard.stat().st_mtime_ns for shard in tmp_path.glob("out/shard-*.parquet")}
    assert 0 < len(whole) < 100
    done = ok("tfdml.embed", *given, *EXECUTORS)
    assert len(EmbeddingShards(tmp_path / "out")) == 100
    assert whole.items() <= {shard.name: shard.stat().st_mtime_ns for shard in tmp_path.glob("out/*.parquet")}.items()


def test_bad_input(tmp_path):
    given = [f"--images={write_photos(tmp_path)}/photos.csv", f"--model={exported()}", f"--out={tmp_path}/out"]
    given += ["--shard_rows=5", "--runner=spark", "--"]
    words = "expects properties such as --spark.master=local[2]. Received: --master=local[2]"
    assert_one_error(run("tfdml.embed", *given, "--master=local[2]"), words)
    done = Forked("tfdml.embed", *given, environment={"JAVA_HOME": f"{tmp_path}"}).wait()
    assert_one_error(done, f"needs Java 17 or later, but JAVA_HOME={tmp_path} has no bin/java")


def test_what_a_task_raises_is_one_line(tmp_path):
    from tfdml.serving.spark import embed_on_spark

    images = ImageList.of(write_photos(tmp_path) / "photos.csv")
    (tmp_path / "out").mkdir()
    job = EmbeddingJob.of(tmp_path / "out", images, model="", dimension=16, shard_rows=13)
    job.begin(images)
    with pytest.raises(ValueError, match=r"^Apache Spark failed: .*none does not exist: .* Complete shards are kept"):
        embed_on_spark(job, images, f"{tmp_path}/none", batch_size=None, options=["--spark.master=local[1]"])
