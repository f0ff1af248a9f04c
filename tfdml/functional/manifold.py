"""Similarities along the manifold of a batch and proxies, computed with random walks.

They are equations (8) to (10) of Aziere and Todorovic, Ensemble Deep Manifold Similarity Learning using Hard Proxies,
2019.
"""

from typing import Annotated

from keras import ops

from tfdml.functional.distances import cosines, known_gradient
from tfdml.registry.arguments import Affinity, Count, Tensor, View, number, or_tensor
from tfdml.registry.fields import declared

Restart = Annotated[float, number(above=0, below=1)]
Neighbors = Count | None
# The argument of a function can be a tensor without a value while a graph is traced.
TracedRestart = Annotated[float, or_tensor(number(above=0, below=1))]


@declared
def manifold_similarities(
    embeddings: Tensor,
    proxies: Tensor,
    *,
    view: View = "intrinsic",
    restart: TracedRestart = 0.8,
    affinity: Affinity = "clipped",
    neighbors: Neighbors = None,
) -> Tensor:
    """Computes similarities `[B, C]` of rows to proxies along the manifold of both.

    `view` is one of:

    - `intrinsic`: the similarities of `random_walk`, f_np of equation (11).
    - `contextual`: compares a row and a proxy by their similarities to all proxies, `f_n . f_p` of equation (12).

    Args:
        embeddings: `[B, d]`; they need not be normalized.
        proxies: `[C, d]`; they need not be normalized.
        view: one of the above.
        restart, affinity, neighbors: see `random_walk`.
    """
    walk = {"restart": restart, "affinity": affinity, "neighbors": neighbors}
    rows, classes = embeddings.shape[0], proxies.shape[0]
    if view == "intrinsic" and rows is not None and rows < classes:
        # F is symmetric, so walks from the smaller set have the same result.
        return ops.transpose(_reached(embeddings, proxies, walk, from_rows=True)[rows:])
    of_rows, of_proxies = random_walk(embeddings, proxies, **walk)
    return of_rows if view == "intrinsic" else ops.matmul(of_rows, of_proxies)


@declared
def random_walk(
    embeddings: Tensor,
    proxies: Tensor,
    *,
    restart: TracedRestart = 0.8,
    affinity: Affinity = "clipped",
    neighbors: Neighbors = None,
) -> tuple[Tensor, Tensor]:
    """Computes where random walks on the graph of rows and proxies end: `F = (1 - α) (I - α S̄)^-1`, equation (9).

    S̄ is `D^-1/2 S D^-1/2` with zeros on its diagonal. S contains the affinities, and D their sums over each row.
    According to the paper's text, the diagonal is cleared after normalization, so a node's affinity to itself counts
    toward its degree. Affinities are cosines, as in the paper, but never negative. Otherwise, degrees could be 0 or
    negative, S̄ could be NaN, and `I - α S̄` could be singular. Here, the eigenvalues of S̄ are from -1 to 1 and the
    eigenvalues of `I - α S̄` from `1 - α` to `1 + α`, so the system is well conditioned and positive definite. Because
    F is symmetric, the system is solved only for the proxies' columns.

    Args:
        embeddings: `[B, d]`; they need not be normalized.
        proxies: `[C, d]`; they need not be normalized.
        restart: α, above 0 and below 1. With a larger α, walks reach farther. The paper calls α the probability of
            restarting, but in its equation that probability is `1 - α`.
        affinity: `clipped` is `max(0, cos)`, which equals the paper's affinity if no cosine is negative. Opposite
            images are then as far apart as unrelated images. `shifted` is `(1 + cos) / 2`, which distinguishes these
            but connects all nodes.
        neighbors: number of other nodes that a node is connected with: the nodes with the largest affinity, and in
            addition the nodes that have it among theirs. If None, all nodes are connected. (The paper mentions a graph
            of nearest neighbors, but its S contains all affinities.)

    Returns:
        Similarities `[B, C]` of rows to proxies and `[C, C]` of proxies to each other, f_n and f_p of equation (10). A
        node without neighbors, such as a row of zeros, has a similarity of 0 to other nodes.
    """
    reached = _reached(embeddings, proxies, {"restart": restart, "affinity": affinity, "neighbors": neighbors})
    rows = ops.shape(embeddings)[0]
    return reached[:rows], reached[rows:]


