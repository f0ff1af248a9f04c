"""What users do with models, batches, trained models, indexes and pictures, with a mistake in each marked line."""

import keras
import numpy as np

import tfdml
from pipelines.datasets import load
from tfdml import callbacks, losses, optimizers
from tfdml.serving import ExportedModel, Searcher
from tfdml.serving.index.stores.folder_store import FolderStore
from tfdml.serving.index.stores.postgresql import PostgreSQL
from tfdml.serving.index.stores.qdrant import Qdrant

loaded = tfdml.load("runs/quickstart")
tfdml.load("runs/quickstart", model="last")  # marked
tfdml.load("runs/quickstart", trusted=True)  # marked
tfdml.load(3)  # marked
tfdml.lode("runs/quickstart")  # marked
tfdml.Singel(loaded.model)  # marked
loaded.embed(["car.jpg"], batch=8)  # marked
loaded.embed(3)  # marked
loaded.embed(["car.jpg"], verbose="no")  # marked
loaded.embeds(["car.jpg"])  # marked
tfdml.ImageEmbedder("model.keras")  # marked
tfdml.from_preset("hf://owner/cars", revision="v1")  # marked
tfdml.upload_preset("hf://owner/cars")  # marked
tfdml.save_preset(loaded.model, "presets/cars", license=3)  # marked

searcher = Searcher("photo_index", models="exported/1")  # marked
searcher = Searcher("photo_index")
searcher.search(["query.jpg"], count=3)  # marked
print(searcher.search(["query.jpg"])[0].similarity)  # marked
print(searcher.search(["query.jpg"])[0][0].score)  # marked
ExportedModel()  # marked

index = tfdml.Index("exported/1", kinds="flat")  # marked
index = tfdml.Index("exported/1", metric="l1")  # marked
index = tfdml.Index("exported/1")
index.add("photos", label=["a"])  # marked
index.search("query.jpg", filter="price < 2")  # marked
print(index.search("query.jpg")[0].label)  # marked
index.remove(3)  # marked
tfdml.Index(stores="qdrant:points")  # marked
PostgreSQL("//host/db", table="photos")  # marked
Qdrant()  # marked
FolderStore("photo_index", metrics="cosine")  # marked

tfdml.reporting.similarity_map(loaded.model, np.zeros((32, 32, 3)))  # marked
tfdml.reporting.map_positions(np.zeros((8, 4)), distance="l1")  # marked
print(tfdml.reporting.similarity_map(loaded.model, *loaded.prepare(["a.jpg", "b.jpg"])).of_c)  # marked

small, googlenet = tfdml.backbones.Small(), tfdml.backbones.GoogLeNet()
tfdml.backbones.Smal(width=16)  # marked
googlenet.split_at(4)  # marked
googlenet.method_default("branches")  # marked
googlenet.stage_endpoints()  # marked
tfdml.Preprocessing.of(small, transforms="warp")  # marked
tfdml.Single(small, head="linear")  # marked
losses.Triplet(0.2, 3)  # marked
losses.TripletLoss()  # marked

single, divided = tfdml.Single(small), tfdml.DivideAndConquer(small)
single.compile("adam", "triplet", piece=2)  # marked
single.compile("adam", keras.metrics.Mean())  # marked
single.fit([], epoch=10)  # marked
single.fit([], callbacks=[np.arange(4)])  # marked
single.predict([], verbose="no")  # marked
single.evaluate([], verbos=0)  # marked
single.evaluate([], batch_size="8")  # marked
single.evaluate([], return_dict="yes")  # marked
divided.compile("adam", "triplet", piece=2)  # marked
divided.compile(optimiser="adam")  # marked
divided.compile("adam", keras.metrics.Mean())  # marked
divided.evaluate([], step=5)  # marked
members = tfdml.methods.MemberEnsemble([single, divided])
tfdml.methods.MemberEnsemble(["runs/a", "runs/b"])  # marked
members.compile(los="triplet")  # marked
members.evaluate([], callback=[])  # marked

optimizers.SGD(0.01, lr_multipliers={"embedding": "10"})  # marked
optimizers.Adam("1e-4")  # marked
optimizers.AdamW(1e-4, frozen_steps=500)  # marked
optimizers.AdamW(1e-4, layer_decay="0.75")  # marked
callbacks.RetrievalEvaluations([], [])  # marked

print(load("toycars").trian)  # marked
load("toycars").hold_out("0.2", seed=0)  # marked
tfdml.data.in_ordre(["a.jpg"])  # marked
tfdml.data.pxk(["a.jpg"], [0], clases=8)  # marked
