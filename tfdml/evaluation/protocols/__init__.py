"""Protocols: which images are queries, which are the gallery, and what is measured; one a file.

A protocol is created from its spec, such as `query_gallery(metrics=('recall_at_1', 'map'))`.
"""

from tfdml.evaluation.protocols.given_pairs import GivenPairs
from tfdml.evaluation.protocols.levels import Levels
from tfdml.evaluation.protocols.protocol import Protocol, protocol_of
from tfdml.evaluation.protocols.query_gallery import QueryGallery
from tfdml.evaluation.protocols.random_gallery import RandomGallery
from tfdml.evaluation.protocols.self_retrieval import SelfRetrieval
from tfdml.evaluation.protocols.several_labels import SeveralLabels

__all__ = [
    "GivenPairs",
    "Levels",
    "Protocol",
    "QueryGallery",
    "RandomGallery",
    "SelfRetrieval",
    "SeveralLabels",
    "protocol_of",
]
