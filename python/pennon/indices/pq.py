"""The codebook of an index over vectors with product quantization."""

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

__all__ = ["PqModel"]

explain_absent_names(__name__)


class PqModel:
    """A codebook of product quantization.

    Parameters
    ----------
    num_subvectors
        Codes of a vector.
    codebook
        A fixed-size list array with lists of the dimension of a vector, as many as a code has values. Its numbers
        are those of the parts, by sub-vector, code and element: a list is not a vector.
    num_bits
        Bits of a code.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.indices import PqModel
    >>> codebook = pa.array([[n, n, n, n] for n in range(16)], pa.list_(pa.float32(), 4))
    >>> PqModel(2, codebook, num_bits=4)
    PqModel(2 sub-vectors, 4 bits)
    """

    def __init__(self, num_subvectors: int, codebook: pa.FixedSizeListArray, *, num_bits: int = 8) -> None:
        if not isinstance(codebook, pa.FixedSizeListArray):
            raise InvalidTypeError(
                f"codebook must be a pyarrow.FixedSizeListArray, found {type(codebook).__name__}"
            )
        dimension = codebook.type.list_size
        if len(codebook) != 1 << num_bits:
            raise InvalidInputError(
                f"codebook has {len(codebook)} lists, expected {1 << num_bits}: codes have {num_bits} bits"
            )
        if num_subvectors < 1 or dimension % num_subvectors:
            raise InvalidInputError(
                f"num_subvectors is {num_subvectors}, expected a divisor of the dimension {dimension}"
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
        >>> codebook = pa.array([[n] * 12 for n in range(16)], pa.list_(pa.float32(), 12))
        >>> PqModel(4, codebook, num_bits=4).dimension
        12
        """
        return int(self.codebook.type.list_size)

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
        >>> from pennon.indices import PqModel
        >>> codebook = pa.array([[n, n, n, n] for n in range(16)], pa.list_(pa.float32(), 4))
        >>> PqModel(2, codebook, num_bits=4).save("memory://pq/model.lance")
        """
        numbers = {"num_subvectors": str(self.num_subvectors), "num_bits": str(self.num_bits)}
        schema = pa.schema([("codebook", self.codebook.type)], numbers)
        with LanceFileWriter(uri, schema, storage_options=storage_options) as writer:
            writer.write_batch(pa.table([self.codebook], schema=schema))

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
        >>> from pennon.indices import PqModel
        >>> codebook = pa.array([[n, n, n, n] for n in range(16)], pa.list_(pa.float32(), 4))
        >>> PqModel(2, codebook, num_bits=4).save("memory://pq-to-load/model.lance")
        >>> PqModel.load("memory://pq-to-load/model.lance")
        PqModel(2 sub-vectors, 4 bits)
        """
        rows = LanceFileReader(uri, storage_options=storage_options).read_all().to_table()
        metadata = rows.schema.metadata or {}
        if b"num_subvectors" not in metadata or rows.column_names != ["codebook"]:
            raise InvalidInputError(f"{uri} holds no codebook that `PqModel.save` wrote")
        # Older releases of pylance wrote none of other sizes, and no number.
        num_bits = int(metadata.get(b"num_bits", b"8"))
        return cls(int(metadata[b"num_subvectors"]), rows["codebook"].combine_chunks(), num_bits=num_bits)

    def __repr__(self) -> str:
        return f"PqModel({self.num_subvectors} sub-vectors, {self.num_bits} bits)"
