"""Datasets, samplers, transforms and batches as users make them."""

import numpy as np
import tensorflow as tf

import tfdml
from pipelines.datasets import Dataset, Split, load
from pipelines.datasets.cars196 import cars196
from pipelines.datasets.csv import csv
from pipelines.datasets.cub200 import cub200
from pipelines.datasets.deepfashion import deepfashion
from pipelines.datasets.embeddings import embeddings
from pipelines.datasets.folder import folder
from pipelines.datasets.google_landmarks import google_landmarks
from pipelines.datasets.inaturalist2018 import inaturalist2018
from pipelines.datasets.inshop import inshop
from pipelines.datasets.market1501 import market1501
from pipelines.datasets.packed import packed
from pipelines.datasets.pairs import pairs
from pipelines.datasets.photos import photos
from pipelines.datasets.sop import sop
from pipelines.datasets.tfds import tfds
from pipelines.datasets.toycars import toycars
from pipelines.datasets.training_classes import training_classes
from pipelines.datasets.vehicleid import vehicleid
from pipelines.sampling import (
    Clusters,
    Exchanged,
    Given,
    HardNeighbors,
    ImageNumbers,
    Pairs,
    ProportionalPxK,
    PseudoClasses,
    PxK,
    Triplets,
    Uniform,
    Views,
    WithinClusters,
    group_by_class,
)
from pipelines.transforms.blur import blur
from pipelines.transforms.center_crop import center_crop
from pipelines.transforms.color_jitter import color_jitter
from pipelines.transforms.flip import flip
from pipelines.transforms.grayscale import grayscale
from pipelines.transforms.jpeg import jpeg
from pipelines.transforms.layer import layer
from pipelines.transforms.rand_augment import rand_augment
from pipelines.transforms.random_crop import random_crop
from pipelines.transforms.random_erasing import random_erasing
from pipelines.transforms.random_resized_crop import random_resized_crop
from pipelines.transforms.resize_pad import resize_pad
from pipelines.transforms.resize_short import resize_short
from pipelines.transforms.rotate import rotate
from pipelines.transforms.trim_border import trim_border
from pipelines.transforms.warp import warp

published = [cars196("data", cropped=True), cub200("data"), sop("data"), inshop("data"), market1501(data_dir="data")]
cars: Dataset = vehicleid("data", size="medium")
more = [deepfashion("data", kind="texture"), google_landmarks("data"), inaturalist2018("data")]
prepared = tfds("caltech_birds2011:0.2.0", image="image", label=None)
own = folder("photos", test_classes=0.3, seed=1, class_groups="genus")
tuned = training_classes("folder(test_classes=0.3)", held_out=0.2, seed=1, data_dir="photos")
stored = embeddings(("dinov2", "siglip"), test_classes=0.3), embeddings("train.npz", test="test.npz", seed=1)
several = csv("table.csv", separator=";")
table, shards = csv("table.csv", data_dir="photos"), packed("gs://bucket/packed")
of_pairs = pairs("pairs.csv", held_out=0.3)
unlabelled = photos("photos", seed=1)
drawn = toycars(data_dir=None, classes=20, image_size=32, grouped=True)
loaded = load("cub200(cropped=True)", data_dir="data", test_only=True)
train, test = loaded.test.halves()
training, validation = own.hold_out(0.2, seed=0)
rows: Split = training.where(np.arange(4))

sampler = PxK(classes=8, per_class=4)
sampler.bind(["a", "a", "b", "b"])
places = sampler.rows(0, tf.range(3))
samplers = [HardNeighbors(pairs=8, refresh_every=2), Pairs(32), ProportionalPxK(groups=8), Triplets(40), Uniform(64)]
without_classes = [Views(images=64), Given(count=8), PseudoClasses(PxK(classes=8, groups=2))]
labelled_by = [Clusters(k=10, every=2), ImageNumbers(), Exchanged(share=0.2)]
clusters = WithinClusters(sampler, proportional=True, at_once=4)
irregular = clusters.assign(np.zeros(4, int), learners=2)["left_out"]
by_class, starts, sizes = group_by_class([1, 1, 2])

crops = [center_crop(224), random_crop(size=224), random_resized_crop(224, area=(0.5, 1.0)), warp(224)]
tall = [random_crop((256, 128), padding=10), random_resized_crop((256, 128), aspect=(0.4, 0.6)), warp((288, 144))]
sizes_of = [resize_pad(224, fill=255), resize_short(size=256)]
colors = [color_jitter(hue=0.0), grayscale(0.1), jpeg(quality=(50, 90)), blur(sigma=(0.1, 1.0), probability=0.5)]
moves = [flip(), rotate((-10, 10), fill_mode="reflect"), random_erasing(noise=True), trim_border(margin=5)]
others = [rand_augment(ops=2, magnitude=5.0), layer("RandomHue", factor=0.2)]

paths, labels = ["a.jpg", "b.jpg"], ["mug", "cup"]
batches = tfdml.data.pxk(paths, labels, classes=8, per_class=4, backbone=tfdml.backbones.Small(), image_size=32)
of_arrays = tfdml.data.pxk(np.zeros((8, 32, 32, 3)), np.arange(8), transform=None, steps_per_epoch=10)
of_rows = tfdml.data.pxk(lambda row: tf.zeros([32, 32, 3]), labels, mean=(0, 0, 0), std=(255, 255, 255), channels="bgr")
of_views = tfdml.data.views(paths, batch_images=8, backbone=tfdml.backbones.Small(), transform="flip")
in_order = tfdml.data.in_order(paths, backbone=tfdml.backbones.Small(), batch_size=64)
number = batches.cardinality()
