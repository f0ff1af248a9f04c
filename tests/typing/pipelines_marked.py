"""Datasets, samplers, transforms and batches with a mistake in each marked line."""

import numpy as np

import tfdml
from pipelines.datasets import load
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

cars196("data", crop=True)  # marked
cub200()  # marked
sop(196)  # marked
pairs(held_out=0.3)  # marked
photos("photos", classes=3)  # marked
inshop("data", cropped=True)  # marked
market1501(folder="data")  # marked
vehicleid("data", size="big")  # marked
deepfashion("data", kind="color")  # marked
google_landmarks()  # marked
inaturalist2018(2018)  # marked
tfds(data_dir="data")  # marked
folder("photos", test_classes="0.3")  # marked
csv()  # marked
packed(3)  # marked
embeddings(test_classes=0.3)  # marked
toycars(data_dir=None, class_count=20)  # marked
toycars(classes=20)  # marked
training_classes(held_out=0.2)  # marked
load("cub200", test=True)  # marked
print(load("toycars").trian)  # marked
load("toycars").hold_out("0.2", seed=0)  # marked

PxK(clases=8)  # marked
HardNeighbors(pair=8)  # marked
Pairs("32")  # marked
ProportionalPxK(classes=8)  # marked
Triplets(40, 2)  # marked
Uniform(size=64)  # marked
Views(views=2)  # marked
Given(pairs=8)  # marked
Clusters(clusters=10)  # marked
ImageNumbers(images=10)  # marked
Exchanged(images=10)  # marked
WithinClusters("pxk")  # marked
WithinClusters(PxK(), proportion=True)  # marked
group_by_class()  # marked

center_crop("224")  # marked
random_crop("256x128")  # marked
random_resized_crop(224, area=0.5)  # marked
warp()  # marked
resize_pad(224, color=255)  # marked
resize_short(side=256)  # marked
color_jitter(hues=0.1)  # marked
grayscale(probability="0.1")  # marked
jpeg(quality=50)  # marked
blur(sigmas=(0.1, 1.0))  # marked
flip(0.5)  # marked
rotate(10)  # marked
rotate((-10, 10), fill_mode="mirror")  # marked
random_erasing(noises=True)  # marked
trim_border(margin="5")  # marked
rand_augment(op=2)  # marked
layer(3)  # marked

paths, labels = ["a.jpg", "b.jpg"], np.arange(2)
tfdml.data.pxk(paths, labels, clases=8)  # marked
tfdml.data.pxk(paths, labels, channels="gray")  # marked
tfdml.data.pxk(3, labels)  # marked
tfdml.data.pxk(paths, labels, transform=3)  # marked
tfdml.data.in_order(paths, size=64)  # marked
tfdml.data.views(paths, labels=labels)  # marked
tfdml.data.in_ordre(paths)  # marked
