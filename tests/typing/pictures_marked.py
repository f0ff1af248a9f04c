"""Pictures of a report with a mistake in each marked line."""

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

Attention(channels=350)  # marked
ClassThresholds(side=3)  # marked
Clusters(side=3)  # marked
Confused(clases=3)  # marked
EmbeddingMap(side=3)  # marked
Learners(side=3)  # marked
Neighbors(queries="two")  # marked
Projected(side=3)  # marked
Recall(side=3)  # marked
Rejection(side=3)  # marked
Roc(side=3)  # marked
Similarities(side=3)  # marked
Similarity(side=3)  # marked
Training(side=3)  # marked
