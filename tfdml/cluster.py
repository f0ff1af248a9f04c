"""Clusters embeddings: `python -m tfdml.cluster --embeddings=embedded --clusters=1000 --out=clusters.parquet`.

Writes a table with id, path and cluster of each image that python -m tfdml.embed has embedded.
"""

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("embeddings", "", "Folder that tfdml.embed has written.")
flags.DEFINE_integer("clusters", None, "Number of clusters.", lower_bound=1)
flags.DEFINE_string("out", "", "Parquet file to write.")
flags.DEFINE_enum("metric", "cosine", ["cosine", "euclidean"], "How embeddings are compared; cosine: at unit length.")
flags.DEFINE_integer(
    "seed", 0, "Seed of the sample that centroids are computed from, and of the first centroids.", lower_bound=0
)
tfdml_flags.define_debug()


def main():
    from tfdml.serving.embedding import cluster_shards

    values = flags.FLAGS
    for name, what in {"embeddings": "a folder of tfdml.embed", "clusters": "their number", "out": "a file"}.items():
        if not values[name].value:
            raise ValueError(f"--{name} is missing: {what}.")
    about = {"clusters": values.clusters, "metric": values.metric, "seed": values.seed}
    sizes = cluster_shards(values.embeddings, values.out, **about)
    print(
        f"Wrote the clusters of {sizes.sum():,} images to {values.out}: {sizes.min():,} to {sizes.max():,} images each."
    )


if __name__ == "__main__":
    command.run(main)
