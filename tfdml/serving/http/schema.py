"""Describes requests and responses for OpenAPI."""

import math
import os

from pydantic import BaseModel

from tfdml.serving.http.limits import MOST_NEIGHBORS

UNKNOWN = "unknown"
K = {"type": "integer", "minimum": 1, "maximum": MOST_NEIGHBORS, "description": "Number of neighbors."}
WHERE = {"type": "string", "description": "Filter, such as label in ('mug', 'cup') and price < 20."}


class Found(BaseModel):
    """An image of the index: its number, the name of its file, its label, and its similarity to the query.

    Where the service has a threshold, `accepted` says whether the similarity reaches it.
    """

    id: int
    name: str
    label: str | None
    similarity: float
    accepted: bool | None = None


class Neighbors(BaseModel):
    """Images of the index, the nearest first; of a filter how many it takes, and whether all were compared."""

    neighbors: list[Found]
    matching: int | None = None
    exact: bool | None = None
    threshold: float | None = None

    @classmethod
    def of(cls, answer):
        """Returns those of an `Answer`, without the paths of their files."""
        least = answer.threshold.value
        found = [
            Found(
                id=each.id,
                name=os.path.basename(each.path),
                label=each.label,
                similarity=each.similarity,
                accepted=None if least is None else answer.threshold.accepts(each.similarity),
            )
            for each in answer.neighbors
        ]
        return cls(neighbors=found, matching=answer.matching, exact=answer.exact, threshold=least)


class Label(BaseModel):
    """The label that neighbors vote for, and the similarity of the nearest one that has it.

    The label is `unknown` if that is below the threshold, or if no neighbor has a label; then `accepted` is false.
    Without a threshold nothing decides about the label, and `accepted` is null.
    """

    label: str
    accepted: bool | None
    similarity: float | None
    threshold: float | None = None

    @classmethod
    def of(cls, answer):
        """Returns the one of an `Answer`."""
        label, similarity = answer.vote()
        least = answer.threshold.value
        known = label is not None and answer.threshold.accepts(similarity)
        return cls(
            label=label if known else UNKNOWN,
            accepted=None if least is None else known,
            similarity=similarity if math.isfinite(similarity) else None,
            threshold=least,
        )


class Embedding(BaseModel):
    """An embedding."""

    embedding: list[float]


class Health(BaseModel):
    """Whether the service answers: `ok`, `old index`, `no index` or `stuck`; whether it asks for a token."""

    status: str
    token: bool
    reason: str | None = None


class Refusal(BaseModel):
    """Why there is no answer."""

    error: str


def _refusals(**about):
    return {int(status[1:]): {"model": Refusal, "description": text} for status, text in about.items()}


def _body(more):
    def kind(name, described):
        properties = {name: described, **more}
        return {
            "schema": {"type": "object", "required": [name], "properties": properties, "additionalProperties": False}
        }

    content = {
        "multipart/form-data": kind("image", {"type": "string", "format": "binary"}),
        "application/json": kind("b64", {"type": "string", "format": "byte"}),
    }
    return {"requestBody": {"required": True, "content": content}}


SEARCH, EMBED = _body({"k": K, "where": WHERE}), _body({})
TOKEN = {"_401": "The token is missing or wrong."}
ERRORS = _refusals(
    _400="The request, its filter or the image cannot be read.",
    _408="The body did not arrive in time.",
    _413="The body or the image is too large.",
    _415="The content type is not one of these.",
    _403="A page of another origin asks.",
    _503="Too many requests wait, the image takes too long to decode, or the index is out of reach.",
    **TOKEN,
)
STUCK = {503: {"model": Health, "description": "The service does not answer."}}
IMAGE = {
    200: {"content": {kind: {} for kind in ("image/jpeg", "image/png", "image/webp")}},
    **_refusals(_404="The index has no such image, or its file is gone.", _422="The id is no number.", **TOKEN),
}
