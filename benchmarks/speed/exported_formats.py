"""Compares the files of an exported model with its SavedModel: `python -m benchmarks.speed.exported_formats`.

It exports `small(width=16)` with its weights and tests it on 1,000 toy cars, and an untrained `resnet18` on 64 images
of 224 pixels. The command prints a Markdown table with the size of each file, the lowest cosine similarity to the
embedding of the SavedModel, the CPU time for a single image on one thread compared with the SavedModel, and Recall@1 of
the toy cars.
"""

import argparse
import io
import os
import tempfile
import time
from pathlib import Path

# The libraries read these variables when they are loaded.
os.environ |= {name: "1" for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")}

import numpy as np
import tensorflow as tf
from PIL import Image

import tfdml
from benchmarks.markdown import markdown
from benchmarks.speed.pictures import picture
from pipelines.datasets import load
from pipelines.preprocessing import preprocessing_of
from pipelines.preprocessor import Preprocessor
from tfdml.run.directory.model_files import load_weights
from tfdml.serving.exports import write_lite, write_onnx

DIM, CARS, PICTURES = 128, 1000, 64
# Number of passes over the images, of which the fastest counts.
PASSES = 3


def pixels_of(contents, side):
    opened = (Image.open(io.BytesIO(content)).convert("RGB").resize((side, side)) for content in contents)
    return np.stack([np.asarray(image, np.float32) for image in opened])


def cases():
    """Returns a dictionary from each network to its backbone, images and labels or `None`."""
    cars = load("toycars").test
    chosen = cars.where(np.random.default_rng(0).choice(len(cars), CARS, replace=False))
    small = tfdml.registry.create("backbone", "small(width=16)")
    load_weights(small, "toycars")
    resnet = tfdml.registry.create("backbone", "resnet18")
    return {
        "`small`": (small, pixels_of(chosen.images, 48), chosen.labels),
        "`resnet18`": (resnet, pixels_of([picture(seed) for seed in range(PICTURES)], 224), None),
    }


def exported(backbone, side, folder):
    """Exports a model in all formats and returns a dictionary from each format to its file or folder."""
    model = tfdml.Single(backbone, embedding_size=DIM)
    model(np.zeros([1, side, side, 3], np.float32))
    tfdml.serving.export(model, Preprocessor("warp", image_size=side, **preprocessing_of(model)), folder)
    files = {"SavedModel": folder}
    for precision in ("float32", "float16", "int8"):
        write_lite(folder, precision)
        files[f"LiteRT, {precision}"] = (folder / "model.tflite").rename(folder.parent / f"{precision}.tflite")
    write_onnx(folder)
    files["ONNX"] = (folder / "model.onnx").rename(folder.parent / "model.onnx")
    return files


def runner(file):
    """Returns a function from the pixels of an image, `[1, side, side, 3]`, to its embedding `[1, D]`."""
    if file.is_dir():
        loaded = tf.saved_model.load(str(file))
        embed = loaded.signatures["embed_images"]
        return lambda pixels, loaded=loaded: embed(images=tf.constant(pixels))["embedding"].numpy()
    if file.suffix == ".tflite":
        from ai_edge_litert.interpreter import Interpreter

        embed = Interpreter(str(file), num_threads=1).get_signature_runner("embed_images")
        return lambda pixels: embed(images=pixels)["embedding"]
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options)
    return lambda pixels: session.run(["embedding"], {"images": pixels})[0]


def embedded(file, images):
    """Returns the embeddings of images, and the CPU seconds per image."""
    run, times = runner(file), []
    for _ in range(PASSES):
        start = time.process_time()
        found = np.concatenate([run(images[row : row + 1]) for row in range(len(images))])
        times.append((time.process_time() - start) / len(images))
    return found, min(times)


def size_of(file):
    return sum(path.stat().st_size for path in ([file] if file.is_file() else file.rglob("*")) if path.is_file())


def recall(embeddings, labels):
    similarities = embeddings @ embeddings.T
    np.fill_diagonal(similarities, -np.inf)
    return np.mean(labels[similarities.argmax(axis=1)] == labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    rows = []
    for name, (backbone, images, labels) in cases().items():
        with tempfile.TemporaryDirectory() as folder:
            files = exported(backbone, images.shape[1], Path(folder) / "exported")
            expected, first = embedded(files["SavedModel"], images)
            for kind, file in files.items():
                found, seconds = (expected, first) if kind == "SavedModel" else embedded(file, images)
                cosine = "" if kind == "SavedModel" else f"{np.sum(found * expected, axis=1).min():.4f}"
                right = "" if labels is None else f"{100 * recall(found, labels):.1f}"
                cpu = f"{1000 * seconds:.1f} ms" if kind == "SavedModel" else f"{seconds / first:.2f}"
                rows.append([f"{name}, {kind}", f"{size_of(file) / 1e6:.1f} MB", cosine, cpu, right])
    print(markdown(["File", "Size", "Similarity", "CPU time per image", "Recall@1"], rows))


if __name__ == "__main__":
    main()
