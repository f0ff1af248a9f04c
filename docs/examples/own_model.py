# %% [markdown]
# # Metric learning in Keras
#
# Train an image embedding with `compile` and `fit`, in about two minutes on two CPU cores. You will see the score on
# new classes rise, and what it means: the nearest neighbors of a few images, before and after training. [What is metric
# learning?](../metric_learning.md) explains the idea. [Metric learning in your Keras code](../keras.md) has details.
#
# The images are toy cars, which tfdml draws itself. A class is the design of a car: its body, wheels and windows. Its
# color, background and light change from image to image, and the embedding has to learn to ignore them.

# %%
import io

import keras
import numpy as np
from PIL import Image, ImageOps

import tfdml
from pipelines.datasets import load

CLASSES, IMAGES_EACH, EPOCHS = 200, 20, 8

cars = load(f"toycars(classes={CLASSES}, images_per_class={IMAGES_EACH})")
images, new_images = (
    np.stack([np.asarray(Image.open(io.BytesIO(image))) for image in split.images]) for split in (cars.train, cars.test)
)
labels, new_labels = cars.train.labels, cars.test.labels
print(f"{len(images)} training images and {len(new_images)} test images, with {CLASSES // 2} classes each")

# %% [markdown]
# The first half of the classes is for training, and the other half is the test set. Here are four classes, one per row.


# %%
def grid(rows, colors):
    """Draws rows of images as one picture, each image with a frame of its color."""
    return Image.fromarray(np.vstack([np.hstack(list(map(framed, *row))) for row in zip(rows, colors, strict=True)]))


def framed(image, color):
    return ImageOps.expand(Image.fromarray(image).resize((72, 72)), 4, str(color))


grid([images[labels == label][:7] for label in np.unique(labels)[:4]], [["white"] * 7] * 4)

# %% [markdown]
# Any Keras model with an output of shape `[batch, dimensions]` can be trained with a tfdml loss. This one has a small
# network that was pretrained on other toy cars, a linear layer, and a layer that scales embeddings to length 1.

# %%
keras.utils.set_random_seed(0)
network = tfdml.backbones.Small(width=16)
network.load_weights(network.shipped_weights["toycars"])
tfdml.layers.freeze_batch_norm(network, "all")  # It stays as it was in pretraining.
pooled = [network, keras.layers.GlobalAveragePooling2D()]
pixels = keras.layers.Normalization(mean=network.mean, variance=np.square(network.std))
embedding = [keras.layers.Dense(64), keras.layers.UnitNormalization()]
model = keras.Sequential([keras.Input((48, 48, 3)), pixels, *pooled, *embedding])
# Keras' backends draw different random weights. NumPy draws the same weights for all of them.
embedding[0].kernel.assign(np.random.default_rng(0).normal(scale=0.1, size=embedding[0].kernel.shape))

# %% [markdown]
# Each row shows a test image on the left and its six nearest neighbors among all test images. A green frame is an image
# of the same class. Before training, the network often confuses design with color.


# %%
def neighbors(model):
    """Draws a few test images, each with its six nearest neighbors."""
    embeddings = model.predict(new_images, verbose=0)
    similarities = embeddings @ embeddings.T
    np.fill_diagonal(similarities, -1)  # An image is not its own neighbor.
    nearest = np.argsort(-similarities[queries], axis=1)[:, :6]
    same = new_labels[nearest] == new_labels[queries][:, None]
    colors = [["white", *np.where(row, "green", "red")] for row in same]
    return grid([new_images[[row, *found]] for row, found in zip(queries, nearest, strict=True)], colors)


def recall_on_new_classes(model):
    """Returns the share of test images with a nearest neighbor of the same class."""
    return tfdml.evaluation.evaluate(model.predict(new_images, verbose=0), new_labels)["recall_at_1"]


queries = range(10, len(new_images), len(new_images) // 5)
before = recall_on_new_classes(model)
neighbors(model)

# %% [markdown]
# Every fifth training class is held out for validation, and `RetrievalEvaluation` measures it after each epoch. The
# loss compares the images of a batch, four each of eight classes. The learning rate falls to 0.

# %%
held_out = np.isin(labels, np.unique(labels)[::5])
batches = tfdml.data.pxk(images[~held_out], labels[~held_out], classes=8, per_class=4, transform=None)
rate = keras.optimizers.schedules.CosineDecay(3e-4, decay_steps=EPOCHS * len(batches))
model.compile(keras.optimizers.Adam(rate), loss=tfdml.losses.MultiSimilarity())
evaluation = tfdml.callbacks.RetrievalEvaluation(images[held_out], labels[held_out])
model.fit(batches, epochs=EPOCHS, callbacks=[evaluation], shuffle=False, verbose=0)
for epoch, score in enumerate(model.history.history["val_recall_at_1"], start=1):
    print(f"Epoch {epoch:2}: Recall@1 {score:.1%} on validation classes")

# %% [markdown]
# The same images again, with their neighbors after training:

# %%
neighbors(model)

# %% [markdown]
# Save the model and search with it. The query is the third one of the picture; it is also in the index, so it is the
# first result. Next, you can [search your own photos](../search_your_photos.md) or [pick another loss](../losses.md).

# %%
print(f"Recall@1 on new classes: {before:.1%} before training, {recall_on_new_classes(model):.1%} after it")
model.save("own_model.keras")
with tfdml.Index(keras.models.load_model("own_model.keras")) as index:
    index.add(new_images, labels=[f"design {label}" for label in new_labels])
    (found,) = index.search(new_images[[queries[2]]], k=5)
print(f"Most similar to an image of design {new_labels[queries[2]]}:")
for neighbor in found:
    print(f"{neighbor.similarity:.3f}  {neighbor.label}")
