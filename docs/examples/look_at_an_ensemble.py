# %% [markdown]
# # Look at an ensemble of learners
#
# An Attention-based Ensemble has several learners in one network, each with a mask that says where it looks. Are they
# better together than alone, and do they differ?

# %%
import io

import keras
import numpy as np
from PIL import Image

import tfdml
from pipelines.datasets import load

CLASSES, IMAGES_EACH, EPOCHS, LEARNERS = 100, 20, 6, 3

cars = load(f"toycars(classes={CLASSES}, images_per_class={IMAGES_EACH})")
test_images, test_labels = list(cars.test.images), cars.test.labels

# %% [markdown]
# The loss is the sum of the learners' own, and a divergence that pushes the learners' embeddings of one image apart.
# These settings were tried on a fifth of the training classes, held out for that, and not on the test classes.

# %%
keras.utils.set_random_seed(0)
backbone = tfdml.backbones.Small(width=16)
backbone.load_weights(backbone.shipped_weights["toycars"])
model = tfdml.AttentionEnsemble(backbone, 96, LEARNERS, branch="stage3", attention_depth=1, initial_mask=0.9)
model.preprocessing = tfdml.Preprocessing.of(model, 48)
model.compile(keras.optimizers.Adam(1e-3), tfdml.losses.MultiSimilarity())
images, labels = list(cars.train.images), cars.train.labels
batches = tfdml.data.pxk(images, labels, classes=8, per_class=4, backbone=model, image_size=48, transform="warp|flip")
embedder = tfdml.ImageEmbedder(model)


def recall(embeddings):
    """How often the most similar image is of the same class, among the test classes."""
    return tfdml.evaluation.evaluate(embeddings, test_labels, "recall_at_1")


untrained = recall(embedder.embed(test_images))["recall_at_1"]
model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=2)

# %% [markdown]
# Each learner alone, and the first ones together, on classes that training does not see. The correlation is that of
# dimensions of different learners: 0 where they say different things, 1 where they say the same. One short run shows
# how to look, and not what an ensemble wins over one learner; the studies of the documentation measure that.

# %%
embeddings = embedder.embed(test_images)
found = tfdml.evaluation.diversity(embeddings, test_labels, LEARNERS, recall)
print("Recall@1 alone:", *(f"{each['recall_at_1']:.3f}" for each in found["alone"]))
print("Recall@1 of the first ones:", *(f"{each['recall_at_1']:.3f}" for each in found["first"]))
print(f"Recall@1 of all before training: {untrained:.3f}")
print(f"Correlation {found['correlation']:.3f}")
tfdml.reporting.draw_learners(found, "learners.png")
Image.open("learners.png")

# %% [markdown]
# Cosines of pairs of embeddings, 1 where both are equal. Orange: two images of different classes, by one learner. Blue:
# two images of the same class, by one learner. Green: one image, by two learners. Blue should be right of orange, since
# then classes are told apart, and green left of 1, since then learners differ.

# %%
tfdml.reporting.draw_pair_cosines(found["pair_cosines"], "pair_cosines.png")
Image.open("pair_cosines.png")

# %% [markdown]
# A learner has a mask for each channel of the features, which multiplies it. First the mean over channels, then the
# channels in which the learners differ most. Bright is the highest value in a row, and dark the lowest: a learner whose
# mask is dark all over takes less of this channel than the others do.

# %%
shown = [test_images[row] for row in np.linspace(0, len(test_images) - 1, 3).astype(int)]
masks = np.asarray(model.attention_masks(embedder.prepare(shown)))
pictures = np.stack([np.asarray(Image.open(io.BytesIO(content))) for content in shown])
tfdml.reporting.draw_attention(pictures, masks, "attention.png")
Image.open("attention.png")
