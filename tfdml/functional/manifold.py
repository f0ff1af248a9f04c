"""Similarities along the manifold that a batch and the proxies lie on: where random walks end up.

Equations (8) to (10) of Aziere and Todorovic, Ensemble Deep Manifold Similarity Learning using Hard Proxies, 2019.
"""

from keras import ops

from tfdml.argument_checks import expects
from tfdml.arguments import number, one_of
from tfdml.functional.cosines import cosines

VIEWS = ("intrinsic", "contextual")
WALK = {"restart": number(above=0, below=1), "affinity": one_of("clipped", "shifted")}


@expects(view=one_of(*VIEWS), **WALK)
def manifold_similarities(embeddings, proxies, *, view="intrinsic", restart=0.8, affinity="clipped"):
    """Similarities `[B, C]` of rows to proxies on the manifold of both.

    `view` says which:

    - `intrinsic`: those of `random_walk`, f_np of equation (11).
    - `contextual`: how alike a row and a proxy see all proxies, `f_n . f_p` of equation (12).

    Args:
        embeddings: `[B, d]` of any length.
        proxies: `[C, d]` of any length.
        view: one of the above.
        restart, affinity: see `random_walk`.
    """
    of_rows, of_proxies = random_walk(embeddings, proxies, restart=restart, affinity=affinity)
    return of_rows if view == "intrinsic" else ops.matmul(of_rows, of_proxies)


@expects(**WALK)
def random_walk(embeddings, proxies, *, restart=0.8, affinity="clipped"):
    """Where random walks on the graph of rows and proxies end up: `F = (1 - α) (I - α S̄)^-1`, equation (9).

    S̄ is `D^-1/2 S D^-1/2` with zeros on its diagonal, S the affinities, D their sums over each row. By the paper's
    text the diagonal is cleared after normalising, so a node's affinity to itself counts for its degree. Affinities
    are the cosines, as in the paper, but never negative: else degrees can be 0 or below, S̄ is no number, and
    `I - α S̄` can be singular. Here the eigenvalues of S̄ lie from -1 to 1, those of `I - α S̄` from `1 - α` to
    `1 + α`, so the system is well conditioned. It is solved for the proxies' columns alone; F is symmetric.

    Args:
        embeddings: `[B, d]` of any length.
        proxies: `[C, d]` of any length.
        restart: α, above 0 and below 1. The paper calls it the probability of restarting; by its equation that is
            `1 - α`, and a walk reaches the farther, the larger α is.
        affinity: `clipped`, `max(0, cos)`: equal to the paper's where no cosine is negative; opposite images are as
            far apart as unrelated ones. Or `shifted`, `(1 + cos) / 2`, which tells them apart, but joins all nodes.

    Returns:
        Similarities `[B, C]` of rows to proxies and `[C, C]` of proxies to each other, f_n and f_p of equation (10). A
        node without neighbours, such as a row of zeros, has none to others.
    """
    nodes = ops.concatenate([embeddings, proxies], axis=0)
    rows, classes = ops.shape(embeddings)[0], proxies.shape[0]
    identity = ops.eye(rows + classes, dtype=nodes.dtype)
    adjacency = _normalised(_affinities(nodes, affinity)) * (1.0 - identity)
    # The identity's last columns; cut from it, their number would not be known before a batch is.
    starts = ops.concatenate([ops.zeros((rows, classes), nodes.dtype), ops.eye(classes, dtype=nodes.dtype)], axis=0)
    reached = (1.0 - restart) * _solve(identity - restart * adjacency, identity, starts)
    return reached[:rows], reached[rows:]


def _affinities(nodes, affinity):
    cosine = cosines(nodes)
    # Rounding puts cosines below -1, too.
    return ops.maximum(cosine if affinity == "clipped" else (1.0 + cosine) / 2.0, 0.0)


def _normalised(affinities):
    degrees = ops.sum(affinities, axis=1)
    # Written so that what is no number stays none.
    connected = ops.logical_not(degrees <= 0.0)
    scale = ops.where(connected, ops.rsqrt(ops.where(connected, degrees, 1.0)), 0.0)
    return affinities * scale[:, None] * scale[None, :]


def _solve(system, stand_in, right_sides):
    """Solves the system; the solution of what is no number is none, where TensorFlow would raise."""
    is_number = ops.isfinite(ops.sum(system))
    solution = ops.solve(ops.where(is_number, system, stand_in), right_sides)
    return ops.where(is_number, solution, float("nan"))
