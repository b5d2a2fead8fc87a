"""Centroids of the partitions of an index over vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pennon._compatibility import explain_absent_names
from pennon._file_reader import LanceFileReader
from pennon._file_writer import LanceFileWriter
from pennon.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Self

__all__ = ["IvfModel"]

explain_absent_names(__name__)


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
        if not isinstance(centroids, pa.FixedSizeListArray):
            raise InvalidTypeError(
                f"centroids must be a pyarrow.FixedSizeListArray, found {type(centroids).__name__}"
            )
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

    def save(self, uri: str | PathLike[str], *, storage_options: dict[str, str] | None = None) -> None:
        """Write the model to a data file, which pylance can load too. A file of that name is replaced.

        Parameters
        ----------
        uri
            Where the file will be.
        storage_options
            Keys and values for the object store.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.indices import IvfModel
        >>> centroids = pa.array([[0, 0], [1, 1]], pa.list_(pa.float32(), 2))
        >>> IvfModel(centroids, "cosine").save("memory://ivf/model.lance")
        """
        schema = pa.schema([("centroids", self.centroids.type)], {"distance_type": self.distance_type})
        with LanceFileWriter(uri, schema, storage_options=storage_options) as writer:
            writer.write_batch(pa.table([self.centroids], schema=schema))

    @classmethod
    def load(cls, uri: str | PathLike[str], *, storage_options: dict[str, str] | None = None) -> Self:
        """Read a model from a data file that `save` wrote, here or in pylance.

        Parameters
        ----------
        uri
            Where the file is.
        storage_options
            Keys and values for the object store.

        Raises
        ------
        pennon.NotFoundError
            There is no file.
        pennon.InvalidInputError
            The file holds something else.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.indices import IvfModel
        >>> centroids = pa.array([[0, 0], [1, 1]], pa.list_(pa.float32(), 2))
        >>> IvfModel(centroids, "dot").save("memory://ivf-to-load/model.lance")
        >>> IvfModel.load("memory://ivf-to-load/model.lance")
        IvfModel(2 partitions, dot)
        """
        rows = LanceFileReader(uri, storage_options=storage_options).read_all().to_table()
        metric = (rows.schema.metadata or {}).get(b"distance_type")
        if metric is None or rows.column_names != ["centroids"]:
            raise InvalidInputError(f"{uri} holds no centroids that `IvfModel.save` wrote")
        return cls(rows["centroids"].combine_chunks(), metric.decode())

    def __repr__(self) -> str:
        return f"IvfModel({self.num_partitions} partitions, {self.distance_type})"
