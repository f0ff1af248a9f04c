"""Photos to embed that tests of bulk embedding share."""

import pytest

from tests.serving_fixtures import loaded, picture
from tfdml.files.shards import SPEED
from tfdml.serving import bulk_embedding
from tfdml.serving.exported_model import model_hash

COUNT, BAD = 13, (0, 6)
OPTIONS = {"shard_rows": 5, "batch_size": 3}


@pytest.fixture(scope="module", autouse=True)
def models_load_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk_embedding, "ExportedModel", lambda path: loaded(model_hash(path)))
        yield


def write_photos(folder):
    """Thirteen photos, two of which cannot be read, and a table of them."""
    for number in range(COUNT):
        (folder / f"{number:02d}.png").write_bytes(b"no image" if number in BAD else picture(number))
    lines = [f"{folder}/{number:02d}.png,{'odd' if number % 2 else 'even'}\n" for number in range(COUNT)]
    (folder / "photos.csv").write_text("path,label\n" + "".join(lines))
    return folder


def contents(folder):
    """The content of each file that is the same whatever computes the embeddings, and in whatever time."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name not in (".lock", SPEED)}
