"""Clusters embeddings with k-means: `python -m tfdml.cluster --embeddings=embedded --clusters=1000 --out=out.parquet`.

The table has one row per image, with the columns id, path and cluster. The embeddings come from python -m tfdml.embed.
"""

from absl import flags

from tfdml.console import command
from tfdml.console import flags as tfdml_flags

flags.DEFINE_string("embeddings", "", "Folder written by tfdml.embed.")
flags.DEFINE_integer("clusters", None, "Number of clusters.", lower_bound=1)
flags.DEFINE_string("out", "", "Parquet file to write.")
flags.DEFINE_enum(
    "metric", "cosine", ["cosine", "euclidean"], "Distance to compare embeddings with. cosine L2-normalizes them first."
)
flags.DEFINE_integer(
    "seed",
    0,
    "Random seed for the initial centroids and for the sample that centroids are computed from.",
    lower_bound=0,
)
tfdml_flags.define_debug()


def main():
    from tfdml.serving.embedding import cluster_shards

    values = flags.FLAGS
    needed = {"embeddings": "a folder written by tfdml.embed", "clusters": "the number of clusters", "out": "a file"}
    for name, what in needed.items():
        if not values[name].value:
            raise ValueError(f"--{name} is missing. Set it to {what}.")
    about = {"clusters": values.clusters, "metric": values.metric, "seed": values.seed}
    sizes = cluster_shards(values.embeddings, values.out, **about)
    print(
        f"Clustered {sizes.sum():,} images into {values.clusters:,} clusters of {sizes.min():,} to {sizes.max():,} "
        f"images, and wrote them to {values.out}."
    )


if __name__ == "__main__":
    command.run(main)
