"""Writes frozen features of a dataset's test images: `python -m benchmarks.studies.frozen_features --out=cars.npz`.

It averages the last features of a pretrained backbone over positions, projects them on their principal components, and
writes them with the class labels and the names of the files to an .npz file, which other studies and `tfdml.suspects
--embeddings` read.
"""

import argparse
import os

import keras
import numpy as np

from pipelines.build import evaluation_batches
from pipelines.datasets import load
from pipelines.preprocessing import Preprocessing
from pipelines.preprocessor import Preprocessor
from tfdml import registry
from tfdml.evaluation import Embedder
from tfdml.neighbors.projections import principal_components
from tfdml.run.directory.model_files import load_weights


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", required=True, help="Folder of the dataset.")
    parser.add_argument("--dataset", default="folder", help="Spec of the dataset.")
    parser.add_argument("--backbone", default="keras_applications(name='MobileNetV2', alpha=0.35)", help="Its spec.")
    parser.add_argument("--initial_weights", default="imagenet", help="Weights of the backbone.")
    parser.add_argument("--image_size", type=int, default=96, help="Side length of the images in pixels.")
    parser.add_argument("--dims", type=int, default=128, help="Number of principal components.")
    parser.add_argument("--out", required=True, help="The .npz file to write.")
    given = parser.parse_args()
    backbone = registry.create("backbone", given.backbone)
    load_weights(backbone, given.initial_weights)
    pooled = keras.Model(backbone.input, keras.layers.GlobalAveragePooling2D()(backbone.output))
    split = load(given.dataset, data_dir=given.data_dir, test_only=True).test
    prepare = Preprocessor.of(Preprocessing.of(backbone, given.image_size))
    features = Embedder(pooled)(evaluation_batches(split, prepare, batch_size=128), len(split))
    mean, directions, _ = principal_components(features, given.dims)
    names = [os.path.relpath(path, given.data_dir) for path in split.images]
    vectors = ((features - mean) @ directions).astype(np.float32)
    np.savez(given.out, embeddings=vectors, labels=split.labels, names=names)


if __name__ == "__main__":
    main()
