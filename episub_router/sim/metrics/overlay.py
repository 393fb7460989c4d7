"""The overlay as a graph: degrees, symmetry, clustering, paths, components, proximity.

An overlay is a square sparse matrix: entry (i, j) is 1 where node number i has node number j
as a neighbour. Rows are the live nodes in order of their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra


def adjacency(neighbors: Mapping[int, Iterable[int]]) -> tuple[csr_array, list[int]]:
    """The matrix of `neighbors`, and the node id of each row. Links to absent nodes are left
    out."""
    ids = sorted(neighbors)
    row_of = {node: row for row, node in enumerate(ids)}
    rows: list[int] = []
    columns: list[int] = []
    for row, node in enumerate(ids):
        for peer in neighbors[node]:
            column = row_of.get(peer)
            if column is not None:
                rows.append(row)
                columns.append(column)
    ones = np.ones(len(rows), dtype=np.int8)
    return csr_array((ones, (rows, columns)), shape=(len(ids), len(ids))), ids


def degrees(overlay: csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(out-degree, in-degree) of each node."""
    out = np.diff(overlay.indptr).astype(np.int64)
    into = np.bincount(overlay.indices, minlength=overlay.shape[0]).astype(np.int64)
    return out, into


def symmetry(overlay: csr_array) -> float:
    """Share of the directed links that have their reverse; 1.0 without links (E12)."""
    both = overlay.multiply(overlay.T).nnz
    return float(both / overlay.nnz) if overlay.nnz else 1.0


def clustering(overlay: csr_array) -> float:
    """Mean local clustering coefficient of the undirected graph: the share of a node's pairs
    of neighbours that are neighbours themselves; 0 for a node with fewer than two (Watts and
    Strogatz, 1998; HyParView, section 5.3)."""
    if not overlay.shape[0]:
        return 0.0
    graph = _undirected(overlay)
    triangles = (graph @ graph).multiply(graph).sum(axis=1) / 2
    degree = np.diff(graph.indptr)
    pairs = degree * (degree - 1) / 2
    local = np.divide(triangles, pairs, out=np.zeros(len(pairs)), where=pairs > 0)
    return float(local.mean())


def shortest_paths(overlay: csr_array, sources: Sequence[int]) -> NDArray[np.float64]:
    """Hops from each of the rows `sources` to every node; infinite where there is no path."""
    graph = _undirected(overlay).astype(np.float64)
    return np.asarray(dijkstra(graph, unweighted=True, indices=list(sources)))


def average_shortest_path(hops: NDArray[np.float64]) -> float:
    """Mean hops over the pairs of `shortest_paths` that are connected (HyParView, 5.3)."""
    reached = hops[np.isfinite(hops) & (hops > 0)]
    return float(reached.mean()) if len(reached) else 0.0


def eccentricity(hops: NDArray[np.float64]) -> int:
    """The most hops from a source to a node that it reaches: the least LDH that a tree can
    have."""
    reached = hops[np.isfinite(hops)]
    return int(reached.max()) if len(reached) else 0


def components(overlay: csr_array) -> list[int]:
    """For each node, the label of its connected component in the undirected graph."""
    if not overlay.shape[0]:
        return []
    return connected_components(overlay, directed=False)[1].tolist()  # type: ignore[no-any-return]


def component_sizes(overlay: csr_array) -> list[int]:
    """Sizes of the connected components of the undirected graph, largest first."""
    return sorted(np.bincount(components(overlay)).tolist(), reverse=True)


def flood_reach(overlay: csr_array) -> float:
    """Mean share of the nodes that a flood from a random one reaches if no link is repaired:
    the sum of (size / n)^2 over the components."""
    nodes = overlay.shape[0]
    return sum((size / nodes) ** 2 for size in component_sizes(overlay)) if nodes else 1.0


def proximity_ratio(
    overlay: csr_array,
    ids: Sequence[int],
    delay: Callable[[int, int], float],
    pairs: Iterable[tuple[int, int]],
) -> float:
    """Mean delay between neighbours / mean delay of the random `pairs` (GoCast's measure of
    how near the neighbours are; RTTs are twice the delays, which cancels out)."""
    matrix = overlay.tocoo()
    links = [delay(ids[i], ids[j]) for i, j in zip(matrix.row, matrix.col, strict=True)]
    random_pairs = [delay(a, b) for a, b in pairs if a != b]
    if not links or not random_pairs:
        return 1.0
    return (sum(links) / len(links)) / (sum(random_pairs) / len(random_pairs))


def _undirected(overlay: csr_array) -> csr_array:
    return ((overlay + overlay.T) > 0).astype(np.int32).tocsr()
