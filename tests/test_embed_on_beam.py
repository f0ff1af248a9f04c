"""Bulk embedding on Apache Beam writes the files that one process writes. The extra `beam` is not part of `test`."""

import json

import numpy as np
import pytest

from tests.commands import run
from tests.serving_fixtures import exported, picture
from tfdml.embedding_shards import EmbeddingShards


def write_photos(folder):
    for number in range(13):
        (folder / f"{number:02d}.png").write_bytes(b"no image" if number == 6 else picture(number))
    return folder


@pytest.mark.slow
def test_two_workers_write_the_files_of_one_process(tmp_path):
    pytest.importorskip("apache_beam", reason="Apache Beam is the extra beam, which the tests do not install")
    (tmp_path / "photos").mkdir()
    given = [f"--images={write_photos(tmp_path / 'photos')}", f"--model={exported()}", "--shard_rows=5"]
    assert run("tfdml.embed", *given, f"--out={tmp_path}/one").returncode == 0
    options = ["--", "--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    done = run("tfdml.embed", *given, f"--out={tmp_path}/beam", "--runner=DirectRunner", *options)
    assert done.returncode == 0, done.stderr
    blocks = [list(EmbeddingShards(tmp_path / name).blocks()) for name in ("one", "beam")]
    for one, other in zip(*blocks, strict=True):
        assert one.ids.tolist() == other.ids.tolist() and one.paths == other.paths and one.labels == other.labels
        np.testing.assert_array_equal(one.embeddings, other.embeddings)
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("one", "beam")]
    assert manifests[0] == manifests[1] and len(manifests[0]["bad"]) == 1
    # A shard that is lost is made anew.
    (tmp_path / "beam" / "shard-000001.parquet").unlink()
    done = run("tfdml.embed", *given, f"--out={tmp_path}/beam", "--runner=DirectRunner", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "beam" / "manifest.json").read_text()) == manifests[0]
