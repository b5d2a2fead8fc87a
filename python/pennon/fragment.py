"""Fragments: horizontal slices of a table, to inspect, to read, and to write before a commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset

from pennon import _native
from pennon._compatibility import explain_absent_names
from pennon._fragment_columns import FragmentColumns
from pennon._fragment_rows import FragmentSession
from pennon._options import checked_number, checked_text, file_version, ignored, location, refuse, unless
from pennon._render import Grid, listed, panel
from pennon._table.scans import given_of
from pennon._table.writing import DEFAULT_MAX_BYTES_PER_FILE, uncommitted, write_fragments
from pennon.bitmap import Bitmap
from pennon.errors import InvalidInputError, NotFoundError
from pennon.metadata import (
    DataFile,
    DeletionFile,
    FragmentMetadata,
    RowDatasetVersionMeta,
    RowIdMeta,
    RowIdSequence,
)
from pennon.progress import FragmentWriteProgress, NoopFragmentWriteProgress
from pennon.scanner import LanceScanner, scan
from pennon.session import Session, native_session
from pennon.udf import BatchUDF, normalize_transform  # noqa: F401  # pylance has both in this module

if TYPE_CHECKING:
    from pennon._protocols import Table
    from pennon._table.observed import WriteProgress
    from pennon._table.scans import ScanOptions
    from pennon.types import (
        BlobHandling,
        BlobMode,
        ColumnOrdering,
        Columns,
        FileVersion,
        Filter,
        ReaderLike,
        WriteMode,
    )

__all__ = [
    "DEFAULT_MAX_BYTES_PER_FILE",
    "BatchUDF",
    "Bitmap",
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentSession",
    "FragmentWriteProgress",
    "LanceFragment",
    "NoopFragmentWriteProgress",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
    "write_fragments",
]

explain_absent_names(__name__)


class LanceFragment(FragmentColumns):
    """One fragment of a dataset; [LanceDataset.get_fragments][pennon.LanceDataset.get_fragments] gives all of them.

    Parameters
    ----------
    dataset
        The dataset.
    fragment_id
        Its id.
    fragment
        Internal: the fragment itself, if it was found before.

    Raises
    ------
    pennon.NotFoundError
        The version has no such fragment.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset(
    ...     {"a": [1, 2, 3]}, "memory://fragments", mode="overwrite", max_rows_per_file=2
    ... )
    >>> [(part.fragment_id, part.count_rows()) for part in table.get_fragments()]
    [(0, 2), (1, 1)]
    """

    def __init__(
        self, dataset: Table, fragment_id: int | None, *, fragment: _native.Fragment | None = None
    ) -> None:
        # Pyarrow's own initialiser refuses to make fragments.
        self._dataset = dataset
        if fragment is None:
            number = checked_number("fragment_id", fragment_id, most=2**32 - 1)
            fragment = _looked_up(dataset, dataset._native.version, number)
        self._native = fragment

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._dataset, self._dataset._native.version, self.fragment_id)

    def __repr__(self) -> str:
        files = [file.path for file in self.data_files()]
        shown = listed(files, len(files))
        return f"LanceFragment(id={self.fragment_id}, rows={self.count_rows()}, data_files={shown})"

    def _repr_html_(self) -> str:
        files = self.data_files()
        facts = {
            "rows": self.count_rows(),
            "deleted rows": self.num_deletions,
            "deletion file": self.deletion_file(),
        }
        grid = Grid(
            ("data file", "fields", "bytes"),
            ((file.path, len(file.fields), file.file_size_bytes) for file in files),
            len(files),
        )
        return panel(f"LanceFragment {self.fragment_id} of {self._dataset._native.uri}", facts, grid)

    def count_rows(self, filter: Filter | None = None) -> int:
        """Number of rows, or of the rows that match `filter`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://fragment-count-rows", mode="overwrite", max_rows_per_file=3
        ... )
        >>> part = table.get_fragment(1)
        >>> part.count_rows(), part.count_rows("a > 3")
        (3, 2)
        """
        if filter is None:
            return self.physical_rows - self.num_deletions
        return self.scanner(columns=[], filter=filter, with_row_id=True).count_rows()

    @staticmethod
    def create(
        dataset_uri: str | PathLike[str],
        data: ReaderLike,
        fragment_id: int | None = None,
        schema: pa.Schema | None = None,
        max_rows_per_group: int | None = 1024,
        progress: WriteProgress = None,
        mode: WriteMode = "append",
        *,
        data_storage_version: FileVersion | None = None,
        use_legacy_format: bool | None = None,
        storage_options: dict[str, str] | None = None,
        namespace_client: Any | None = None,
        table_id: list[str] | None = None,
        session: Session | None = None,
    ) -> FragmentMetadata:
        """Write rows to one data file that no version refers to yet.

        Parameters
        ----------
        dataset_uri
            Where the table is or will be.
        data, schema
            Rows, as in [write_dataset][pennon.write_dataset].
        fragment_id
            Id of the fragment; by default the commit assigns one.
        mode
            `append` if it will be added to a table, whose schema the rows must fit; otherwise `overwrite`.
        progress
            As in [write_fragments][pennon.fragment.write_fragments].
        data_storage_version, use_legacy_format, storage_options, session
            As in [write_dataset][pennon.write_dataset].
        max_rows_per_group
            Accepted, without effect.
        namespace_client, table_id
            Not supported.

        Raises
        ------
        pennon.InvalidInputError
            There are no rows.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://create", mode="overwrite")
        >>> new = pennon.LanceFragment.create(table.uri, {"a": [2, 3]})
        >>> append = pennon.LanceOperation.Append([new])
        >>> pennon.LanceDataset.commit(table.uri, append, read_version=table.version)
        LanceDataset('memory://create', version=2, rows=3)
        """
        refuse(
            namespace_client=namespace_client,
            table_id=table_id,
        )
        ignored(max_rows_per_group=unless(max_rows_per_group, 1024))
        written = uncommitted(
            data,
            dataset_uri,
            schema,
            progress,
            fragment_id=fragment_id or 0,
            mode=mode,
            max_rows_per_file=_NO_LIMIT,
            max_bytes_per_file=_NO_LIMIT,
            data_storage_version=file_version(use_legacy_format, data_storage_version),
            storage_options=storage_options,
            session=native_session(session),
        )
        fragments: list[FragmentMetadata] = written.operation.fragments  # type: ignore[attr-defined]
        if not fragments:
            raise InvalidInputError("Input data was empty: a fragment needs rows")
        fragments[0].id = fragment_id or 0
        return fragments[0]

    @staticmethod
    def create_from_file(filename: str, dataset: Table, fragment_id: int) -> FragmentMetadata:
        """Describe a data file that was written elsewhere as a fragment, for a `LanceOperation.Append` for example.

        Parameters
        ----------
        filename
            Name of the file in the data directory.
        dataset
            The table, whose fields have the names of the file's columns.
        fragment_id
            Id of the fragment; with 0 the commit assigns one.

        Raises
        ------
        pennon.NotFoundError
            There is no such file.
        pennon.InvalidInputError
            The table does not have a column of the file.

        Examples
        --------
        >>> import pennon
        >>> from pennon.file import LanceFileWriter
        >>> import pyarrow as pa
        >>> table = pennon.write_dataset({"a": [1]}, "memory://fragment-from-file", mode="overwrite")
        >>> with LanceFileWriter("memory://fragment-from-file/data/mine.lance") as writer:
        ...     writer.write_batch(pa.table({"a": [2, 3]}))
        >>> new = pennon.LanceFragment.create_from_file("mine.lance", table, 0)
        >>> pennon.LanceDataset.commit(table, pennon.LanceOperation.Append([new]), read_version=1).count_rows()
        3
        """
        file, count = dataset._native.describe_file(location(filename, "filename"), None)
        return FragmentMetadata(fragment_id, [DataFile(**file)], count)

    def delete(self, predicate: str) -> FragmentMetadata | None:
        """Delete rows, without a commit.

        Parameters
        ----------
        predicate
            SQL text. Rows for which it is null are kept.

        Returns
        -------
        FragmentMetadata or None
            The fragment with its new deletion file, to be committed in a `LanceOperation.Delete`; `None` if no
            row is left.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://fragment-delete", mode="overwrite")
        >>> smaller = table.get_fragment(0).delete("a = 2")
        >>> operation = pennon.LanceOperation.Delete([smaller], [], "a = 2")
        >>> pennon.LanceDataset.commit(table, operation, read_version=table.version).count_rows()
        2
        """
        sql = checked_text("predicate", predicate)
        parts = self._dataset._native.delete_in_fragment(self.fragment_id, sql)
        return None if parts is None else FragmentMetadata._of(parts)

    def _scan(self, options: ScanOptions) -> LanceScanner:
        if options.get("batch_readahead") == 16:
            # The default, which nobody has to be warned of.
            del options["batch_readahead"]
        return scan(self._dataset, {**options, "fragments": [self]}, with_defaults=False)

    def scanner(
        self,
        schema: pa.Schema | None = None,
        *,
        columns: Columns | None = None,
        batch_size: int | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool | None = False,
        with_row_address: bool | None = False,
        batch_readahead: int | None = 16,
        blob_handling: BlobHandling | None = None,
        order_by: Sequence[ColumnOrdering | str] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> LanceScanner:
        """A scan of this fragment; options as in [LanceDataset.scanner][pennon.LanceDataset.scanner].

        The default scan options of the dataset are not used. Programs that scan datasets of pyarrow give a
        `schema`, which names the columns to read where `columns` does not.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-scanner", mode="overwrite", max_rows_per_file=3)
        >>> table.get_fragment(1).scanner(filter="a > 3", with_row_id=True).to_table().to_pydict()
        {'a': [4, 5], '_rowid': [4, 5]}
        """
        if schema is not None and columns is None:
            columns = schema.names
        options = given_of(locals())
        return self._scan(options)

    def to_table(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool | None = False,
        with_row_address: bool | None = False,
        blob_handling: BlobHandling | None = None,
        order_by: Sequence[ColumnOrdering | str] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> pa.Table:
        """The rows of this fragment; options as in `scanner`.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-to-table", mode="overwrite", max_rows_per_file=3)
        >>> table.get_fragment(1).to_table(filter="a > 3")["a"].to_pylist()
        [4, 5]
        """
        options = given_of(locals())
        return self._scan(options).to_table()

    def to_batches(
        self,
        *,
        columns: Columns | None = None,
        batch_size: int | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool | None = False,
        with_row_address: bool | None = False,
        batch_readahead: int | None = 16,
        blob_handling: BlobHandling | None = None,
        order_by: Sequence[ColumnOrdering | str] | None = None,
        use_scalar_index: bool | None = None,
        io_buffer_size: int | None = None,
        late_materialization: bool | list[str] | None = None,
        include_deleted_rows: bool | None = None,
        batch_size_bytes: int | None = None,
        strict_batch_size: bool | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of this fragment, batch by batch; options as in `scanner`.

        The iterator has a `schema`, and `close()` ends the read.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://fragment-to-batches", mode="overwrite", max_rows_per_file=3
        ... )
        >>> [batch["a"].to_pylist() for batch in table.get_fragment(1).to_batches(batch_size=2)]
        [[3, 4], [5]]
        """
        options = given_of(locals())
        return self._scan(options).to_batches()

    def to_pandas(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool | None = False,
        with_row_address: bool | None = False,
        blob_mode: BlobMode = "lazy",
        order_by: Sequence[ColumnOrdering | str] | None = None,
        **kwargs: Any,
    ) -> Any:
        """The rows of this fragment as a pandas frame; the other options as in pyarrow's `to_pandas`.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-to-pandas", mode="overwrite", max_rows_per_file=3)
        >>> table.get_fragment(1).to_pandas(columns={"double": "a * 2"})["double"].tolist()
        [6, 8, 10]
        """
        options = given_of(locals())
        return self._scan(options).to_pandas(blob_mode=blob_mode, **kwargs)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scanner().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def head(self, num_rows: int = 5) -> pa.Table:
        """The first rows that are not deleted, at most `num_rows`.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(6)}
        >>> table = pennon.write_dataset(data, "memory://fragment-head", mode="overwrite", max_rows_per_file=3)
        >>> table.get_fragment(1).head(2)["a"].to_pylist()
        [3, 4]
        """
        return self.to_table(limit=num_rows)


def _unpickled(dataset: Table, version: int, fragment_id: int) -> LanceFragment:
    """A fragment that is looked up in its version when it is first used."""
    found = LanceFragment.__new__(LanceFragment)
    found._dataset = dataset
    found._unopened = partial(_looked_up, dataset, version, fragment_id)
    return found


def _looked_up(dataset: Table, version: int, fragment_id: int) -> _native.Fragment:
    native = dataset._native
    if native.version != version:
        native = dataset.checkout_version(version)._native
    fragment = native.fragment(fragment_id)
    if fragment is None:
        message = f"Fragment {fragment_id} is not in version {native.version} of {native.uri}"
        raise NotFoundError(message, path=native.uri, version=native.version, fragment=fragment_id)
    return fragment


_NO_LIMIT = 2**64 - 1
