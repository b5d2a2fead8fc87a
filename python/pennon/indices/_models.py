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
    """

    def __init__(self, centroids: pa.FixedSizeListArray, distance_type: str) -> None:
        _check("centroids", centroids)
        self.centroids = centroids
        self.distance_type = distance_type

    @property
    def num_partitions(self) -> int:
        """How many there are."""
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
        """Elements of a whole vector."""
        return self.num_subvectors * int(self.codebook.type.list_size)

    def __repr__(self) -> str:
        return f"PqModel({self.num_subvectors} sub-vectors, {self.num_bits} bits)"


def _check(name: str, vectors: object) -> None:
    if not isinstance(vectors, pa.FixedSizeListArray):
        raise InvalidTypeError(f"{name} must be a pyarrow.FixedSizeListArray, found {type(vectors).__name__}")
