"""What a fragment is at the version of its dataset: ids, figures and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset

from pennon._compatibility import ExplainsAbsence
from pennon._table.handles import OpenedWhenUsed
from pennon.errors import UnsupportedError
from pennon.metadata import DataFile, FragmentMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon._native import Fragment as NativeFragment
    from pennon._protocols import Table


class FragmentState(ExplainsAbsence, pyarrow.dataset.Fragment):
    """The properties of `LanceFragment`."""

    _dataset: Table
    if TYPE_CHECKING:
        _native: NativeFragment
        _unopened: Callable[[], NativeFragment]
    else:
        _native = OpenedWhenUsed()

    @property
    def fragment_id(self) -> int:
        """The id of the fragment, unique in the table and never used again.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-id", mode="overwrite", max_rows_per_file=3)
        >>> table.optimize.compact_files().fragments_added
        1
        >>> [part.fragment_id for part in table.get_fragments()]
        [2]
        """
        return self._native.id

    @property
    def metadata(self) -> FragmentMetadata:
        """The metadata of the fragment in the version of the dataset.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-metadata", mode="overwrite", max_rows_per_file=3)
        >>> metadata = table.get_fragment(1).metadata
        >>> metadata.id, metadata.physical_rows, len(metadata.files)
        (1, 3, 1)
        """
        return FragmentMetadata._of(self._native.parts)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the dataset: every fragment has them.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-schema", mode="overwrite", max_rows_per_file=3)
        >>> table.get_fragment(0).schema
        a: int64
        """
        return self._dataset._native.schema

    @property
    def physical_schema(self) -> pa.Schema:
        """Not supported, as in pylance: raises `UnsupportedError`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://fragment-physical-schema", mode="overwrite", max_rows_per_file=3
        ... )
        >>> try:
        ...     table.get_fragment(0).physical_schema
        ... except pennon.UnsupportedError as error:
        ...     print(error)
        The physical schema of a fragment is not supported
        """
        raise UnsupportedError("The physical schema of a fragment is not supported")

    @property
    def partition_expression(self) -> pyarrow.compute.Expression:
        """Not supported, as in pylance: raises `UnsupportedError`.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-partition", mode="overwrite", max_rows_per_file=3)
        >>> try:
        ...     table.get_fragment(0).partition_expression
        ... except pennon.UnsupportedError as error:
        ...     print(error)
        Fragments have no partition expression
        """
        raise UnsupportedError("Fragments have no partition expression")

    @property
    def physical_rows(self) -> int:
        """Rows in the data files, deleted ones included.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://fragment-physical-rows", mode="overwrite", max_rows_per_file=3
        ... )
        >>> table.delete("a = 0")
        {'num_deleted_rows': 1}
        >>> part = table.get_fragment(0)
        >>> part.physical_rows, part.count_rows()
        (3, 2)
        """
        return self._native.physical_rows

    @property
    def num_deletions(self) -> int:
        """The number of deleted rows.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-deletions", mode="overwrite", max_rows_per_file=3)
        >>> table.delete("a < 2")
        {'num_deleted_rows': 2}
        >>> [part.num_deletions for part in table.get_fragments()]
        [2, 0]
        """
        return self._native.num_deletions

    def data_files(self) -> list[DataFile]:
        """The data files of the fragment: columns that are added later have files of their own.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://fragment-data-files", mode="overwrite", max_rows_per_file=3
        ... )
        >>> table.add_columns({"b": "a + 1"})
        >>> [file.fields for file in table.get_fragment(0).data_files()]
        [[0], [1]]
        """
        return self.metadata.files

    def deletion_file(self) -> str | None:
        """Path of the deletion file, relative to the table; `None` if no row is deleted.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://fragment-deletion-file", mode="overwrite", max_rows_per_file=3
        ... )
        >>> table.delete("a = 0")
        {'num_deleted_rows': 1}
        >>> [part.deletion_file() for part in table.get_fragments()]
        ['_deletions/0-1-...arrow', None]
        """
        file = self.metadata.deletion_file
        return None if file is None else file.path(self.fragment_id)

    def validate(self) -> None:
        """Check the whole version, as [LanceDataset.validate][pennon.LanceDataset.validate] does.

        Raises
        ------
        pennon.CorruptError
            A file is missing or damaged; the message names the first fault.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-validate", mode="overwrite", max_rows_per_file=3)
        >>> table.get_fragment(0).validate()
        """
        self._dataset._native.validate()
