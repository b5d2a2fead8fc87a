"""What indices over vectors are built with: centroids of partitions, codebooks."""

from __future__ import annotations

import pyarrow as pa

from pennon.errors import InvalidInputError, InvalidTypeError

__all__ = ["IvfModel", "PqModel"]


class IvfModel:
    """The centroids of partitions.

    Parameters
    ----------
    centroids
        Vectors, as a fixed-size list array.
    distance_type
        The metric.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.indices import IvfModel
    >>> centroids = pa.array([[0, 0], [1, 1]], pa.list_(pa.float32(), 2))
    >>> IvfModel(centroids, "l2")
    IvfModel(2 partitions, l2)
    """

    def __init__(self, centroids: pa.FixedSizeListArray, distance_type: str) -> None:
        _check("centroids", centroids)
        self.centroids = centroids
        self.distance_type = distance_type

    @property
    def num_partitions(self) -> int:
        """How many there are.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.indices import IvfModel
        >>> IvfModel(pa.array([[0, 0], [1, 1], [2, 2]], pa.list_(pa.float32(), 2)), "l2").num_partitions
        3
        """
        return len(self.centroids)

    def __repr__(self) -> str:
        return f"IvfModel({self.num_partitions} partitions, {self.distance_type})"


class PqModel:
    """A codebook of product quantization.

    Parameters
    ----------
    num_subvectors
        Codes of a vector.
    codebook
        Parts of vectors, by sub-vector and code, as a fixed-size list array.
    num_bits
        Bits of a code.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.indices import PqModel
    >>> parts = pa.array([[n, n] for n in range(2 * 16)], pa.list_(pa.float32(), 2))
    >>> PqModel(2, parts, num_bits=4)
    PqModel(2 sub-vectors, 4 bits)
    """

    def __init__(self, num_subvectors: int, codebook: pa.FixedSizeListArray, *, num_bits: int = 8) -> None:
        _check("codebook", codebook)
        if len(codebook) != num_subvectors << num_bits:
            raise InvalidInputError(
                f"codebook has {len(codebook)} parts, expected {num_subvectors << num_bits}: "
                f"{num_subvectors} sub-vectors with {1 << num_bits} codes each"
            )
        self.num_subvectors = num_subvectors
        self.codebook = codebook
        self.num_bits = num_bits

    @property
    def dimension(self) -> int:
        """Elements of a whole vector.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.indices import PqModel
        >>> parts = pa.array([[n, n, n] for n in range(4 * 16)], pa.list_(pa.float32(), 3))
        >>> PqModel(4, parts, num_bits=4).dimension
        12
        """
        return self.num_subvectors * int(self.codebook.type.list_size)

    def __repr__(self) -> str:
        return f"PqModel({self.num_subvectors} sub-vectors, {self.num_bits} bits)"


def _check(name: str, vectors: object) -> None:
    if not isinstance(vectors, pa.FixedSizeListArray):
        raise InvalidTypeError(f"{name} must be a pyarrow.FixedSizeListArray, found {type(vectors).__name__}")