@declared
def walk_within_batch(
    embeddings: Tensor, *, restart: TracedRestart = 0.8, affinity: Affinity = "clipped", neighbors: Neighbors = None
) -> Tensor:
    """Computes where random walks on the graph of the rows end, F `[B, B]` of equation (9) without proxies.

    Args:
        embeddings: `[B, d]`; they need not be normalized.
        restart, affinity, neighbors: see `random_walk`.
    """
    starts = ops.eye(ops.shape(embeddings)[0], dtype=embeddings.dtype)
    return _walked(embeddings, starts, restart, affinity, neighbors)


def _reached(embeddings, proxies, walk, from_rows=False):
    """Returns the columns of F for walks from the proxies, or from the rows."""
    nodes = ops.concatenate([embeddings, proxies], axis=0)
    rows, classes = ops.shape(embeddings)[0], proxies.shape[0]
    # A slice of the identity matrix would have an unknown number of columns if the batch size is unknown.
    size, others = (rows, classes) if from_rows else (classes, rows)
    parts = [ops.eye(size, dtype=nodes.dtype), ops.zeros((others, size), nodes.dtype)]
    return _walked(nodes, ops.concatenate(parts if from_rows else parts[::-1], axis=0), **walk)


def _walked(nodes, starts, restart, affinity, neighbors):
    """Returns the columns of F for starts `[N, C]` with a 1 in each column."""
    affinities = _affinities(nodes, affinity)
    if neighbors:
        affinities = ops.where(_are_neighbors(affinities, neighbors), affinities, 0.0)
    system = -restart * _normalized(affinities)
    return (1.0 - restart) * _solve(system, starts)


def _affinities(nodes, affinity):
    cosine = cosines(nodes)
    # Rounding can make cosines smaller than -1.
    return ops.maximum(cosine if affinity == "clipped" else (1.0 + cosine) / 2.0, 0.0)


def _are_neighbors(affinities, count):
    """Returns the mask `[N, N]` of nodes that are the same or of which one is among the nearest of the other."""
    itself = ops.eye(ops.shape(affinities)[0], dtype="bool")
    others = ops.where(itself, -1.0, affinities)
    # If there are fewer other nodes than `count`, all of them are neighbors.
    least = ops.sort(others, axis=1)[:, ::-1][:, :count][:, -1:]
    near = others >= least
    return ops.logical_or(itself, ops.logical_or(near, ops.transpose(near)))


def _normalized(affinities):
    degrees = ops.sum(affinities, axis=1)
    # `<=` is False for NaN, so NaN is kept.
    connected = ops.logical_not(degrees <= 0.0)
    scale = ops.where(connected, ops.rsqrt(ops.where(connected, degrees, 1.0)), 0.0)
    return affinities * scale[:, None] * scale[None, :]


def _solve(system, right_sides):
    """Solves the symmetric system with ones on its diagonal. If it contains NaN, the solution is NaN."""
    is_number = ops.isfinite(ops.sum(system))
    diagonal = ops.arange(ops.shape(system)[0], dtype="int32")
    ones = ops.ones_like(system[0])
    system = ops.where(is_number, system, 0.0)
    system = ops.scatter_update(system, ops.stack([diagonal, diagonal], axis=1), ones)

    @known_gradient
    def solve(system):
        lower = ops.cholesky(system)
        solution = _substitute(lower, right_sides)

        def gradient(upstream):
            # The Cholesky factor is reused. Automatic differentiation would compute it again.
            return -ops.matmul(_substitute(lower, upstream), ops.transpose(solution))

        return solution, gradient

    return ops.where(is_number, solve(system), float("nan"))


def _substitute(lower, right_sides):
    """Solves a system from its Cholesky factor."""
    forward = ops.solve_triangular(lower, right_sides, lower=True)
    return ops.solve_triangular(ops.transpose(lower), forward)
