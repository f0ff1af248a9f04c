# %% [markdown]
# # Is one loss better than another?
#
# A fair comparison follows three rules. Both losses get the same network, the same batches and the same number of
# steps, and each one gets its own learning rate. The learning rate is chosen on validation classes, never on the test
# set. And the difference has a 95% confidence interval, over several seeds and over the test classes, because another
# test set would have other classes.
#
# This notebook trains eight models, in about five minutes on two CPU cores.

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
    """Returns a model with a network pretrained on other toy cars, and a random linear layer."""
    keras.utils.set_random_seed(seed)
    backbone = tfdml.backbones.Small(width=16)
    backbone.load_weights(backbone.shipped_weights["toycars"])
    model = tfdml.Single(backbone, embedding_size=64)
    model.preprocessing = tfdml.Preprocessing.of(model, 48)
    return model


def trained(loss, rate, rows, seed):
    """Returns a model trained on some rows of the training split."""
    model = untrained(seed)
    model.compile(keras.optimizers.Adam(rate), loss())
    images, labels = list(cars.train.images[rows]), cars.train.labels[rows]
    batches = tfdml.data.pxk(
        images, labels, classes=8, per_class=4, backbone=model, image_size=48, transform="warp|flip", seed=seed
    )
    model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=0)
    return model


def scores(model, images, labels):
    """Returns for each image whether its nearest neighbor has the same class."""
    return measure(tfdml.ImageEmbedder(model).embed(list(images)), RetrievalTask.of(labels), RECALL)


# %% [markdown]
# First, choose each loss's learning rate on validation classes: every third training class is held out. Seed 100 is not
# used again below.

# %%
validation = cars.train.images[held_out], cars.train.labels[held_out]
print(f"before training: validation Recall@1 {scores(untrained(100), *validation).values['recall_at_1']:.1%}")
chosen = {}
for name, loss in LOSSES.items():
    models = {rate: trained(loss, rate, ~held_out, seed=100) for rate in RATES}
    recalls = {rate: scores(model, *validation).values["recall_at_1"] for rate, model in models.items()}
    chosen[name] = max(recalls, key=recalls.get)
    for rate, recall in recalls.items():
        print(f"{name}: learning rate {rate}, validation Recall@1 {recall:.1%}")

# %% [markdown]
# Then train on all training classes with these learning rates, and use the test set once. The test scores are lower
# than the validation scores, because 50 classes are easier to confuse than 17. Only compare scores of the same classes.

# %%
test = cars.test.images, cars.test.labels
print(f"before training: test Recall@1 {scores(untrained(0), *test).values['recall_at_1']:.1%}")
everything = np.ones(len(cars.train.labels), bool)
found = {name: [] for name in LOSSES}
for name, loss in LOSSES.items():
    for seed in range(SEEDS):
        model = trained(loss, chosen[name], everything, seed)
        found[name].append(scores(model, *test))
queries = found["contrastive"][0].queries
answer = compare(*found.values(), RECALL, clusters=cars.test.labels[queries])["recall_at_1"]
low, high = answer["interval"]
print(f"contrastive {answer['a']:.1%}, multi_similarity {answer['b']:.1%}")
print(f"difference {100 * answer['difference']:+.1f} points, 95% CI {100 * low:+.1f} to {100 * high:+.1f}")
print({"a": "contrastive is better", "b": "multi_similarity is better", None: "no difference found"}[answer["better"]])
