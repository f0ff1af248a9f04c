"""Trained models, indexes and pictures as users open them."""

from pathlib import Path

import keras
import numpy as np

import tfdml
from tfdml.serving import ExportedModel, Neighbor, Searcher

loaded = tfdml.load(Path("runs/quickstart"), model="final", trust=True)
prepared = tfdml.load(
    "model.keras", preprocessing=tfdml.Preprocessing(image_size=32, mean=(0, 0, 0), std=[255, 255, 255])
)
embeddings = loaded.embed(["car.jpg", "other_car.jpg"], batch_size=8, verbose=1)
dimensions = loaded.embed(b"contents").shape[1] + loaded.embed(np.zeros((4, 32, 32, 3), "uint8")).shape[1]
network: keras.Model = loaded.model
pixels = network(loaded.prepare([Path("car.jpg")]))
made = tfdml.ImageEmbedder(tfdml.Single(tfdml.backbones.Small()))

made.model.save_to_preset("presets/cars", licence="apache-2.0")
tfdml.upload_preset("hf://owner/cars", Path("presets/cars"))
shared: np.ndarray = tfdml.from_preset("hf://owner/cars").embed("car.jpg")

searcher = Searcher("photo_index")
for neighbor in searcher.search(["query.jpg"], k=3)[0]:
    print(neighbor.similarity, neighbor.label, Path(neighbor.path).name)
similarities, rows = searcher.nearest(searcher.embed(["query.jpg", b"contents"]), k=5)
first: Neighbor = searcher.neighbors(similarities, rows)[0][0]
of_contents, readable = ExportedModel("exported/1").embed_contents([b"contents"])

found = tfdml.reporting.similarity_map(loaded.model, *loaded.prepare(["a.jpg", "b.jpg"]), learner=0)
shares = found.of_a.sum() + found.similarity
positions = tfdml.reporting.map_positions(embeddings, distance="cosine")
names = tfdml.registry.names("loss")
