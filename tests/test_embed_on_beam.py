"""Bulk embedding on Apache Beam writes the files that one process writes. The extra `beam` is not part of `test`."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.bulk_fixtures import contents, write_photos
from tests.commands import ROOT, Command, ok, run
from tests.serving_fixtures import exported, picture
from tests.worker_processes import free_ports
from tfdml.files.shards import EmbeddingShards


def embedded_by_one_process(folder):
    """Embeds photos without an engine, into the folder `one`; returns the flags."""
    (folder / "photos").mkdir()
    given = [f"--images={write_photos(folder / 'photos')}/photos.csv", f"--model={exported()}", "--shard_rows=5"]
    assert run("tfdml.embed", *given, f"--out={folder}/one").returncode == 0
    return given


@pytest.mark.slow
def test_two_workers_write_the_files_of_one_process(tmp_path):
    pytest.importorskip("apache_beam", reason="make test-beam installs Apache Beam")
    given = embedded_by_one_process(tmp_path)
    options = ["--", "--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    ok("tfdml.embed", *given, f"--out={tmp_path}/beam", "--runner=DirectRunner", *options)
    blocks = [list(EmbeddingShards(tmp_path / name).blocks()) for name in ("one", "beam")]
    for one, other in zip(*blocks, strict=True):
        assert one.ids.tolist() == other.ids.tolist() and one.paths == other.paths and one.labels == other.labels
        np.testing.assert_array_equal(one.embeddings, other.embeddings)
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("one", "beam")]
    assert manifests[0] == manifests[1] and len(manifests[0]["bad"]) == 2
    # A shard that is lost is made anew.
    (tmp_path / "beam" / "shard-000001.parquet").unlink()
    ok("tfdml.embed", *given, f"--out={tmp_path}/beam", "--runner=DirectRunner", *options)
    assert json.loads((tmp_path / "beam" / "manifest.json").read_text()) == manifests[0]


def workers_of(command):
    """Process ids of Beam's workers that a command has started, through a shell."""
    parents, workers = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments, about = (folder / "cmdline").read_bytes().split(b"\0"), (folder / "stat").read_text()
        except OSError:
            continue
        # Behind the name, which may hold anything: the state, and the parent.
        parents[int(folder.name)] = int(about.rpartition(")")[2].split()[1])
        if b"apache_beam.runners.worker.sdk_worker_main" in arguments:
            workers.append(int(folder.name))
    return [pid for pid in workers if command.pid in (parents[pid], parents.get(parents[pid]))]


@pytest.mark.slow
def test_a_killed_worker_is_one_error_and_the_command_goes_on_when_repeated(tmp_path):
    pytest.importorskip("apache_beam", reason="make test-beam installs Apache Beam")
    (tmp_path / "photos").mkdir()
    for number in range(200):
        (tmp_path / "photos" / f"{number:03d}.png").write_bytes(picture(number))
    given = [f"--images={tmp_path}/photos", f"--model={exported()}", f"--out={tmp_path}/out", "--shard_rows=1"]
    options = ["--runner=DirectRunner", "--", "--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    command = Command("tfdml.embed", *given, *options).until(lambda: list(tmp_path.glob("out/shard-*.json")))
    os.kill(workers_of(command)[0], signal.SIGKILL)
    done = command.wait()
    # Beam's threads and workers write there, too.
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert done.returncode == 1 and errors == done.stderr.splitlines()[-1:], done.stderr
    assert "Worker subprocess exited with return code" in errors[0] and "repeat the command" in errors[0]
    with pytest.raises(ValueError, match="because it has no manifest.json"):
        EmbeddingShards(tmp_path / "out")
    whole = {shard.name: shard.stat().st_mtime_ns for shard in tmp_path.glob("out/shard-*.parquet")}
    assert 0 < len(whole) < 200
    done = ok("tfdml.embed", *given, *options)
    assert len(EmbeddingShards(tmp_path / "out")) == 200
    assert whole.items() <= {shard.name: shard.stat().st_mtime_ns for shard in tmp_path.glob("out/*.parquet")}.items()


def test_the_docs_name_options_of_beam():
    options = pytest.importorskip("apache_beam.options.pipeline_options", reason="make test-beam installs Apache Beam")
    page = (ROOT / "docs/large_collections.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+Runner)` \|.*\| `(.*)` \|$", page, re.MULTILINE)
    assert {runner for runner, _ in rows} == {"DirectRunner", "FlinkRunner"}
    for runner, given in rows:
        read = options.PipelineOptions([f"--runner={runner}", *given.split()]).get_all_options(drop_default=True)
        assert {name: str(value) for name, value in read.items()} == {
            "runner": runner,
            **dict(option.removeprefix("--").split("=") for option in given.split()),
        }


@pytest.mark.slow
def test_a_pool_of_workers_as_on_flink_writes_the_files_of_one_process(tmp_path):
    pytest.importorskip("apache_beam", reason="make test-beam installs Apache Beam")
    given = embedded_by_one_process(tmp_path)
    (free,) = free_ports(1)
    port = tmp_path / "port"
    # A pool starts the python that comes first.
    first = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    started = [
        Command("apache_beam.runners.worker.worker_pool_main", f"--service_port={free}", environment=first),
        Command("apache_beam.runners.portability.local_job_service_main", "--port=0", f"--port_file={port}"),
    ]
    try:
        started[1].until(port.exists)
        options = [f"--job_endpoint=localhost:{port.read_text()}", "--environment_type=EXTERNAL"]
        options = ["--runner=PortableRunner", "--", *options, f"--environment_config=localhost:{free}"]
        done = run("tfdml.embed", *given, f"--out={tmp_path}/beam", *options)
    finally:
        for each in started:
            each.kill(signal.SIGTERM)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "beam") == contents(tmp_path / "one")
