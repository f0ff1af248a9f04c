"""Trains with torch, torchvision and pytorch-metric-learning for `step`."""

import json
import resource
import time

from benchmarks.speed import torchvision_operators
from benchmarks.speed.input_pipeline_worker import MEAN, STD
from benchmarks.speed.step_worker import WARM_UP

CLASSES, PER_CLASS, DIMENSIONS = 16, 4, 128


def loader(folder, size, workers, batches):
    """Yields batches of images and labels, with several images of each of several classes."""
    import numpy as np
    from torch.utils.data import DataLoader
    from torchvision import transforms
    from torchvision.datasets import ImageFolder

    steps = [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    images = ImageFolder(folder, transforms.Compose([*steps, transforms.Normalize(MEAN, STD)]))
    labels, random = np.array(images.targets), np.random.default_rng(0)

    def batch():
        classes = random.choice(len(images.classes), CLASSES, replace=False)
        return np.concatenate([random.choice(np.flatnonzero(labels == each), PER_CLASS, False) for each in classes])

    rows = [batch().tolist() for _ in range(batches)]
    return DataLoader(images, batch_sampler=rows, num_workers=workers, persistent_workers=True)


def network(name):
    """Returns the network with an L2-normalized embedding and frozen batch norm statistics."""
    import torch
    import torchvision

    body = getattr(torchvision.models, name)(weights=None)
    last = "fc" if name.startswith("resnet") else "classifier"
    features = 512 if last == "fc" else 1280
    setattr(body, last, torch.nn.Linear(features, DIMENSIONS))
    body.train()
    for module in body.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
    return body


def cpu_seconds_of_workers():
    """Returns the CPU seconds of the processes that load images and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(name, size, folder, channels_last, workers, steps):
    declared = torchvision_operators.declare()
    import torch
    from pytorch_metric_learning import losses, miners

    order = torch.channels_last if channels_last else torch.contiguous_format
    body = network(name).to(memory_format=order)
    miner = miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")
    loss, optimizer = losses.TripletMarginLoss(margin=0.2), torch.optim.Adam(body.parameters(), 1e-4)
    marks = []
    batches = loader(folder, size, workers, WARM_UP + steps)
    for images, labels in batches:
        optimizer.zero_grad()
        embeddings = torch.nn.functional.normalize(body(images.to(memory_format=order)))
        loss(embeddings, labels, miner(embeddings, labels)).backward()
        optimizer.step()
        marks.append((time.perf_counter(), time.process_time()))
    seconds, own = ((last - first) / steps for first, last in zip(marks[WARM_UP - 1], marks[-1], strict=True))
    # The CPU time of workers is only known after they have ended.
    before = cpu_seconds_of_workers()
    batches._iterator._shutdown_workers()
    of_workers = (cpu_seconds_of_workers() - before) / (WARM_UP + steps)
    del declared
    print(json.dumps({"seconds": seconds, "cpu_seconds": own + of_workers}))
