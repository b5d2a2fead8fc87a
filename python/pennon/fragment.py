"""Fragments: horizontal slices of a table, here to look at and to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset

from pennon.errors import UnsupportedError

if TYPE_CHECKING:
    from pennon import _native
    from pennon.dataset import LanceDataset
    from pennon.scanner import LanceScanner
    from pennon.types import Columns, Filter

__all__ = ["DataFile", "DeletionFile", "FragmentMetadata", "LanceFragment"]


@dataclass
class DataFile:
    """A data file of a fragment; `path` is relative to the data directory."""

    path: str
    fields: list[int]
    column_indices: list[int] = field(default_factory=list)
    file_major_version: int = 0
    file_minor_version: int = 0
    file_size_bytes: int | None = None
    base_id: int | None = None

    def field_ids(self) -> list[int]:
        """The fields whose values it holds."""
        return self.fields


@dataclass
class DeletionFile:
    """A deletion file: which rows of a fragment are deleted."""

    read_version: int
    id: int
    file_type: str
    num_deleted_rows: int
    base_id: int | None = None
    name: str = field(default="", repr=False)

    def path(self) -> str:
        """Path of the file, relative to the table."""
        return f"_deletions/{self.name}"


@dataclass
class FragmentMetadata:
    """What a version says about a fragment."""

    id: int
    files: list[DataFile]
    physical_rows: int
    deletion_file: DeletionFile | None = None

    @property
    def num_deletions(self) -> int:
        """Deleted rows."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Rows that are not deleted."""
        return self.physical_rows - self.num_deletions

    @classmethod
    def _of(cls, native: _native.Fragment) -> FragmentMetadata:
        deletion = native.deletion_file
        return cls(
            native.id,
            [DataFile(**parts) for parts in native.files],
            native.physical_rows,
            None if deletion is None else DeletionFile(**deletion),
        )


class LanceFragment(pyarrow.dataset.Fragment):
    """One fragment of a dataset; made by [LanceDataset.get_fragments][pennon.LanceDataset.get_fragments].

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset(
    ...     {"a": [1, 2, 3]}, "memory://fragments", mode="overwrite", max_rows_per_file=2
    ... )
    >>> [(part.fragment_id, part.count_rows()) for part in table.get_fragments()]
    [(0, 2), (1, 1)]
    """

    def __init__(self, dataset: LanceDataset, native: _native.Fragment) -> None:
        # Pyarrow's own initialiser refuses to make fragments.
        self._dataset = dataset
        self._native = native

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self._dataset, self.fragment_id)

    def __repr__(self) -> str:
        files = [file.path for file in self.data_files()]
        return f"LanceFragment(id={self.fragment_id}, rows={self.metadata.num_rows}, data_files={files})"

    @property
    def fragment_id(self) -> int:
        """Its id."""
        return self._native.id

    @property
    def metadata(self) -> FragmentMetadata:
        """What the version says about it."""
        return FragmentMetadata._of(self._native)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._dataset.schema

    @property
    def physical_schema(self) -> pa.Schema:
        """Not offered, as by pylance."""
        raise UnsupportedError("The physical schema of a fragment is not supported")

    @property
    def partition_expression(self) -> pyarrow.compute.Expression:
        """Not offered, as by pylance."""
        raise UnsupportedError("Fragments have no partition expression")

    @property
    def physical_rows(self) -> int:
        """Rows in its files, deleted ones counted."""
        return self._native.physical_rows

    @property
    def num_deletions(self) -> int:
        """Deleted rows."""
        return self._native.num_deletions

    def count_rows(self, filter: Filter | None = None) -> int:
        """Number of rows, or of those that match."""
        if filter is None:
            return self.physical_rows - self.num_deletions
        return self.scanner(columns=[], filter=filter, with_row_id=True).count_rows()

    def data_files(self) -> list[DataFile]:
        """Its data files."""
        return self.metadata.files

    def deletion_file(self) -> str | None:
        """Path of its deletion file relative to the table, None if no row is deleted."""
        file = self.metadata.deletion_file
        return None if file is None else file.path()

    def scanner(
        self,
        *,
        columns: Columns | None = None,
        batch_size: int | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: str | None = None,
        order_by: list[Any] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> LanceScanner:
        """A scan of this fragment; options as in [LanceDataset.scanner][pennon.LanceDataset.scanner]."""
        return self._dataset.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            batch_size=batch_size,
            batch_size_bytes=batch_size_bytes,
            batch_readahead=batch_readahead,
            fragments=[self],
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            blob_handling=blob_handling,
            use_scalar_index=use_scalar_index,
            include_deleted_rows=include_deleted_rows,
            strict_batch_size=strict_batch_size,
            order_by=order_by,
        )

    def to_table(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blob_handling: str | None = None,
        order_by: list[Any] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> pa.Table:
        """The rows of this fragment."""
        return self.scanner(
            columns=columns,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blob_handling=blob_handling,
            order_by=order_by,
            use_scalar_index=use_scalar_index,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            include_deleted_rows=include_deleted_rows,
            batch_size_bytes=batch_size_bytes,
            strict_batch_size=strict_batch_size,
        ).to_table()

    def to_batches(
        self,
        *,
        columns: Columns | None = None,
        batch_size: int | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        batch_readahead: int = 16,
        blob_handling: str | None = None,
        order_by: list[Any] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of this fragment, batch by batch."""
        return self.scanner(
            columns=columns,
            batch_size=batch_size,
            filter=filter,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            batch_readahead=batch_readahead,
            blob_handling=blob_handling,
            order_by=order_by,
            use_scalar_index=use_scalar_index,
            io_buffer_size=io_buffer_size,
            late_materialization=late_materialization,
            include_deleted_rows=include_deleted_rows,
            batch_size_bytes=batch_size_bytes,
            strict_batch_size=strict_batch_size,
        ).to_batches()

    def take(self, indices: Sequence[int] | pa.Array, columns: Columns | None = None) -> pa.Table:
        """Rows by their offset in the fragment, deleted rows counted."""
        first = self.fragment_id << 32
        rows = pa.array(indices, pa.uint64()).to_pylist()
        return self._dataset._take("address", [first + row for row in rows], columns)

    def head(self, num_rows: int) -> pa.Table:
        """The first rows."""
        return self.to_table(limit=num_rows)

    def validate(self) -> None:
        """Check the version's description of the table, this fragment included."""
        self._dataset.validate()


def _unpickle(dataset: LanceDataset, fragment_id: int) -> LanceFragment:
    """Unpickles a fragment."""
    fragment = dataset.get_fragment(fragment_id)
    if fragment is None:
        raise UnsupportedError(f"Fragment {fragment_id} is not in version {dataset.version} of {dataset.uri}")
    return fragment
