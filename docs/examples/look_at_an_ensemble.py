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

CLASSES, IMAGES_EACH, EPOCHS, BATCH_CLASSES, LEARNERS = 100, 16, 4, 32, 3
CROP = "random_resized_crop(area=(0.7, 1.0), aspect=(0.9, 1.1))|flip"

cars = load(f"toycars(classes={CLASSES}, images_per_class={IMAGES_EACH})")

# %% [markdown]
# The loss is the sum of the learners' own, and a divergence that pushes the learners' embeddings of one image apart.

# %%
keras.utils.set_random_seed(0)
backbone = tfdml.backbones.Small(width=16)
backbone.load_weights(backbone.shipped_weights["toycars"])
model = tfdml.AttentionEnsemble(backbone, 96, LEARNERS, branch="stage3", attention_depth=1, initial_mask=0.9)
model.preprocessing = tfdml.Preprocessing.of(model, 48)
model.compile(keras.optimizers.Adam(2e-3), tfdml.losses.Triplet(margin=0.2, mining="semi_hard", squared=False))
images, labels = list(cars.train.images), cars.train.labels
batches = tfdml.data.pxk(
    images, labels, classes=BATCH_CLASSES, per_class=4, backbone=model, image_size=48, transform=CROP
)
model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=2)

# %% [markdown]
# Each learner alone, and the first ones together, on classes that training does not see. The correlation is that of
# dimensions of different learners: 0 where they say different things, 1 where they say the same. One short run shows
# how to look, and not what an ensemble wins; the studies of the documentation measure that.

# %%
embedder = tfdml.ImageEmbedder(model)
images, labels = list(cars.test.images), cars.test.labels
embeddings = embedder.embed(images)


def recall(embeddings):
    """How often the most similar image is of the same class."""
    return tfdml.evaluation.evaluate(embeddings, labels, "recall_at_1")


found = tfdml.evaluation.diversity(embeddings, labels, LEARNERS, recall)
print("Recall@1 alone:", *(f"{each['recall_at_1']:.3f}" for each in found["alone"]))
print("Recall@1 of the first ones:", *(f"{each['recall_at_1']:.3f}" for each in found["first"]))
print(f"Correlation {found['correlation']:.3f}")
tfdml.reporting.draw_learners(found, "learners.png")
Image.open("learners.png")

# %% [markdown]
# Similar pairs are of the same class, the blue ones; the green ones are one image by two learners.

# %%
tfdml.reporting.draw_pair_cosines(found["pair_cosines"], "pair_cosines.png")
Image.open("pair_cosines.png")

# %% [markdown]
# Masks, bright where a learner looks: the mean over all channels, and the channels in which the learners differ most.

# %%
shown = [images[row] for row in np.linspace(0, len(images) - 1, 3).astype(int)]
masks = np.asarray(model.attention_masks(embedder.prepare(shown)))
pictures = np.stack([np.asarray(Image.open(io.BytesIO(content))) for content in shown])
tfdml.reporting.draw_attention(pictures, masks, "attention.png")
Image.open("attention.png")
