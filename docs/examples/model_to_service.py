# %% [markdown]
# # From a model to a service
#
# This notebook trains and exports a model, builds and searches an index, and then sends a query to the HTTP service.
# The service needs the extra `serve` (`pip install '.[cpu,serve]'` in a clone), and the client that sends the query
# needs `pip install httpx2`.

# %%
import shutil
from pathlib import Path

import keras
from fastapi.testclient import TestClient
from PIL import Image

import tfdml
from pipelines.datasets import load
from pipelines.preprocessor import Preprocessor
from tfdml.serving import Searcher
from tfdml.serving.http.app import create_app
from tfdml.serving.index import contact_sheet

CLASSES, PHOTOS_EACH, EPOCHS, BATCH_CLASSES = 100, 16, 5, 32
CROP = "random_resized_crop(area=(0.7, 1.0), aspect=(0.9, 1.1))|flip"
PHOTOS, EXPORTED, INDEX = Path("service_photos"), Path("service_model"), Path("service_index")

for made_before in (PHOTOS, EXPORTED, INDEX):
    shutil.rmtree(made_before, ignore_errors=True)
cars = load(f"toycars(classes={CLASSES}, images_per_class={PHOTOS_EACH})")
paths = []
for number, (content, label) in enumerate(zip(cars.test.images, cars.test.labels, strict=True)):
    paths.append(Path(PHOTOS, f"design {label:03}", f"{number}.jpg"))
    paths[-1].parent.mkdir(parents=True, exist_ok=True)
    paths[-1].write_bytes(content)

# %%
keras.utils.set_random_seed(0)
backbone = tfdml.backbones.Small(width=16)
backbone.load_weights(backbone.shipped_weights["toycars"])
model = tfdml.Single(backbone, embedding_size=64)
model.preprocessing = tfdml.Preprocessing.of(model, 48)
model.compile(keras.optimizers.Adam(2e-3), tfdml.losses.Triplet(margin=0.2, mining="semi_hard", distance="euclidean"))
images, labels = list(cars.train.images), cars.train.labels
batches = tfdml.data.pxk(
    images, labels, classes=BATCH_CLASSES, per_class=4, backbone=model, image_size=48, transform=CROP
)
model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=2)

# %% [markdown]
# The exported model is a SavedModel that accepts image files and needs only TensorFlow. The index contains a copy of
# it.

# %%
tfdml.serving.export(model, Preprocessor.of(model.preprocessing), EXPORTED, tolerant=True)
with tfdml.Index(EXPORTED) as index:
    index.add(PHOTOS)
    index.save(INDEX)

# %% [markdown]
# Search with the first photo. It is in the index, so it is also the first result.

# %%
query, searcher = paths[0], Searcher(INDEX)
found = searcher.search([query], k=6)
for neighbor in found[0]:
    print(f"{neighbor.similarity:.3f}  {neighbor.label}  {Path(neighbor.path).name}")
contact_sheet.draw([query], found, "found.png")
Image.open("found.png")

# %% [markdown]
# `python -m tfdml.serve --index=service_index` serves the index at http://127.0.0.1:8000, with a page to search it.
# Here, the same service answers without a network. It accepts image files and filters, and its answers contain no
# paths.

# %%
with TestClient(create_app(searcher), "http://127.0.0.1:8000") as service:
    print(service.get("/health").json())
    given = {"k": 3, "where": f"label != '{query.parent.name}'"}
    answer = service.post("/search", files={"image": query.read_bytes()}, data=given).json()
for neighbor in answer["neighbors"]:
    print(f"{neighbor['similarity']:.3f}  {neighbor['label']}  {neighbor['name']}")
