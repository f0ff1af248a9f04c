"""Measures embeddings before any training: `python -m benchmarks.studies.first_embedding --data_dir=photos`.

It pools the features of a pretrained backbone, fits linear embeddings on 80% of the training classes of a folder, and
measures Recall@1 on the other training classes, in eight splits. It compares the features, principal components with
and without whitening, components after whitening within classes, and linear discriminants. Each kind of whitening adds
a fraction of the mean variance to every variance: `pca_whitened` adds 0.1 of it, `wccn` and `lda` add 0.3. The command
prints a row of a Markdown table, in percent. It does not use the test classes.
"""

import argparse

import keras
import numpy as np

from benchmarks.markdown import markdown
from pipelines.build import evaluation_batches
from pipelines.datasets import load
from pipelines.preprocessing import Preprocessing
from pipelines.preprocessor import Preprocessor
from tfdml import registry
from tfdml.evaluation import Embedder, evaluate
from tfdml.neighbors.projections import linear_discriminants, principal_components, within_class_whitened_components
from tfdml.run.directory.model_files import load_weights

DIVISIONS, HELD_OUT = 8, 0.2
SHRINKAGES = {"whitened": (0.0, 0.1, 1.0), "wccn": (0.1, 0.3, 1.0, 3.0), "lda": (0.3,)}


def pooled_features(given):
    """Returns the features `[N, c]` of the training images, averaged over positions, and their classes `[N]`."""
    backbone = registry.create("backbone", given.backbone)
    load_weights(backbone, given.initial_weights)
    split = load(given.dataset, data_dir=given.data_dir).train
    pooled = keras.Model(backbone.input, keras.layers.GlobalAveragePooling2D()(backbone.output))
    prepare = Preprocessor.of(Preprocessing.of(backbone, given.image_size))
    return Embedder(pooled)(evaluation_batches(split, prepare, batch_size=128), len(split)), split.labels


def recalls(features, labels, dims, seed):
    """Returns Recall@1 of each embedding on the held-out classes of one split."""
    classes = np.random.default_rng(seed).permutation(np.unique(labels))
    # With a single class, every neighbor would be right.
    held_out = np.isin(labels, classes[: max(3, round(HELD_OUT * len(classes)))])
    mean, directions, deviations = principal_components(features[~held_out], dims)
    components, variances = (features[held_out] - mean) @ directions, np.square(deviations)
    mean_variance = variances.mean()
    whitened = [components / np.sqrt(variances + part * mean_variance) for part in SHRINKAGES["whitened"]]
    fitted = features[~held_out], labels[~held_out]
    kernels = [within_class_whitened_components(*fitted, dims, part) for part in SHRINKAGES["wccn"]]
    kernels += [linear_discriminants(*fitted, dims, part) for part in SHRINKAGES["lda"]]
    of_classes = [(features[held_out] - mean) @ kernel for kernel in kernels]
    embedded = [features[held_out], components, *whitened, *of_classes]
    return [evaluate(each.astype(np.float32), labels[held_out])["recall_at_1"] for each in embedded]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", required=True, help="Folder of photos.")
    parser.add_argument("--dataset", default="folder(test_classes=0.3)", help="Spec of the dataset.")
    parser.add_argument("--backbone", default="keras_applications(name='MobileNetV2')", help="Spec of the backbone.")
    parser.add_argument("--initial_weights", default="imagenet", help="Initial weights of the backbone.")
    parser.add_argument("--image_size", type=int, default=96, help="Side length of the images in pixels.")
    parser.add_argument("--dims", type=int, default=128, help="Number of components.")
    given = parser.parse_args()
    features, labels = pooled_features(given)
    found = 100 * np.mean([recalls(features, labels, given.dims, seed) for seed in range(DIVISIONS)], axis=0)
    parts = [f"{kind}, {part:g}" for kind, each in SHRINKAGES.items() for part in each]
    heads = ["images", "features", "components", *parts]
    print(markdown(heads, [[f"{len(labels):,}", *(f"{each:.1f}" for each in found)]]))


if __name__ == "__main__":
    main()
