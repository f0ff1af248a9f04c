"""Trained models, indexes and pictures as users open them."""

from pathlib import Path

import keras
import numpy as np

import tfdml
from tfdml.serving import ExportedModel, Neighbor, Searcher
from tfdml.serving.index.stores.folder import FolderStore
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

tfdml.save_preset(made.model, "presets/cars", licence="apache-2.0")
tfdml.upload_preset("hf://owner/cars", Path("presets/cars"))
shared: np.ndarray = tfdml.from_preset("hf://owner/cars").embed("car.jpg")

searcher = Searcher("photo_index")
for neighbor in searcher.search(["query.jpg"], k=3)[0]:
    print(neighbor.similarity, neighbor.label, Path(neighbor.path).name)
similarities, rows = searcher.nearest(searcher.embed(["query.jpg", b"contents"]), k=5)
first: Neighbor = searcher.neighbors(similarities, rows)[0][0]
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
of_contents, readable = ExportedModel("exported/1").embed_contents([b"contents"])

found = tfdml.reporting.similarity_map(loaded.model, *loaded.prepare(["a.jpg", "b.jpg"]), learner=0)
shares = found.of_a.sum() + found.similarity
positions = tfdml.reporting.map_positions(embeddings, distance="cosine")
names = tfdml.registry.names("loss")
