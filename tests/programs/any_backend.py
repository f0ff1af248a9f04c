"""Trains, evaluates, saves, loads and searches with Keras' backend, and prints what came of it as JSON.

It is run with environments that lack TensorFlow or, as on Windows, fcntl. The argument is an empty folder.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
from PIL import Image

import tfdml
from pipelines.py_datasets import DrawnBatches
from pipelines.sampling import PxK, WithinClusters

CLASSES, EACH, SIDE = 6, 8, 24
RNG = np.random.default_rng(0)


def main():
    folder = Path(sys.argv[1])
    paths, labels = photos(folder)
    # Every eighth image of a class is searched among the others.
    test = np.arange(len(paths)) % EACH == 0
    gallery, queries = ([str(path) for path in np.array(paths)[part]] for part in (~test, test))
    model, history, steps = trained(gallery, labels[~test])
    model.save(folder / "model.keras")
    loaded = tfdml.load(folder / "model.keras")
    embeddings = loaded.embed(gallery)
    goes_on = keras.models.load_model(folder / "model.keras")
    again = goes_on.fit(loaded.prepare(gallery), labels[~test], verbose=0).history["loss"]
    with tfdml.Index(loaded) as index:
        index.add(gallery, labels=[f"class {label}" for label in labels[~test]])
        found = [neighbors[0].label for neighbors in index.search(queries, k=3)]
    answer = {
        "backend": keras.backend.backend(),
        "has_tensorflow": sys.modules.get("tensorflow") is not None,
        "losses": history["loss"],
        "recall": history["val_recall_at_1"],
        "averaged_steps": steps,
        "same": float(np.abs(embeddings - model.predict(loaded.prepare(gallery), verbose=0)).max()),
        "evaluated": tfdml.evaluation.evaluate(embeddings, labels[~test])["recall_at_1"],
        "loss_of_loaded": again,
        "steps_of_loaded": int(goes_on.optimizer.iterations),
        "found": np.mean([label == f"class {true}" for label, true in zip(found, labels[test], strict=True)]),
        "divided": divided(loaded, gallery, labels[~test]),
    }
    print(json.dumps(answer))


def photos(folder):
    """Writes noisy pictures of a few classes as PNG files; returns their paths and labels."""
    paths, labels = [], np.repeat(np.arange(CLASSES), EACH)
    for label in range(CLASSES):
        pattern = Image.fromarray(RNG.integers(0, 256, (3, 4, 3), np.uint8)).resize((32, 28), Image.Resampling.BICUBIC)
        for number in range(EACH):
            noisy = np.asarray(pattern) + RNG.normal(scale=20, size=(28, 32, 3))
            paths.append(folder / f"{label}_{number}.png")
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(paths[-1])
    return paths, labels


def trained(paths, labels):
    """Trains with a loss that has proxies, and with callbacks; returns the model, the history and averaged steps."""
    keras.utils.set_random_seed(0)
    model = tfdml.Single(tfdml.backbones.Small(width=8, stages=2), embedding_size=8)
    model.preprocessing = tfdml.Preprocessing.of(model, SIDE)
    optimizer = tfdml.optimizers.AdamW(0.01, lr_multipliers={"loss": 10})
    model.compile(optimizer, f"ranked_list + 0.5*proxy_anchor(classes={CLASSES})")
    model.build((None, SIDE, SIDE, 3))
    of = {"backbone": model, "image_size": SIDE}
    batches = tfdml.data.pxk(paths, labels, classes=4, per_class=3, steps_per_epoch=4, **of)
    images = tfdml.data.in_order(paths, batch_size=16, **of)
    average = tfdml.callbacks.WeightAverage(0.9)
    callbacks = [
        tfdml.callbacks.InitialEmbedding(images, labels),
        average,
        tfdml.callbacks.RetrievalEvaluation(images, labels, average=average),
        tfdml.callbacks.TemperatureSchedule(10.0, 5.0, steps=8, loss=model.loss.terms[0][1]),
        tfdml.callbacks.DivergenceGuard(),
        tfdml.callbacks.Projector(Path(sys.argv[1]) / "projector", images, labels),
    ]
    history = model.fit(batches, epochs=3, shuffle=False, callbacks=callbacks, verbose=0).history
    return model, history, average.steps


def divided(loaded, paths, labels):
    """Trains Divide and Conquer with clusters; returns how many batches each learner had."""
    model = tfdml.DivideAndConquer(tfdml.backbones.Small(width=4, stages=2), embedding_size=8, learners=2)
    model.compile("adam", "triplet(mining='all')")
    images = loaded.prepare(paths)
    sampler = WithinClusters(PxK(classes=2, per_class=2))
    sampler.bind(labels)
    recluster = tfdml.callbacks.Recluster(images, labels, sampler, seed=0)
    batches = DrawnBatches(
        sampler, labels, images.__getitem__, lambda image, seed: image, steps=6, first_step=0, seed=0
    )
    model.build((None, SIDE, SIDE, 3))
    model.fit(batches, epochs=2, shuffle=False, callbacks=[recluster], verbose=0)
    return [batches for _, batches in model.learner_losses()]


if __name__ == "__main__":
    main()
