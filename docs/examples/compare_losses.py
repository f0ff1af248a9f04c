# %% [markdown]
# # Is one loss better than another?
#
# Three rules make the answer honest. Each loss gets the same network, batches and steps, and its own learning rate. The
# learning rate is chosen on validation classes, never on the test. And the difference comes with an interval, over
# several seeds and over the classes of the test: another test would have other classes.
#
# Eight models are trained, which takes about five minutes on two cores.

# %%
import keras
import numpy as np

import tfdml
from pipelines.datasets import load
from tfdml.evaluation.comparison import compare
from tfdml.evaluation.evaluate import measure
from tfdml.evaluation.metrics import metrics_of
from tfdml.evaluation.queries import RetrievalTask

CLASSES, IMAGES_EACH, EPOCHS, SEEDS = 100, 20, 4, 2
RATES = (3e-4, 1e-3)
LOSSES = {"contrastive": tfdml.losses.Contrastive, "multi_similarity": tfdml.losses.MultiSimilarity}
RECALL = metrics_of("recall_at_1")

cars = load(f"toycars(classes={CLASSES}, images_per_class={IMAGES_EACH})")
held_out = np.isin(cars.train.labels, np.unique(cars.train.labels)[::3])


# %%
def untrained(seed):
    """A model that begins with weights that know toy cars, and a random linear layer."""
    keras.utils.set_random_seed(seed)
    backbone = tfdml.backbones.Small(width=16)
    backbone.load_weights(backbone.shipped_weights["toycars"])
    model = tfdml.Single(backbone, embedding_size=64)
    model.preprocessing = tfdml.Preprocessing.of(model, 48)
    return model


def trained(loss, rate, rows, seed):
    """A model that was trained on some rows of the training split."""
    model = untrained(seed)
    model.compile(keras.optimizers.Adam(rate), loss())
    images, labels = list(cars.train.images[rows]), cars.train.labels[rows]
    batches = tfdml.data.pxk(
        images, labels, classes=8, per_class=4, backbone=model, image_size=48, transform="warp|flip", seed=seed
    )
    model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=0)
    return model


def scores(model, images, labels):
    """Whether the nearest neighbor of each image is of its class, by image."""
    return measure(tfdml.ImageEmbedder(model).embed(list(images)), RetrievalTask.of(labels), RECALL)


# %% [markdown]
# Learning rates, on the third of the training classes that is held out. Seed 100 is none of those below.

# %%
validation = cars.train.images[held_out], cars.train.labels[held_out]
print(f"untrained: validation Recall@1 {scores(untrained(100), *validation).values['recall_at_1']:.3f}")
chosen = {}
for name, loss in LOSSES.items():
    models = {rate: trained(loss, rate, ~held_out, seed=100) for rate in RATES}
    recalls = {rate: scores(model, *validation).values["recall_at_1"] for rate, model in models.items()}
    chosen[name] = max(recalls, key=recalls.get)
    for rate, recall in recalls.items():
        print(f"{name}: learning rate {rate}, validation Recall@1 {recall:.3f}")

# %% [markdown]
# Then all training classes, and the test once. Its scores are lower than those of validation because it has 50 classes,
# and validation 17: an image has more others to be confused with. Compare scores of the same classes alone.

# %%
test = cars.test.images, cars.test.labels
print(f"untrained: test Recall@1 {scores(untrained(0), *test).values['recall_at_1']:.3f}")
everything = np.ones(len(cars.train.labels), bool)
found = {name: [] for name in LOSSES}
for name, loss in LOSSES.items():
    for seed in range(SEEDS):
        model = trained(loss, chosen[name], everything, seed)
        found[name].append(scores(model, *test))
queries = found["contrastive"][0].queries
answer = compare(*found.values(), RECALL, clusters=cars.test.labels[queries])["recall_at_1"]
low, high = answer["interval"]
print(f"contrastive {answer['a']:.3f}, multi_similarity {answer['b']:.3f}")
print(f"difference {answer['difference']:+.3f}, 95% of the time between {low:+.3f} and {high:+.3f}")
print({"a": "contrastive is better", "b": "multi_similarity is better", None: "no difference found"}[answer["better"]])
