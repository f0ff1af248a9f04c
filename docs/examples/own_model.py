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
images, new_images = pixels_of(cars.train), pixels_of(cars.test)

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
# The callback measures classes that training does not see, after each epoch. Choose settings on other classes than
# those that you report.

# %%
batches = tfdml.data.pxk(images, cars.train.labels, classes=8, per_class=4, transform=None)
evaluation = tfdml.callbacks.RetrievalEvaluation(new_images, cars.test.labels)
untrained = tfdml.evaluation.evaluate(model.predict(new_images, verbose=0), cars.test.labels)["recall_at_1"]
model.fit(batches, epochs=EPOCHS, callbacks=[evaluation], shuffle=False, verbose=2)

# %%
trained = tfdml.evaluation.evaluate(model.predict(new_images, verbose=0), cars.test.labels)["recall_at_1"]
print(f"Recall@1 of new classes: {untrained:.3f} untrained, {trained:.3f} trained")
model.save("own_model.keras")
