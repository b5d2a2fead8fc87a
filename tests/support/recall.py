"""Rows and queries for the recall of indices over vectors: of photographs, of digits, and around points.

Recall is the share of the nearest rows that an answer has. It is counted by distances: of rows at equal distances,
of which photographs have many, any will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from support.vectors import vectors

K = 10
# Distances to pixels, which are whole numbers, are exact in float64; those to other vectors are rounded.
ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Collection:
    """Vectors of rows, and of queries, which are not among them; their elements are float32."""

    rows: Any
    queries: Any

    def nearest(self) -> Any:
        """The distances of the ten nearest rows to each query, in order."""
        rows, found = self.rows.astype("f8"), []
        lengths = (rows**2).sum(axis=1)
        for queries in np.array_split(self.queries.astype("f8"), -(-len(self.queries) // 50)):
            distances = lengths - 2 * queries @ rows.T + (queries**2).sum(axis=1)[:, None]
            found.append(np.sort(np.partition(distances, K - 1, axis=1)[:, :K], axis=1))
        return np.concatenate(found)

    def recall(self, numbers: list[list[int]], nearest: Any) -> Any:
        """The shares of the first queries, whose answers have these rows; `nearest` is what `nearest()` gives."""
        shares = []
        for query, found, distances in zip(self.queries.astype("f8"), numbers, nearest, strict=False):
            assert len(found) == len(set(found)) == K
            true = ((self.rows[found].astype("f8") - query) ** 2).sum(axis=1)
            shares.append(np.mean(true <= distances[-1] * ROUNDING))
        return np.array(shares)


def split(values: Any, queries: int) -> Collection:
    """The first of shuffled vectors are queries."""
    values = np.random.default_rng(0).permutation(values).astype("f4")
    return Collection(values[queries:], values[:queries])


def patches(count: int, queries: int, *, side: int = 8, gray: bool = True) -> Collection:
    """Squares of pixels of the photographs that scikit-learn comes with, at random positions."""
    # It takes a second to import, and few tests need it.
    from sklearn.datasets import load_sample_images

    rng, found = np.random.default_rng(0), []
    images = load_sample_images().images
    for image in images:
        pixels = image.mean(axis=2, keepdims=True).round() if gray else image
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (side, side), axis=(0, 1))
        height, width = windows.shape[:2]
        # One more than half of an odd number of them.
        chosen = rng.choice(height * width, -(-(count + queries) // len(images)), replace=False)
        found.append(windows[chosen // width, chosen % width].reshape(len(chosen), -1))
    return split(np.concatenate(found)[: count + queries], queries)


def digits(queries: int) -> Collection:
    """The handwritten digits of scikit-learn, of 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    return split(load_digits().data, queries)


def clustered(count: int, queries: int) -> Collection:
    """Vectors around forty points."""
    return split(vectors(count + queries), queries)
