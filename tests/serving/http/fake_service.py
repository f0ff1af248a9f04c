"""A service whose searcher embeds an image by the first bytes of its file, without a model."""

import base64
import contextlib
import io
import threading

import numpy as np
import pytest
from PIL import Image

from tfdml.serving.index.stores.store import Found, Neighbor

REASON = "the extra serve is not installed; setup.py lists it, and it is a part of the extra test"
pytest.importorskip("fastapi", reason=REASON)
testclient = pytest.importorskip("fastapi.testclient", reason=REASON)
create_app = pytest.importorskip("tfdml.serving.http.app", reason=REASON).create_app

ADDRESS = "http://127.0.0.1:8000"


def encoded(kind="PNG", size=(8, 6), color=(200, 10, 10)):
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, kind)
    return file.getvalue()


def in_json(content, **more):
    return {"b64": base64.b64encode(content).decode(), **more}


class FakeSearcher:
    """An index of some files; those that end in `damaged` cannot be read, `broken` breaks the model.

    Those that end in `slow` are decoded when `decodes` is set, and all are embedded when `go_on` is.
    """

    def __init__(self, files=()):
        self.files, self.batches = list(files), []
        self.go_on, self.decodes, self.read_files = threading.Event(), threading.Event(), []
        self.go_on.set()
        self.decodes.set()

    def __len__(self):
        return len(self.files)

    manifest = {"metric": "cosine"}
    has_texts = False

    def state(self):
        """Returns None: no folder holds the index, so that it never changes."""

    def reopened(self):
        return self

    def read(self, contents):
        """An image is its file."""
        self.read_files.append(contents)
        assert not contents.endswith(b"slow") or self.decodes.wait(60)
        return contents

    def embed_read(self, images):
        self.batches.append(len(images))
        assert self.go_on.wait(60)
        if any(image.endswith(b"broken") for image in images):
            raise RuntimeError("a secret of the model")
        embeddings = [[sum(image), len(image), 0, 1] for image in images]
        return np.array(embeddings, np.float32), np.array([not image.endswith(b"damaged") for image in images])

    def search_vectors(self, vectors, k, where, hidden):
        neighbors = [
            Neighbor(row + 100, str(file), None if row else "red", 1 - row / 10)
            for row, file in enumerate(self.files[:k])
        ]
        return Found([neighbors] * len(vectors), 7, False)

    def file_of(self, id):
        return str(self.files[id - 100]) if 0 <= id - 100 < len(self) else None


class TextSearcher(FakeSearcher):
    """One with a model that embeds a text by its length. It records texts, and the vectors of searches."""

    has_texts = True

    def __init__(self, files):
        super().__init__(files)
        self.texts, self.vectors = [], []

    def embed_texts(self, texts):
        self.texts += texts
        return np.array([[len(text), 1, 2, 3] for text in texts], np.float32)

    def search_vectors(self, vectors, k, where, hidden):
        self.vectors += vectors.tolist()
        return super().search_vectors(vectors, k, where, hidden)


@contextlib.contextmanager
def running(searcher=None, limits=None, headers=None, **options):
    app = create_app(FakeSearcher() if searcher is None else searcher, limits, **options)
    with testclient.TestClient(app, ADDRESS, raise_server_exceptions=False, headers=headers) as client:
        yield client


def assert_refused(response, status, *words):
    """The answer is one sentence in JSON."""
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"], response.text
    missing = [word for word in words if word not in response.json()["error"]]
    assert not missing, (missing, response.text)
