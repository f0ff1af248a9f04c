# %% [markdown]
# # Do two photos show the same thing?
#
# A threshold of similarity decides. It is fitted for a rate of false accepts, on classes that the model does not know,
# and measured on others. A second one tells images of known classes from those of strangers.

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
PAIRS_FAR, STRANGERS_FAR = 0.05, 0.2

cars = load(f"toycars(classes={CLASSES}, images_per_class={IMAGES_EACH})")
held_out = np.isin(cars.train.labels, np.unique(cars.train.labels)[::3])

# %% [markdown]
# To be quick, the embedding is not trained: it is linear discriminants of a pretrained network's features, with which
# training begins. Put your model here: `embedder = tfdml.load("runs/mine")`.

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
# The threshold is the lowest that accepts at most a twentieth of the pairs of different classes. That holds for these
# classes alone: of the new ones below it accepts fewer, which happen to be less alike. The interval says where the
# threshold would be with other classes of the same kind.

# %%
labels = cars.train.labels[held_out]
embeddings = embedder.embed(list(cars.train.images[held_out]))
fitted = fit_threshold(RetrievalPairs.of(embeddings, RetrievalTask.of(labels)), far=PAIRS_FAR)
low, high = fitted["interval"]
print(f"Accept pairs from a similarity of {fitted['threshold']:.3f}, of other classes {low:.3f} to {high:.3f}")

# %%
new_images, new_labels = cars.test.images, cars.test.labels
new_embeddings = embedder.embed(list(new_images))
pairs = RetrievalPairs.of(new_embeddings, RetrievalTask.of(new_labels))
similarities, same = new_embeddings @ new_embeddings.T, new_labels[:, None] == new_labels
accepted, once = similarities >= fitted["threshold"], np.triu(np.ones_like(same), 1)
print(f"Of new classes: accepts {accepted[same & once].mean():.1%} of the pairs of the same class, ", end="")
print(f"and {accepted[~same & once].mean():.2%} of the others")
tfdml.reporting.draw_roc(pairs.counts, "roc.png")
Image.open("roc.png")

# %% [markdown]
# A stranger is compared with every image of an index, so that one of them is similar by chance: it takes another
# threshold. Here every second class is a stranger, and of the others every second image is in the index.


# %%
def parts(labels):
    """Which images are of known classes, and which of those are in the index."""
    known = np.isin(labels, np.unique(labels)[::2])
    return known, known & (np.arange(len(labels)) % 2 == 0)


known, indexed = parts(labels)
nearest = (embeddings[~known] @ embeddings[indexed].T).max(axis=1)
threshold = float(np.quantile(nearest, 1 - STRANGERS_FAR))

known, indexed = parts(new_labels)
with tfdml.Index(embedder) as index:
    index.add(list(new_images[indexed]), labels=[f"design {label}" for label in new_labels[indexed]])
    found = np.array([each.label for each in index.label(list(new_images[~indexed]), k=1, threshold=threshold)])
right = found == np.array([f"design {label}" for label in new_labels[~indexed]])
queries_known = known[~indexed]
print(f"From {threshold:.3f}: of known classes {right[queries_known].mean():.1%} get their label, ", end="")
print(f"of strangers {np.mean(found[~queries_known] == None):.1%} are unknown")  # noqa: E711
