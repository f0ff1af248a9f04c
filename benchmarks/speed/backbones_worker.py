"""Measures backbones of one library for `backbones`: reads a JSON question per line and prints an answer per line."""

import json
import os
import sys
import time

import numpy as np

from benchmarks.speed import torchvision_operators

# Our spec, and the same network in torchvision or pretrainedmodels.
BACKBONES = {
    "googlenet": "googlenet(batch_norm=True)",
    "bn_inception": "bn_inception",
    "resnet18": "resnet18",
    "resnet50": "resnet50",
}


def images_of(batch, size):
    return np.random.default_rng(0).normal(size=(batch, size, size, 3)).astype(np.float32)


def steps_of_ours(name, batch, size):
    import tensorflow as tf

    import tfdml

    tf.config.threading.set_intra_op_parallelism_threads(int(os.environ["THREADS"]))
    backbone = tfdml.registry.create("backbone", BACKBONES[name])
    optimizer = tf.keras.optimizers.SGD(1e-4, momentum=0.9)
    optimizer.build(backbone.trainable_variables)

    @tf.function
    def infer(images):
        return tf.reduce_mean(backbone(images, training=False), axis=[1, 2])

    @tf.function
    def train(images):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.reduce_mean(backbone(images, training=True), axis=[1, 2])))
        optimizer.apply(tape.gradient(loss, backbone.trainable_variables), backbone.trainable_variables)
        return loss

    images = tf.constant(images_of(batch, size))
    return {"inference": lambda: infer(images).numpy(), "training": lambda: train(images).numpy()}


def steps_of_theirs(name, batch, size):
    import torch

    torch.set_num_threads(int(os.environ["THREADS"]))
    network = _network_of_theirs(name)
    optimizer = torch.optim.SGD(network.parameters(), 1e-4, momentum=0.9)
    images = torch.tensor(images_of(batch, size)).permute(0, 3, 1, 2).contiguous()

    def infer():
        network.eval()
        with torch.inference_mode():
            return network(images).numpy()

    def train():
        network.train()
        optimizer.zero_grad()
        loss = network(images).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"inference": infer, "training": train}


def _network_of_theirs(name):
    """Returns the network up to its pooled features."""
    import torch

    declared = torchvision_operators.declare()
    if name == "bn_inception":
        import pretrainedmodels

        network = pretrainedmodels.bninception(pretrained=None)
        network.global_pool = torch.nn.AdaptiveAvgPool2d(1)
        network.last_linear = torch.nn.Identity()
    else:
        import torchvision

        arguments = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
        network = getattr(torchvision.models, name)(weights=None, **arguments)
        network.fc = torch.nn.Identity()
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            # The same initialization as ours. With torch's own, features fade to denormal numbers, which are slow.
            torch.nn.init.kaiming_normal_(module.weight)
    network.declared = declared
    return network


def main(library):
    make_steps = steps_of_ours if library == "tfdml" else steps_of_theirs
    known, steps = None, {}
    for line in sys.stdin:
        question = json.loads(line)
        case = question["backbone"], question["batch"], question["size"]
        if case != known:
            known, steps = case, make_steps(*case)
            for step in steps.values():
                step()
        step = steps[question["mode"]]
        began = time.perf_counter()
        for _ in range(question["repeats"]):
            step()
        seconds = (time.perf_counter() - began) / question["repeats"]
        print(json.dumps({"seconds": seconds}), flush=True)
