# %% [markdown]
# # Find similar photos
#
# This notebook starts with a folder of photos, one subfolder per class. It ends with a search. It trains on one half of
# the classes and measures the search on the other half.
#
# For your own photos, change one line to `PHOTOS, SIZE = Path("my_photos"), 128`, and change the network below. The toy
# cars that the next cell writes are then not used. If you prefer not to choose anything, follow the tutorial [Search
# your own photos](../search_your_photos.md) instead.

# %%
import shutil
from pathlib import Path

import keras
import numpy as np
from PIL import Image

import tfdml
from pipelines.datasets import load
from tfdml.serving.index import contact_sheet

TOY_PHOTOS, PRESET = Path("toy_photos"), Path("similar_photos_model")
PHOTOS, SIZE = TOY_PHOTOS, 48
CLASSES, PHOTOS_EACH, EPOCHS = 100, 20, 10

for made_before in (TOY_PHOTOS, PRESET):
    shutil.rmtree(made_before, ignore_errors=True)
cars = load(f"toycars(classes={CLASSES}, images_per_class={PHOTOS_EACH})")
for split in (cars.train, cars.test):
    for number, (content, label) in enumerate(zip(split.images, split.labels, strict=True)):
        photo = TOY_PHOTOS / f"design {label:03}" / f"{number}.jpg"
        photo.parent.mkdir(parents=True, exist_ok=True)
        photo.write_bytes(content)

# %%
paths = np.array(sorted(path for path in PHOTOS.glob("*/*") if path.suffix.lower() in (".jpg", ".jpeg", ".png")))
labels = np.array([path.parent.name for path in paths])
names = np.unique(labels)
seen = np.isin(labels, names[: len(names) // 2])
new_paths, new_labels = paths[~seen], labels[~seen]
print(f"{len(paths)} photos of {len(names)} classes, {seen.sum()} to train with")

# %% [markdown]
# The network starts from weights that were pretrained on other toy cars. For photos, use `backbone =
# tfdml.backbones.KerasApplication("MobileNetV2")` and `backbone.load_imagenet()`, which downloads 9 MB, and a learning
# rate of 1e-4.

# %%
keras.utils.set_random_seed(0)
backbone = tfdml.backbones.Small(width=16)
backbone.load_weights(backbone.shipped_weights["toycars"])
model = tfdml.Single(backbone, embedding_size=64)
model.preprocessing = tfdml.Preprocessing.of(model, SIZE)
model.compile(keras.optimizers.Adam(1e-3), tfdml.losses.MultiSimilarity())
batches = tfdml.data.pxk(list(paths[seen]), labels[seen], classes=8, per_class=4, backbone=model, image_size=SIZE)


def found_right():
    """Returns for each new photo whether the most similar of the other new photos has the same class."""
    embeddings = tfdml.ImageEmbedder(model).embed(list(new_paths))
    similarities = embeddings @ embeddings.T
    np.fill_diagonal(similarities, -1)
    return new_labels[similarities.argmax(axis=1)] == new_labels


before = found_right()
model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=2)
after = found_right()
print(f"Recall@1 on new classes: {before.mean():.1%} before training, {after.mean():.1%} after it")

# %% [markdown]
# Save the model, and search the new photos. The query is the first photo with a correct nearest neighbor, so the
# picture shows a success; the score above is the share of photos for which this is so. The index also contains the
# query, and would find it first, so a filter excludes it.

# %%
tfdml.save_preset(model, PRESET)
row = after.argmax()
with tfdml.Index(tfdml.from_preset(PRESET)) as index:
    index.add(list(new_paths), labels=list(new_labels))
    found = index.search([new_paths[row]], k=6, where=f"id != {row}")
print(f"Most similar to {new_paths[row]}:")
for neighbor in found[0]:
    print(f"{neighbor.similarity:.3f}  {neighbor.label}  {Path(neighbor.path).name}")
contact_sheet.draw([new_paths[row]], found, "found.png")
Image.open("found.png")
