"""Protocols: which images are queries, which form the gallery, and what is measured.

A protocol is created from its spec, such as `query_gallery(metrics=('recall_at_1', 'map'))`.
"""

from tfdml.evaluation.protocols.graded import GivenPairs, Levels, SeveralLabels
from tfdml.evaluation.protocols.image_text import ImageTextRetrieval
from tfdml.evaluation.protocols.protocol import Protocol, QueryGallery, RandomGallery, SelfRetrieval, protocol_of

__all__ = [
    "GivenPairs",
    "ImageTextRetrieval",
    "Levels",
    "Protocol",
    "QueryGallery",
    "RandomGallery",
    "SelfRetrieval",
    "SeveralLabels",
    "protocol_of",
]
