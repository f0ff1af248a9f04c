# %% [markdown]
# # Is one loss better than another?
#
# Three rules make the answer honest. Each loss gets the same network, batches and steps, and its own learning rate. The
# learning rate is chosen on validation classes, never on the test. And the difference comes with an interval, over
# several seeds and over the classes of the test: another test would have other classes.

# %%
import keras
import numpy as np

import tfdml
from pipelines.datasets import load
from tfdml.evaluation.comparison import compare
from tfdml.evaluation.measure import measure
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.search import Search

CLASSES, IMAGES_EACH, EPOCHS, SEEDS = 80, 16, 4, 2
RATES = (1e-3, 3e-3)
LOSSES = {"contrastive": tfdml.losses.Contrastive, "multi_similarity": tfdml.losses.MultiSimilarity}
RECALL = metrics_of("recall_at_1")

cars = load(f"toycars(classes={CLASSES}, images_per_class={IMAGES_EACH})")
held_out = np.isin(cars.train.labels, np.unique(cars.train.labels)[::4])


# %%
def trained(loss, rate, rows, seed):
    """A model that was trained on some rows of the training split."""
    keras.utils.set_random_seed(seed)
    backbone = tfdml.backbones.Small(width=16)
    backbone.load_weights(backbone.shipped_weights["toycars"])
    model = tfdml.Single(backbone, embedding_size=64)
    model.preprocessing = tfdml.Preprocessing.of(model, 48)
    model.compile(keras.optimizers.Adam(rate), loss())
    images, labels = list(cars.train.images[rows]), cars.train.labels[rows]
    batches = tfdml.data.pxk(images, labels, classes=8, per_class=4, backbone=model, image_size=48, seed=seed)
    model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=0)
    return model


def scores(model, images, labels):
    """Whether the nearest neighbor of each image is of its class, by image."""
    return measure(tfdml.ImageEmbedder(model).embed(list(images)), Search.of(labels), RECALL)


# %% [markdown]
# Learning rates, on the classes that are held out of training. Seed 100 is none of those below.

# %%
chosen = {}
for name, loss in LOSSES.items():
    models = {rate: trained(loss, rate, ~held_out, seed=100) for rate in RATES}
    validation = cars.train.images[held_out], cars.train.labels[held_out]
    recalls = {rate: scores(model, *validation).values["recall_at_1"] for rate, model in models.items()}
    chosen[name] = max(recalls, key=recalls.get)
    print(f"{name}: learning rate {chosen[name]}, validation Recall@1 {recalls}")

# %% [markdown]
# Then all training classes, and the test once.

# %%
everything = np.ones(len(cars.train.labels), bool)
found = {name: [] for name in LOSSES}
for name, loss in LOSSES.items():
    for seed in range(SEEDS):
        model = trained(loss, chosen[name], everything, seed)
        found[name].append(scores(model, cars.test.images, cars.test.labels))
queries = found["contrastive"][0].queries
answer = compare(*found.values(), RECALL, clusters=cars.test.labels[queries])["recall_at_1"]
low, high = answer["interval"]
print(f"contrastive {answer['a']:.3f}, multi_similarity {answer['b']:.3f}")
print(f"difference {answer['difference']:+.3f}, 95% of the time between {low:+.3f} and {high:+.3f}")
print({"a": "contrastive is better", "b": "multi_similarity is better", None: "no difference found"}[answer["better"]])
