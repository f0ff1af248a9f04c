"""Pages and pictures of runs."""

from tfdml.reporting.batch_sheet import draw_batch
from tfdml.reporting.picture import Picture
from tfdml.reporting.pictures.attention import draw_attention
from tfdml.reporting.pictures.class_thresholds import class_thresholds, draw_class_thresholds
from tfdml.reporting.pictures.clusters import draw_clusters, typical_rows
from tfdml.reporting.pictures.confused import draw_confused, most_confused
from tfdml.reporting.pictures.embedding_map import MOST_ON_MAP, draw_embedding_map, map_positions
from tfdml.reporting.pictures.learners import draw_learners, draw_negative_distances, draw_pair_cosines
from tfdml.reporting.pictures.neighbors import chosen_queries, draw_neighbors
from tfdml.reporting.pictures.only_one_right import draw_only_one_right
from tfdml.reporting.pictures.recall import draw_recall, recall_ranks
from tfdml.reporting.pictures.rejection import draw_rejection, rejection_curve
from tfdml.reporting.pictures.roc import draw_det, draw_roc, roc_intervals
from tfdml.reporting.pictures.similarities import draw_similarities
from tfdml.reporting.pictures.similarity import draw_similarities_of_places, similarity_map, similarity_maps
from tfdml.reporting.pictures.training import draw_training

__all__ = [
    "MOST_ON_MAP",
    "Picture",
    "chosen_queries",
    "class_thresholds",
    "draw_attention",
    "draw_batch",
    "draw_class_thresholds",
    "draw_clusters",
    "draw_confused",
    "draw_det",
    "draw_embedding_map",
    "draw_learners",
    "draw_negative_distances",
    "draw_neighbors",
    "draw_only_one_right",
    "draw_pair_cosines",
    "draw_recall",
    "draw_rejection",
    "draw_roc",
    "draw_similarities",
    "draw_similarities_of_places",
    "draw_training",
    "map_positions",
    "most_confused",
    "recall_ranks",
    "rejection_curve",
    "roc_intervals",
    "similarity_map",
    "similarity_maps",
    "typical_rows",
]
