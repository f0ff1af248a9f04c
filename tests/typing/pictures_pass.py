"""Pictures of a report as users call them."""

from tfdml.reporting.pictures.attention import Attention
from tfdml.reporting.pictures.class_thresholds import ClassThresholds
from tfdml.reporting.pictures.clusters import Clusters
from tfdml.reporting.pictures.confused import Confused
from tfdml.reporting.pictures.embedding_map import EmbeddingMap
from tfdml.reporting.pictures.learners import Learners
from tfdml.reporting.pictures.neighbors import Neighbors
from tfdml.reporting.pictures.projector import Projected
from tfdml.reporting.pictures.recall import Recall
from tfdml.reporting.pictures.rejection import Rejection
from tfdml.reporting.pictures.roc import Roc
from tfdml.reporting.pictures.similarities import Similarities
from tfdml.reporting.pictures.similarity import Similarity
from tfdml.reporting.pictures.training import Training

Attention(channels=(350,), learners=(0, 1))
ClassThresholds()
Clusters()
Confused(classes=3)
EmbeddingMap()
Learners()
Neighbors(queries=2)
Projected()
Recall()
Rejection()
Roc()
Similarities()
Similarity()
Training()
