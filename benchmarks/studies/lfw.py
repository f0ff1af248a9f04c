"""Verifies pairs of Labeled Faces in the Wild with a published network: `python -m benchmarks.studies.lfw --help`.

The network is dlib's face recognition network, with a published accuracy of 99.38% on these pairs. Nothing is trained.
The command follows the official protocol: 6,000 pairs in ten folds, and the threshold of each fold is the most accurate
one on the other nine. dlib compares embeddings by Euclidean distance, and tfdml by cosine similarity.

It computes the embeddings of all images in the pairs, evaluates them with `python -m tfdml.evaluate`, and writes one
record per row to --records:

- "dlib, aligned": faces of 150 × 150 pixels, turned and scaled so that 51 landmarks of the eyes, brows, nose and mouth
  fit their mean shape best, as in dlib. A landmark network finds them in the face as aligned in the next row.
- "dlib, aligned by five points": the corners of the eyes and the base of the nose are where dlib has them. The same
  network finds these points in the central 100 × 100 pixels of the image, 10 pixels below its center. We chose this
  square by how well the points of 64 images fit dlib's, without identities.
- "dlib, fixed crop": the same square of each image for all images, which is the mean of these aligned squares.
- "ImageNet features, aligned": the pooled features of MobileNetV2 1.0 on the aligned faces, as a floor.
- "pixels, aligned": the aligned faces with 32 × 32 pixels and a mean of 0.

The command uses the funneled images of LFW. The networks are from the npm package @vladmandic/face-api.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
from PIL import Image
from scipy.stats import t

from benchmarks.studies.face_networks import FACE_SIZE, LANDMARK_SIZE, FaceNetwork, LandmarkNetwork
from tfdml.evaluation.verification.pair_list import PairList

# Left, top, right and bottom of the square in which landmarks are searched first.
CENTRAL = (75, 85, 175, 185)
# The landmarks of the brows, nose, eyes and mouth among all 68.
INNER = slice(17, 68)
# The outer and inner corners of both eyes and the base of the nose, and where dlib puts them in a face without its
# padding, which is a quarter of the face on each side.
FIVE = [45, 42, 36, 39, 33]
PADDING = 0.25
PLACES = (
    (0.8595674595992, 0.2134981538014),
    (0.6460604764104, 0.2289674387677),
    (0.1205750620789, 0.2137274526848),
    (0.3340850613712, 0.2290642403242),
    (0.4901123135679, 0.6277975316475),
)
AT_ONCE = 64


def alignment(points, places):
    """Returns the similarity transform from an aligned face to an image: a, b, c, d, e, f of `Image.transform`.

    It is the least squares fit from `places` `[K, 2]` of landmarks in the face to their `points` `[K, 2]` in the image,
    in complex numbers.
    """
    here, there = (np.asarray(each, np.float64) @ (1, 1j) for each in (places, points))
    centered = here - here.mean()
    turned = np.vdot(centered, there - there.mean()) / np.vdot(centered, centered)
    moved = there.mean() - turned * here.mean()
    return turned.real, -turned.imag, moved.real, turned.imag, turned.real, moved.imag


def moved(points, transforms):
    """Applies transforms `[N, 6]` to points `[N, K, 2]` of aligned faces, and returns them in the images."""
    linear = transforms.reshape(-1, 2, 3)
    return points @ linear[:, :, :2].transpose(0, 2, 1) + linear[:, None, :, 2]


def places_of_five():
    """Returns where the five landmarks `[5, 2]` are in an aligned face."""
    return (np.array(PLACES) + PADDING) / (1 + 2 * PADDING) * FACE_SIZE


def faces(folder, names, transforms, size=FACE_SIZE):
    """Yields batches `[B, 150, 150, 3]` of aligned faces with pixels from 0 to 255, or of another size."""
    scale = np.array([FACE_SIZE / size, FACE_SIZE / size, 1] * 2)
    for start in range(0, len(names), AT_ONCE):
        batch = []
        for name, transform in zip(names[start : start + AT_ONCE], transforms[start : start + AT_ONCE], strict=True):
            with Image.open(folder / name) as image:
                face = image.convert("RGB").transform(
                    (size, size), Image.Transform.AFFINE, tuple(transform * scale), Image.Resampling.BILINEAR
                )
            batch.append(np.asarray(face, np.float32))
        yield np.stack(batch)


def landmarks(folder, names, transforms, network):
    """Returns the landmarks `[N, 68, 2]` in the images that a network finds in aligned faces."""
    found = [keras.ops.convert_to_numpy(network(batch)) for batch in faces(folder, names, transforms, LANDMARK_SIZE)]
    return moved(np.concatenate(found) * FACE_SIZE, transforms)


def alignments(folder, names, network):
    """Returns the transforms `[N, 6]` of images that fit five landmarks, and those that fit the inner landmarks."""
    left, top, right, _ = CENTRAL
    scale = (right - left) / FACE_SIZE
    central = np.tile([scale, 0, left, 0, scale, top], (len(names), 1))
    first = landmarks(folder, names, central, network)
    by_five = np.array([alignment(each[FIVE], places_of_five()) for each in first])
    # The mean shape of the aligned faces, by the inverse of each transform.
    linear = by_five.reshape(-1, 2, 3)
    shape = np.mean((first - linear[:, None, :, 2]) @ np.linalg.inv(linear[:, :, :2]).transpose(0, 2, 1), axis=0)
    second = landmarks(folder, names, by_five, network)
    return by_five, np.array([alignment(each[INNER], shape[INNER]) for each in second])


def features_of(weights):
    """Returns a function from faces to the pooled features of MobileNetV2 1.0."""
    shape = (FACE_SIZE, FACE_SIZE, 3)
    network = keras.applications.MobileNetV2(shape, include_top=False, weights=None, pooling="avg")
    network.load_weights(weights)
    return lambda batch: network(batch / 127.5 - 1.0, training=False)


def pixels(batch):
    """Returns faces of 32 × 32 pixels as vectors with a mean of 0."""
    small = keras.ops.convert_to_numpy(keras.ops.image.resize(batch, (32, 32), data_format="channels_last"))
    vectors = small.reshape(len(batch), -1)
    return vectors - vectors.mean(axis=1, keepdims=True)


def evaluated(embeddings, names, pairs, folder):
    """Returns what `tfdml.evaluate` measures on the pairs, with the 95% confidence interval of the accuracy."""
    file = folder / "faces.npz"
    np.savez(file, embeddings=embeddings, labels=np.arange(len(names)), names=np.array(names))
    command = [sys.executable, "-m", "tfdml.evaluate", f"--embeddings={file}", f"--pairs={pairs}"]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result = json.loads(shown.strip().splitlines()[-1])
    half = t.ppf(0.975, len(result["fold_accuracies"]) - 1) * result["standard_error"]
    interval = [result["accuracy"] - half, result["accuracy"] + half]
    places = ("embeddings", "pairs")
    return {**{name: value for name, value in result.items() if name not in places}, "interval": interval}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", required=True, type=Path, help="Folder lfw_funneled, with one folder per person.")
    parser.add_argument("--pairs", required=True, help="The official pairs.txt with ten folds.")
    parser.add_argument("--networks", required=True, type=Path, help="Folder with the weights of the face networks.")
    parser.add_argument("--initial_weights", required=True, help="ImageNet weights of MobileNetV2 1.0 (.weights.h5).")
    parser.add_argument("--out", required=True, type=Path, help="Folder for the embeddings.")
    parser.add_argument("--records", required=True, type=Path, help="File of the records.")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = sorted(PairList.read(arguments.pairs).names)
    by_five, aligned = alignments(arguments.images, names, LandmarkNetwork(arguments.networks))
    fixed = np.tile(by_five.mean(axis=0), (len(names), 1))
    dlib, floor = FaceNetwork(arguments.networks), features_of(arguments.initial_weights)
    rows = {
        "dlib, aligned": (dlib, aligned),
        "dlib, aligned by five points": (dlib, by_five),
        "dlib, fixed crop": (dlib, fixed),
        "ImageNet features, aligned": (floor, aligned),
        "pixels, aligned": (pixels, aligned),
    }
    records = []
    for name, (network, transforms) in rows.items():
        batches = faces(arguments.images, names, transforms)
        embeddings = np.concatenate([keras.ops.convert_to_numpy(network(batch)) for batch in batches])
        result = evaluated(embeddings, names, arguments.pairs, arguments.out)
        records.append({"run": name, "images": len(names), "result": result})
        print(f"{name}: {100 * result['accuracy']:.2f}%")
    arguments.records.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


if __name__ == "__main__":
    main()
