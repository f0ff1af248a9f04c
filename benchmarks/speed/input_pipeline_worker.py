"""Measures input pipelines for `input_pipeline`: reads a JSON question per line and prints an answer per line."""

import json
import multiprocessing
import sys
import time
from pathlib import Path

from benchmarks.speed import torchvision_operators

BATCH, SIZE, SHORT_SIDE = 128, 224, 256
# Mean and deviation of ImageNet backbones, for pixels from 0 to 1.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PROCESSES = 2


def files_of(folder):
    return sorted(str(path) for path in Path(folder).iterdir())


def passes_of_ours(folder, mode, cache="none", shrink=False):
    """Returns a function that reads all images once, as a run does, and returns their number."""
    import numpy as np
    import tensorflow as tf

    from pipelines.build import evaluation_batches, training_batches
    from pipelines.datasets import Split
    from pipelines.preprocessor import Preprocessor
    from pipelines.reading.cache import Cache
    from pipelines.sampling import Uniform
    from tfdml.run.experiment.experiment import start_tensorflow

    # As in training on a GPU, when the CPU cores have no other work.
    tf.config.threading.set_intra_op_parallelism_threads(1)
    start_tensorflow("auto", deterministic=True)
    files = files_of(folder)
    split = Split(np.array(files, dtype=object), np.arange(len(files)) // 4)
    chain = {
        "training": "random_resized_crop|flip",
        "evaluation": f"resize_short(size={SHORT_SIDE})|center_crop",
    }[mode]
    mean, std = ([255 * number for number in numbers] for numbers in (MEAN, STD))
    prepared = Preprocessor(chain, image_size=SIZE, mean=mean, std=std, shrink=shrink)
    read, prepare = Cache(cache, memory=8 * 2**30, folder="unused").through(split, prepared)
    if mode == "evaluation":
        dataset = evaluation_batches(split, prepare, batch_size=BATCH, read=read)
    else:
        sampler = Uniform(batch_size=BATCH)
        sampler.bind(split.labels)
        step = tf.Variable(0, dtype=tf.int64)
        steps = len(files) // BATCH
        dataset = training_batches(split, sampler, prepare, seed=0, step=step, steps_per_epoch=steps, read=read)
    return lambda: sum(len(batch[0] if mode == "training" else batch) for batch in dataset)


def passes_of_torch(folder, mode):
    declared = torchvision_operators.declare()
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision import transforms

    steps = {
        "training": [transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip()],
        "evaluation": [transforms.Resize(SHORT_SIDE), transforms.CenterCrop(SIZE)],
    }[mode]
    prepare = transforms.Compose([*steps, transforms.ToTensor(), transforms.Normalize(MEAN, STD)])

    class Images(Dataset):
        files, operators = files_of(folder), declared

        def __len__(self):
            return len(self.files)

        def __getitem__(self, row):
            return prepare(Image.open(self.files[row]).convert("RGB"))

    training = mode == "training"
    options = {"shuffle": training, "drop_last": training, "num_workers": PROCESSES, "persistent_workers": True}
    loader = DataLoader(Images(), batch_size=BATCH, **options)
    return lambda: sum(len(batch) for batch in loader)


def decode(path):
    """Decodes with libjpeg-turbo, with its fastest exact settings."""
    import simplejpeg

    return len(simplejpeg.decode_jpeg(Path(path).read_bytes(), fastdct=False, fastupsample=False))


def passes_of_floor(folder, mode):
    del mode
    pool, files = multiprocessing.Pool(PROCESSES), files_of(folder)
    return lambda: sum(1 for _ in pool.imap_unordered(decode, files, chunksize=16))


PASSES = {"tfdml": passes_of_ours, "torch": passes_of_torch, "floor": passes_of_floor}


def main(library):
    known, once = None, None
    for line in sys.stdin:
        question = json.loads(line)
        if question != known:
            known, once = question, PASSES[library](**question)
            once()
        began = time.perf_counter()
        images = once()
        print(json.dumps({"images_a_second": images / (time.perf_counter() - began)}), flush=True)
