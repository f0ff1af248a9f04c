"""An inverted file."""

import math

from tfdml.evaluation.indexes.approximate_index import ApproximateIndex
from tfdml.neighbors.nearest import load_faiss
from tfdml.registry import register
from tfdml.registry.arguments import Count

# Images in the sample that K-means divides into lists, for each list; faiss warns below 39.
SAMPLE = 64
FEWEST = 39


@register("index", "ivf")
class IVF(ApproximateIndex):
    """Searches only the lists whose centers are nearest to the query: faiss' inverted file.

    K-means on a sample of the gallery divides it into lists. More probes find more of the nearest images and take
    longer; as many probes as lists find all.

    Args:
        lists: number of lists; None: 4 times the square root of the number of images, but not more than one for 39.
        probes: number of lists that are searched; all if there are fewer.
    """

    lists: Count | None = None
    probes: Count = 64

    def of_size(self, count):
        lists = self.lists or max(1, min(round(4 * math.sqrt(count)), count // FEWEST))
        if lists > count:
            raise ValueError(
                f"ivf(lists={lists}) needs as many images in the gallery; it has {count}. Leave lists out, or use "
                "index='exact', which is fast for so few."
            )
        return IVF(lists, min(self.probes, lists))

    def create(self, dim, metric, sample):
        faiss = load_faiss()
        flat = faiss.IndexFlatL2(dim) if metric == faiss.METRIC_L2 else faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFFlat(flat, dim, self.lists, metric)
        # By default faiss warns of small samples.
        index.cp.min_points_per_centroid = 1
        index.train(sample(SAMPLE * self.lists))
        index.nprobe = self.probes
        return index
