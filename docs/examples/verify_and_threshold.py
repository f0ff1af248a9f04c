# %% [markdown]
# # Do two photos show the same thing?
#
# Two photos show the same thing if their similarity reaches a threshold. We fit the threshold for a **false accept
# rate**, the share of pairs of different classes that it may accept, on classes that the model has not seen, and
# measure it on other new classes. A second threshold recognizes images of unknown classes, in an open-set search.

# %%
import keras
import numpy as np
from PIL import Image

import tfdml
from pipelines.datasets import load
from tfdml.evaluation.queries import RetrievalTask
from tfdml.evaluation.verification.pairs import RetrievalPairs
from tfdml.evaluation.verification.thresholds import fit_threshold

CLASSES, IMAGES_EACH = 150, 16
PAIRS_FAR, UNKNOWN_FAR = 0.05, 0.2

cars = load(f"toycars(classes={CLASSES}, images_per_class={IMAGES_EACH})")
held_out = np.isin(cars.train.labels, np.unique(cars.train.labels)[::3])

# %% [markdown]
# To be quick, this notebook does not train. Its embedding is LDA (linear discriminant analysis) of the features of a
# pretrained network, which is also how tfdml initializes an embedding. With your own model, write `embedder =
# tfdml.load("runs/mine")` instead.

# %%
keras.utils.set_random_seed(0)
backbone = tfdml.backbones.Small(width=16)
backbone.load_weights(backbone.shipped_weights["toycars"])
model = tfdml.Single(backbone, embedding_size=64)
model.preprocessing = tfdml.Preprocessing.of(model, 48)
embedder = tfdml.ImageEmbedder(model)
prepared = embedder.prepare(list(cars.train.images[~held_out]))
model(prepared[:1])
tfdml.callbacks.InitialEmbedding(prepared, cars.train.labels[~held_out], kind="lda").apply(model)

# %% [markdown]
# The threshold is the lowest one that accepts at most 5% of the pairs of different classes. This is exact only for
# these classes: it accepts fewer pairs of the new classes below, which happen to look less similar. The interval shows
# how far the threshold could move with other classes of the same kind.

# %%
labels = cars.train.labels[held_out]
embeddings = embedder.embed(list(cars.train.images[held_out]))
fitted = fit_threshold(RetrievalPairs.of(embeddings, RetrievalTask.of(labels)), far=PAIRS_FAR)
low, high = fitted["interval"]
print(f"Accept pairs with a similarity of at least {fitted['threshold']:.3f} (95% CI {low:.3f} to {high:.3f})")

# %%
new_images, new_labels = cars.test.images, cars.test.labels
new_embeddings = embedder.embed(list(new_images))
pairs = RetrievalPairs.of(new_embeddings, RetrievalTask.of(new_labels))
similarities, same = new_embeddings @ new_embeddings.T, new_labels[:, None] == new_labels
accepted, once = similarities >= fitted["threshold"], np.triu(np.ones_like(same), 1)
print(f"On new classes, it accepts {accepted[same & once].mean():.1%} of the pairs of the same class ", end="")
print(f"and {accepted[~same & once].mean():.2%} of the pairs of different classes")
tfdml.reporting.draw_roc(pairs.counts, "roc.png")
Image.open("roc.png")

# %% [markdown]
# A search compares an image of an unknown class with every image of the index, and one of them may be similar by
# chance. Therefore, a search needs a higher threshold. Here, every second class is unknown, and every second image of
# the known classes is in the index.


# %%
def parts(labels):
    """Returns which images are of known classes, and which of these are in the index."""
    known = np.isin(labels, np.unique(labels)[::2])
    return known, known & (np.arange(len(labels)) % 2 == 0)


known, indexed = parts(labels)
nearest = (embeddings[~known] @ embeddings[indexed].T).max(axis=1)
threshold = float(np.quantile(nearest, 1 - UNKNOWN_FAR))

known, indexed = parts(new_labels)
with tfdml.Index(embedder) as index:
    index.add(list(new_images[indexed]), labels=[f"design {label}" for label in new_labels[indexed]])
    found = np.array([each.label for each in index.label(list(new_images[~indexed]), k=1, threshold=threshold)])
right = found == np.array([f"design {label}" for label in new_labels[~indexed]])
queries_known = known[~indexed]
print(f"With a threshold of {threshold:.3f}, {right[queries_known].mean():.1%} of the images of known classes ", end="")
print(f"get their label, and {np.mean(found[~queries_known] == None):.1%} of the others are unknown")  # noqa: E711
