# %% [markdown]
# # A loss in a Keras model of your own
#
# Any Keras model whose output is `[batch, dimensions]` takes a loss of tfdml. Batches need several images of each
# class, which `tfdml.data.pxk` makes.

# %%
import keras
import numpy as np
import tensorflow as tf

import tfdml
from pipelines.datasets import load

CLASSES, IMAGES_EACH, EPOCHS = 100, 20, 8


def pixels_of(split):
    """Pixels `[N, 48, 48, 3]` from 0 to 255."""
    return np.stack([tf.io.decode_jpeg(content, 3).numpy() for content in split.images])


cars = load(f"toycars(classes={CLASSES}, images_per_class={IMAGES_EACH})")
images, labels, new_images = pixels_of(cars.train), cars.train.labels, pixels_of(cars.test)
held_out = np.isin(labels, np.unique(labels)[::5])

# %% [markdown]
# The model scales pixels itself, so it takes the images as they are: `transform=None`. Its network is one that knows
# toy cars; any other will do.

# %%
keras.utils.set_random_seed(0)
network = tfdml.backbones.Small(width=16)
network.load_weights(network.shipped_weights["toycars"])
mean, std = np.array(network.mean), np.array(network.std)
model = keras.Sequential(
    [
        keras.Input((48, 48, 3)),
        keras.layers.Rescaling(scale=list(1 / std), offset=list(-mean / std)),
        network,
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(64),
        keras.layers.UnitNormalization(),
    ]
)
model.compile(keras.optimizers.Adam(1e-3), loss=tfdml.losses.MultiSimilarity())

# %% [markdown]
# A fifth of the training classes is held out, and the callback measures it after each epoch: choose settings by these
# scores. The test classes are measured once, before training and after it. Their scores are lower, because there are
# five times as many to confuse.

# %%
batches = tfdml.data.pxk(images[~held_out], labels[~held_out], classes=8, per_class=4, transform=None)
evaluation = tfdml.callbacks.RetrievalEvaluation(images[held_out], labels[held_out])


def recall_of_new_classes(model):
    """How often the most similar image is of the same class, among the test classes."""
    return tfdml.evaluation.evaluate(model.predict(new_images, verbose=0), cars.test.labels)["recall_at_1"]


untrained = recall_of_new_classes(model)
model.fit(batches, epochs=EPOCHS, callbacks=[evaluation], shuffle=False, verbose=2)
print(f"Recall@1 of new classes: {untrained:.3f} untrained, {recall_of_new_classes(model):.3f} trained")
model.save("own_model.keras")

# %% [markdown]
# Load the model, elsewhere after `import tfdml`, and search with it. An index takes a Keras model as it is, and images
# as that takes them.

# %%
with tfdml.Index(keras.models.load_model("own_model.keras")) as index:
    index.add(new_images[1:], labels=[f"design {label}" for label in cars.test.labels[1:]])
    (found,) = index.search(new_images[:1], k=5)
print(f"Most similar to an image of design {cars.test.labels[0]}:")
for neighbor in found:
    print(f"{neighbor.similarity:.3f}  {neighbor.label}")
