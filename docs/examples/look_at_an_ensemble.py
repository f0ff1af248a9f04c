# %% [markdown]
# # Look at an ensemble of learners
#
# An Attention-based Ensemble has several learners in one network. Each learner has attention masks, which weight the
# features at each place of an image. Are the learners better together than alone, and do they differ?

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
# The loss is the sum of the learners' losses and of a divergence loss, which pushes the learners' embeddings of one
# image apart. We chose these settings on held-out training classes, not on the test classes.

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
    """Returns Recall@1 on the test classes."""
    return tfdml.evaluation.evaluate(embeddings, test_labels, "recall_at_1")


untrained = recall(embedder.embed(test_images))["recall_at_1"]
model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=2)

# %% [markdown]
# Measure each learner alone and the first ones together, on classes that are not in training. The correlation compares
# the dimensions of different learners: 0 if they contain different information, 1 if they contain the same. One short
# run shows how to look at an ensemble. Whether an ensemble is better than one learner is measured in [our
# experiments](../evidence/README.md).

# %%
embeddings = embedder.embed(test_images)
found = tfdml.evaluation.diversity(embeddings, test_labels, LEARNERS, recall)
print("Recall@1 alone:", *(f"{each['recall_at_1']:.1%}" for each in found["alone"]))
print("Recall@1 of the first ones:", *(f"{each['recall_at_1']:.1%}" for each in found["first"]))
print(f"Recall@1 of all before training: {untrained:.1%}")
print(f"Correlation {found['correlation']:.3f}")
tfdml.reporting.draw_learners(found, "learners.png")
Image.open("learners.png")

# %% [markdown]
# The next figure shows cosine similarities of pairs of embeddings. Orange pairs are two images of different classes,
# embedded by one learner. Blue pairs are two images of the same class, by one learner. Green pairs are one image,
# embedded by two learners. Blue should be to the right of orange, because then the classes are separated. Green should
# be to the left of 1, because then the learners differ.

# %%
tfdml.reporting.draw_pair_cosines(found["pair_cosines"], "pair_cosines.png")
Image.open("pair_cosines.png")

# %% [markdown]
# A learner has one mask per channel of the features, by which the channel is multiplied. The last figure shows the mean
# over all channels first, and then the channels in which the learners differ most. Within a row, bright is the highest
# value and dark the lowest. If a learner's mask is dark everywhere, this learner uses the channel less than the others
# do.

# %%
shown = [test_images[row] for row in np.linspace(0, len(test_images) - 1, 3).astype(int)]
masks = np.asarray(model.attention_masks(embedder.prepare(shown)))
pictures = np.stack([np.asarray(Image.open(io.BytesIO(content))) for content in shown])
tfdml.reporting.draw_attention(pictures, masks, "attention.png")
Image.open("attention.png")
