"""Trained models, indexes and pictures with a mistake in each marked line."""

import numpy as np

import tfdml
from tfdml.serving import ExportedModel, Searcher
from tfdml.serving.index.stores.folder import FolderStore
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
tfdml.save_preset(loaded.model, "presets/cars", license="mit")  # marked

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
