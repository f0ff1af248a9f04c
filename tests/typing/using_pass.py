"""What users do with models, batches, callbacks, trained models, indexes and pictures. It is read, not run."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdml
from pipelines.datasets import Dataset, Split, load
from pipelines.datasets.toycars import toycars
from pipelines.sampling import PxK, WithinClusters, group_by_class
from tfdml import callbacks, optimizers
from tfdml.evaluation.protocols.protocol import SelfRetrieval
from tfdml.optimizers import schedules
from tfdml.serving import ExportedModel, Neighbor, Searcher
from tfdml.serving.index.stores.folder_store import FolderStore
from tfdml.serving.index.stores.postgresql import PostgreSQL
from tfdml.serving.index.stores.qdrant import Qdrant

loaded = tfdml.load(Path("runs/quickstart"), model="final", trust=True)
prepared = tfdml.load(
    "model.keras", preprocessing=tfdml.Preprocessing(image_size=32, mean=(0, 0, 0), std=[255, 255, 255])
)
embeddings = loaded.embed(["car.jpg", "other_car.jpg"], batch_size=8, verbose=1)
dimensions = loaded.embed(b"contents").shape[1] + loaded.embed(np.zeros((4, 32, 32, 3), "uint8")).shape[1]
network: keras.Model = loaded.model
pixels = network(loaded.prepare([Path("car.jpg")]))
made = tfdml.ImageEmbedder(tfdml.Single(tfdml.backbones.Small()))

tfdml.save_preset(made.model, "presets/cars", license="apache-2.0")
tfdml.upload_preset("hf://owner/cars", Path("presets/cars"))
shared: np.ndarray = tfdml.from_preset("hf://owner/cars").embed("car.jpg")

searcher = Searcher("photo_index")
for neighbor in searcher.search(["query.jpg"], k=3)[0]:
    print(neighbor.similarity, neighbor.label, Path(neighbor.path).name)
first: Neighbor = searcher.search_vectors(searcher.embed(["query.jpg", b"contents"]), k=5)[0][0]
with tfdml.Index("exported/1", kind="hnsw") as index:
    ids = index.add("photos", attributes={"price": [1.5, None]}, paths=["a", Path("b")])
    found_there = index.search("query.jpg", k=3, where="price < 2")
    names_of_neighbors = [each.label for each in found_there[0]][: found_there.matching]
    index.delete(ids)
    index.delete(3)
    index.save("saved")
vectors_only = tfdml.Index.open(Path("saved"), lambda images: images)
nearest_of_vectors: Neighbor = vectors_only.search(vectors=np.zeros((1, 4)))[0][0]
group_sizes = [len(group.others) for group in vectors_only.duplicate_groups(0.9)] + [len(vectors_only)]
with tfdml.Index("exported/1", store="postgresql://me@host/db?table=photos", kind=None) as in_table:
    in_table.add("photos")
with PostgreSQL("//me@host/db?table=photos", model="hash", kind="hnsw") as store:
    new_ids = store.add(None, np.zeros((2, 4))) + store.add([7, 8], np.zeros((2, 4)), table=None)
    store.delete(new_ids.tolist())
store_sizes = [Qdrant("points").count("price < 20"), FolderStore("photo_index", metric="euclidean").count()]
of_contents, readable = ExportedModel("exported/1").embed_readable([b"contents"])

found = tfdml.reporting.similarity_map(loaded.model, *loaded.prepare(["a.jpg", "b.jpg"]), learner=0)
shares = found.of_a.sum() + found.similarity
positions = tfdml.reporting.map_positions(embeddings, distance="cosine")
names = tfdml.registry.names("loss")

small, googlenet = tfdml.backbones.Small(width=16, stages=4), tfdml.backbones.GoogLeNet(name="mine")
residual = tfdml.backbones.ResNet(18, dtype="mixed_bfloat16")
trunk, tail = googlenet.split_at("inception_4a")
features: keras.Model = googlenet.taps(["pool1", "pool2"])
branch, stages = googlenet.method_default("branch"), list(googlenet.stage_endpoints)
head = tfdml.heads.Linear(pooling="avg+max", norm="batch", dropout=0.1)
single = tfdml.Single(small, embedding_size=64, head=head, freeze_batch_norm="statistics", normalize=False)
of_keras = tfdml.Single(keras.Sequential(), preprocessing=tfdml.Preprocessing.of(small, transform="warp"))
joined = tfdml.Joined(tfdml.Features(small, preprocessing=single.preprocessing), single)
divided = tfdml.DivideAndConquer(small, learners=4, data_split="kmeans", merge_at=10, finetune="embedding")
levels = tfdml.Multilevel(googlenet, endpoints=("inception_3c", "inception_5b"), auxiliary=["inception_3c"])
members = tfdml.methods.MemberEnsemble([single, divided], member_weights=[1.0, 2.0])
memory = tfdml.memories.XBM(size=8192, start=100)
single.compile(keras.optimizers.Adam(1e-4), loss="triplet(margin=0.1)", pieces=2, memory=memory, jit_compile=False)
single.compile("adam", tfdml.losses.Triplet(0.2, "hard", reduction="sum"))
single.compile("adam", tfdml.losses.WeightedSum([(1.0, tfdml.losses.Triplet()), (0.5, tfdml.losses.NTXent())]))
single.fit([], epochs=10, shuffle=False, verbose=0, steps_per_epoch=5)
shape = single.predict([], batch_size=8, verbose=0).shape
loss_of_test = single.evaluate([], [], 8, verbose=0, steps=2, return_dict=True)["loss"]
divided.compile(keras.optimizers.Adam(1e-4), loss="triplet", pieces=2, memory="xbm(size=8192)", run_eagerly=True)
divided.evaluate(x=[], sample_weight=None, callbacks=[])
members.evaluate([], verbose="auto")
statistics = single.loss_statistics().keys()
merging = tfdml.layers.CenterMerging(per_class=5, weight=0.1)
proxies = tfdml.layers.Proxies(classes=100, per_class=2, initializer="he_normal", regularizer=merging)
embedding = tfdml.layers.EmbeddingHead(128, features=tfdml.layers.PooledFeatures(pooling="gem"))

sgd = optimizers.SGD(0.01, momentum=0.9, weight_decay=2e-5, l2=True, lr_multipliers={"embedding": 10, "loss": 100.0})
adam = optimizers.Adam(lambda: 1e-4, frozen_steps={"backbone": 500}, clipnorm=10.0, layer_decay=0.75, name="adam")
decayed = optimizers.AdamW(keras.optimizers.schedules.CosineDecay(1e-3, decay_steps=20), weight_decay=1e-4)
exponential = optimizers.SGD(schedules.exponential(0.1, 10, every=2.0, staircase=True))
steps = schedules.step(0.1, steps_per_epoch=10, at=(10, 20.5), factor=0.5)

drawn: Dataset = toycars(data_dir=None, classes=20, image_size=32, grouped=True)
loaded_set = load("cub200(cropped=True)", data_dir="data", test_only=True)
train, test = loaded_set.test.halves()
training, validation = drawn.hold_out(0.2, seed=0)
some: Split = training.where(np.arange(4))
sampler = PxK(classes=8, per_class=4)
sampler.bind(["a", "a", "b", "b"])
places = sampler.rows(0, tf.range(3))
clusters = WithinClusters(sampler, proportional=True, at_once=4)
irregular = clusters.assign(np.zeros(4, int), learners=2)["left_out"]
by_class, starts, sizes = group_by_class([1, 1, 2])
batches = tfdml.data.pxk(["a.jpg", "b.jpg"], ["mug", "cup"], classes=8, per_class=4, backbone=small, image_size=32)
of_rows = tfdml.data.pxk(lambda row: tf.zeros([32, 32, 3]), [0, 1], mean=(0, 0, 0), std=(255, 255, 255), channels="bgr")
number = batches.cardinality()

images, labels = np.zeros((64, 32, 32, 3), "float32"), np.repeat(np.arange(16), 4)
average = callbacks.WeightAverage(0.999)
with average.applied():
    single.save("averaged.keras")
evaluation = callbacks.RetrievalEvaluation(
    images,
    labels,
    measure=lambda embeddings: tfdml.evaluation.evaluate(embeddings, labels),
    on_evaluation=lambda step, metrics, is_best, seconds: print(step, metrics["recall_at_1"], is_best, seconds),
    average=average,
)
initial = callbacks.InitialEmbedding(images, labels, kind="lda", count=64, verbose=1)
initial.apply(single)


class Told(callbacks.EmbeddingCallback):
    """Tells of each epoch."""

    def begin_epoch(self, epoch, goes_on):
        self.tell("epoch", {"epoch": epoch, "size": self.embed().shape[1]})


told = Told(images, steps_per_epoch=10)
single.fit(images, labels, callbacks=[average, evaluation, initial, told, keras.callbacks.ReduceLROnPlateau()])

measured = tfdml.evaluation.evaluate(embeddings, ["a", "b"], ("recall_at_1", "nmi"), distance="euclidean", index="ivf")
recall: float = measured["recall_at_1"]
learners = tfdml.evaluation.diversity(
    embeddings, labels, 2, lambda each: {"recall_at_1": each.shape[0]}, weights=[1, 2]
)
parameters = tfdml.evaluation.cost(single, (32, 32, 3))["parameters"]
of_images = tfdml.evaluation.Embedder(single, verbose=0)(np.zeros((2, 32, 32, 3)), 2)
scores = SelfRetrieval(metrics=("recall_at_1",)).with_metrics(["nmi"]).scores(embeddings, None).values
