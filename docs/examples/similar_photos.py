# %% [markdown]
# # Find similar photos
#
# From a folder of photos to a search, on one folder for each class. Put your own in place of the toy cars: the next
# cell only makes some. Training sees one half of the classes; the search is measured on the other half.

# %%
from pathlib import Path

import keras
import numpy as np
from PIL import Image

import tfdml
from pipelines.datasets import load
from tfdml.serving.index import contact_sheet

PHOTOS, PRESET = Path("photos"), Path("presets/photos")
CLASSES, PHOTOS_EACH, EPOCHS = 100, 20, 10

cars = load(f"toycars(classes={CLASSES}, images_per_class={PHOTOS_EACH})")
for split in (cars.train, cars.test):
    for number, (content, label) in enumerate(zip(split.images, split.labels, strict=True)):
        photo = PHOTOS / f"design {label:03}" / f"{number}.jpg"
        photo.parent.mkdir(parents=True, exist_ok=True)
        photo.write_bytes(content)

# %%
paths = sorted(PHOTOS.glob("*/*.jpg"))
labels = np.array([path.parent.name for path in paths])
names = np.unique(labels)
seen = np.isin(labels, names[: len(names) // 2])
print(f"{len(paths)} photos of {len(names)} classes, {seen.sum()} to train with")

# %% [markdown]
# The network begins with weights that know toy cars. For photos, take
# `tfdml.backbones.KerasApplication("MobileNetV2")` and `backbone.load_imagenet()`.

# %%
keras.utils.set_random_seed(0)
backbone = tfdml.backbones.Small(width=16)
backbone.load_weights(backbone.shipped_weights["toycars"])
model = tfdml.Single(backbone, embedding_size=64)
model.preprocessing = tfdml.Preprocessing.of(model, 48)
model.compile(keras.optimizers.Adam(1e-3), tfdml.losses.MultiSimilarity())

train_paths = [path for path, is_seen in zip(paths, seen, strict=True) if is_seen]
batches = tfdml.data.pxk(train_paths, labels[seen], classes=8, per_class=4, backbone=model, image_size=48)


def recall_of_new_classes():
    """How often the most similar photo is of the same class, among classes that training does not see."""
    new = [path for path, is_seen in zip(paths, seen, strict=True) if not is_seen]
    embeddings = tfdml.ImageEmbedder(model).embed(new)
    return tfdml.evaluation.evaluate(embeddings, np.unique(labels[~seen], return_inverse=True)[1])["recall_at_1"]


before = recall_of_new_classes()
model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=2)
after = recall_of_new_classes()
print(f"Recall@1 of new classes: {before:.3f} before training, {after:.3f} after it")

# %% [markdown]
# Keep the model, and search: an index finds the photos whose embeddings are nearest.

# %%
model.save_to_preset(PRESET)
query = next(path for path, is_seen in zip(paths, seen, strict=True) if not is_seen)
with tfdml.Index(tfdml.from_preset(PRESET)) as index:
    index.add(PHOTOS)
    found = index.search([query], k=6)
print(f"Most similar to {query}:")
for neighbor in found[0]:
    print(f"{neighbor.similarity:.3f}  {neighbor.label}  {Path(neighbor.path).name}")
contact_sheet.draw([query], found, "found.png")
Image.open("found.png")
