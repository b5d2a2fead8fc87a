"""Clusters of vectors, and a check of an index over vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

import pyarrow as pa

from pennon._compatibility import explain_absent_names
from pennon._optional import require
from pennon._options import checked_number
from pennon.errors import InvalidInputError, TooFewVectorsError
from pennon.indices.builder import IndicesBuilder
from pennon.write import write_dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from pennon.dataset import LanceDataset

    Vectors: TypeAlias = "pa.FixedSizeListArray | pa.FixedShapeTensorArray | np.ndarray[Any, Any]"

__all__ = ["KMeans", "validate_vector_index"]

explain_absent_names(__name__)

_METRICS = {"l2": "l2", "euclidean": "l2", "cosine": "cosine", "dot": "dot"}
_VALUES_AT_ONCE = 1 << 22


class KMeans:
    """Clusters of vectors of float32, found as those of an index are.

    Vectors are a fixed-size list array, an array of tensors with one dimension, or a numpy array with two.

    Parameters
    ----------
    k
        The number of clusters.
    metric_type
        What is near: `"l2"` (also `"euclidean"`), `"cosine"` or `"dot"`.
    max_iters
        Passes over the vectors at most.
    centroids
        Those of a model that was fitted before, for `predict`. `fit` begins without them.

    Raises
    ------
    pennon.InvalidInputError
        There is no such metric, or a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from pennon.util import KMeans
    >>> data = np.array([[0, 0], [0, 1], [9, 9], [9, 8]], np.float32)
    >>> model = KMeans(2)
    >>> model.fit(data)
    >>> clusters = model.predict(data).to_pylist()
    >>> clusters[0] == clusters[1] != clusters[2] == clusters[3]
    True
    """

    def __init__(
        self,
        k: int,
        metric_type: Literal["l2", "euclidean", "cosine", "dot"] = "l2",
        max_iters: int = 50,
        centroids: pa.FixedSizeListArray | None = None,
    ) -> None:
        metric = _METRICS.get(str(metric_type).lower())
        if metric is None:
            raise InvalidInputError(f"Invalid metric_type: {metric_type}, expected l2, cosine or dot")
        self.k = checked_number("k", k, 1, 2**32 - 1)
        self._max_iters = checked_number("max_iters", max_iters, 1, 2**32 - 1)
        self._metric_type = metric
        self._centroids = None if centroids is None else _vectors(centroids)

    def __repr__(self) -> str:
        return f"KMeans(k={self.k}, metric_type={self._metric_type!r})"

    @property
    def centroids(self) -> pa.FixedShapeTensorArray | None:
        """The centers of the clusters as tensors; `None` before `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from pennon.util import KMeans
        >>> model = KMeans(1)
        >>> model.fit(np.array([[0, 2], [4, 4]], np.float32))
        >>> model.centroids.to_numpy_ndarray().tolist()
        [[2.0, 3.0]]
        """
        if self._centroids is None:
            return None
        kind = pa.fixed_shape_tensor(pa.float32(), (self._centroids.type.list_size,))
        return pa.ExtensionArray.from_storage(kind, self._centroids)

    def fit(self, data: Vectors) -> None:
        """Find the clusters of vectors, whatever was found before.

        Parameters
        ----------
        data
            The vectors.

        Raises
        ------
        pennon.InvalidInputError
            There are fewer vectors than clusters, not counting those that are null or have a value that is not
            finite; or they are not of float32.
        pennon.MissingPackageError
            Numpy is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> from pennon.util import KMeans
        >>> model = KMeans(3, "cosine")
        >>> model.fit(np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32))
        >>> len(model.centroids)
        3
        """
        np = require("numpy", "numpy", "KMeans.fit")
        vectors = _vectors(data)
        count = sum(int(valid.sum()) for _, valid in _parts(np, vectors, 1))
        if count < self.k:
            raise TooFewVectorsError(f"KMeans has {count} vectors for {self.k} clusters")
        # The core trains on the column of a table.
        uri = f"memory://kmeans-{uuid4()}"
        table = write_dataset(pa.table({"vector": vectors}), uri)
        try:
            model = IndicesBuilder(table, "vector").train_ivf(
                self.k,
                distance_type=self._metric_type,
                sample_rate=-(-len(vectors) // self.k),
                max_iters=self._max_iters,
            )
        finally:
            table.drop(uri)
        self._centroids = model.centroids

    def predict(self, data: Vectors) -> pa.UInt32Array:
        """The cluster of each vector; null for vectors that are null, or have a value that is not finite.

        Parameters
        ----------
        data
            The vectors.

        Raises
        ------
        pennon.InvalidInputError
            The model is not fitted, or the vectors are not of float32 or have another dimension.
        pennon.MissingPackageError
            Numpy is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import pyarrow as pa
        >>> from pennon.util import KMeans
        >>> model = KMeans(2, centroids=pa.array([[0, 0], [9, 9]], pa.list_(pa.float32(), 2)))
        >>> model.predict(np.array([[8, 8], [1, 0]], np.float32)).to_pylist()
        [1, 0]
        """
        np = require("numpy", "numpy", "KMeans.predict")
        if self._centroids is None:
            raise InvalidInputError("KMeans must be fitted before it predicts")
        vectors = _vectors(data)
        dimension = self._centroids.type.list_size
        if vectors.type.list_size != dimension:
            raise InvalidInputError(f"Vectors have {vectors.type.list_size} dimensions, expected {dimension}")
        # In float32, what vectors far from the origin differ in would be rounded away.
        centers = _rows(np, self._centroids).astype(np.float64)
        lengths = np.linalg.norm(centers, axis=1)
        if self._metric_type == "cosine":
            centers = centers / np.where(lengths == 0, 1, lengths)[:, None]
        # The distance without what all clusters have in common.
        offsets = lengths**2 / 2 if self._metric_type == "l2" else np.zeros(len(centers))
        found: list[pa.UInt32Array] = []
        for rows, valid in _parts(np, vectors, len(centers)):
            finite = np.where(valid[:, None], rows, 0).astype(np.float64)
            nearest = np.argmin(offsets - finite @ centers.T, axis=1).astype(np.uint32)
            found.append(pa.array(nearest, mask=~valid))
        return pa.concat_arrays(found) if found else pa.array([], pa.uint32())


def validate_vector_index(
    dataset: LanceDataset,
    column: str,
    refine_factor: int = 5,
    sample_size: int | None = None,
    pass_threshold: float = 1.0,
) -> None:
    """Check that an index finds vectors of the table when it is asked for them.

    Each vector is looked for in one partition, and passes if what is nearest has the distance 0. The metric must be
    one by which a vector is nearest to itself: `"l2"` or `"cosine"`. Vectors that are null or contain NaN are left
    out.

    Parameters
    ----------
    dataset
        The table.
    column
        The column of vectors.
    refine_factor
        How many times as many rows are compared exactly, as in `nearest` of
        [LanceDataset.scanner][pennon.LanceDataset.scanner].
    sample_size
        The number of random rows whose vectors are looked for; all if not given.
    pass_threshold
        The share of vectors that must pass.

    Raises
    ------
    pennon.InvalidInputError
        Fewer pass. It is a `ValueError` as well.

    Examples
    --------
    >>> import numpy as np
    >>> import pennon
    >>> from pennon.util import validate_vector_index
    >>> from pennon.vector import vec_to_table
    >>> data = vec_to_table(np.random.default_rng(0).normal(size=(300, 8)))
    >>> table = pennon.write_dataset(data, "memory://validate-index", mode="overwrite")
    >>> table = table.create_index("vector", "IVF_FLAT", num_partitions=4)
    >>> validate_vector_index(table, "vector", sample_size=20)
    """
    np = require("numpy", "numpy", "validate_vector_index")
    if sample_size is None:
        batches: Iterable[pa.RecordBatch] = dataset.to_batches([column])
    else:
        batches = dataset.sample(sample_size, [column]).to_batches()
    passed = total = 0
    # Values of Python take several times the memory of a vector.
    for vector in (value.as_py() for batch in batches for value in batch[column]):
        if vector is None or np.isnan(np.asarray(vector, np.float64)).any():
            continue
        nearest = {"column": column, "q": vector, "k": 1, "nprobes": 1, "refine_factor": refine_factor}
        distances = dataset.to_table(["_distance"], nearest=nearest)["_distance"].to_pylist()
        total += 1
        passed += bool(distances) and abs(distances[0]) < 1e-6
    if passed < pass_threshold * total:
        raise InvalidInputError(f"Vector index failed sanity check, only {passed}/{total} passed")


def _vectors(data: Any) -> pa.FixedSizeListArray:
    """Vectors of float32 as fixed-size lists."""
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    if isinstance(data, pa.FixedShapeTensorArray):
        if len(data.type.shape) != 1:
            raise InvalidInputError(f"Tensors must have one dimension, found {len(data.type.shape)}")
        data = data.storage
    if isinstance(data, pa.FixedSizeListArray):
        if data.type.value_type != pa.float32():
            raise InvalidInputError(f"Vectors must be of float32, found {data.type.value_type}")
        return data
    if not hasattr(data, "ndim") or not hasattr(data, "dtype"):
        raise InvalidInputError(
            f"Vectors must be a FixedSizeListArray, an array of tensors or of numpy, found {type(data).__name__}"
        )
    if data.ndim != 2 or str(data.dtype) != "float32":
        raise InvalidInputError(f"Vectors must be a 2-D array of float32, found {data.ndim}-D of {data.dtype}")
    return pa.FixedSizeListArray.from_arrays(pa.array(data.reshape(-1)), data.shape[1])


def _parts(np: Any, vectors: pa.FixedSizeListArray, width: int) -> Iterator[tuple[Any, Any]]:
    """Vectors as arrays of numpy, and which of them are valid and finite: a part for each few values.

    A vector has as many values as elements, or `width`, whichever is more.
    """
    step = max(1, _VALUES_AT_ONCE // max(vectors.type.list_size, width))
    for start in range(0, len(vectors), step):
        part = vectors.slice(start, step)
        rows = _rows(np, part)
        yield rows, np.isfinite(rows).all(axis=1) & part.is_valid().to_numpy(zero_copy_only=False)


def _rows(np: Any, vectors: pa.FixedSizeListArray) -> Any:
    """The vectors as an array of numpy, where those that are null have arbitrary values."""
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size)
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(vectors), size)
