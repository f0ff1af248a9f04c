"""Which queries a page shows."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from pipelines.dataset import Split
from tfdml.console.settings import Settings
from tfdml.evaluation.queries import RetrievalTask
from tfdml.reporting.gallery import gallery_of_several

NOISE = np.random.default_rng(0).integers(0, 256, (70, 50, 3), np.uint8)


def subject_of(picture, labels):
    """The parts of a `Subject` that the gallery uses. All test images are the same."""
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    images = SimpleNamespace(preprocessor=lambda *_: SimpleNamespace(image_shape=(8, 8, 3)))
    return SimpleNamespace(
        test=Split(np.array([file.getvalue()] * len(labels), object), labels),
        embeddings=np.random.default_rng(1).normal(size=(len(labels), 4)).astype(np.float32),
        task=RetrievalTask.of(labels),
        distance="cosine",
        class_names={},
        tells_places=False,
        experiment=SimpleNamespace(images=images, settings=Settings().replace(test_transform="warp")),
        model=None,
    )


@pytest.mark.parametrize("size, least, queries", [((500, 700), 320, range(8, 40)), ((50, 70), 70, [40])])
def test_of_large_images_there_are_fewer_queries(size, least, queries):
    labels = np.arange(60) % 20
    picture = Image.fromarray(NOISE[::4, ::4]).resize(size, Image.Resampling.BICUBIC)
    subject = subject_of(picture, labels)
    alone = {"A": labels >= 0, "B": labels < 0}
    gallery = gallery_of_several({"A": subject, "B": subject}, subject.task.queries, alone)
    counts = [sum(kind in query["kinds"] for query in gallery["queries"]) for kind in gallery["kinds"]]
    assert counts[0] == counts[2] in queries and counts[1] == 0
    for image in gallery["images"].values():
        with Image.open(io.BytesIO(base64.b64decode(image["src"].partition(",")[2]))) as shown:
            assert max(shown.size) >= least
