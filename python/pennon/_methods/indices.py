"""Indices of a dataset: made, described, dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pennon import _native
from pennon._methods.base import TableMethods
from pennon._options import ignored
from pennon._table.indices import Stage, entries_of, request, single_column
from pennon.errors import InvalidInputError
from pennon.indices import IndexConfig, IndexDescription, IndexInformation, information, statistics
from pennon.transaction import Index, index_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from pennon.progress import IndexProgress


class IndexMethods(TableMethods):
    """The methods of `LanceDataset` that are about indices."""

    def create_scalar_index(
        self,
        column: str,
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        progress_callback: Callable[[IndexProgress], object] | None = None,
        format_version: int | str | None = None,
        document_granularity: Any = None,
        **kwargs: Any,
    ) -> None:
        """Make an index over the values of a column, and move to the version that has it.

        Filters of scans, deletes and updates are answered by it from then on, also those of pylance. Rows that are
        added later are scanned until [optimize_indices][pennon.optimize.DatasetOptimizer.optimize_indices] takes
        them in.

        Parameters
        ----------
        column
            A column of numbers, booleans, texts, binaries, dates or times, or of lists of them; or the path of a
            nested field.
        index_type
            The kind, in any case: `"BTREE"`, sorted pages of values, for any column; `"BITMAP"`, the rows of each
            value, for columns with few values; `"LABEL_LIST"`, the rows of each item, for lists, of which
            `array_has`, `array_has_any` and `array_has_all` ask; `"ZONEMAP"`, bounds of runs of rows, for values
            that lie close together where the rows do; or `"BLOOMFILTER"`, a filter of the values of runs of rows,
            for single values. Or an [IndexConfig][pennon.indices.IndexConfig] with parameters: `zone_size`, the
            rows of a page of a `"BTREE"`, 4,096 by default; `rows_per_zone` of a `"ZONEMAP"`, 8,192;
            `number_of_items`, the rows of a run of a `"BLOOMFILTER"`, 8,192, and `probability`, the share of other
            values that it takes for its own, 0.00057.
        name
            Its name, `<column>_idx` by default.
        replace
            Whether an index of that name over the same column is replaced; otherwise that is an error.
        train
            Whether the rows of this version go into it.
        index_uuid
            Its uuid, a random one by default.
        progress_callback
            A function of an [IndexProgress][pennon.progress.IndexProgress], called when the index is begun, as its
            rows are read, and when it is committed. What it raises before that ends the call, without an index.
        format_version, document_granularity, kwargs
            Accepted, without effect.
        fragment_ids
            Not supported; see [create_index_uncommitted][pennon.LanceDataset.create_index_uncommitted].

        Raises
        ------
        pennon.NotFoundError
            There is no such column. It is also a `KeyError`.
        pennon.AlreadyExistsError
            The name is taken. It is also a `RuntimeError`.
        pennon.SchemaMismatchError
            The kind cannot have values of this type. It is also a `TypeError`.
        pennon.UnsupportedError
            The kind cannot be made.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(1000)}, "memory://scalar-index", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> print(table.scanner(filter="a = 7").explain_plan())
        scan of memory://scalar-index at version 2
        ...
            rows found by indices: a_idx (BTree), for 1 of 1 fragments, exact
        ...
        """
        if fragment_ids is not None:
            raise InvalidInputError(
                "fragment_ids is for create_index_uncommitted, and commit_existing_index_segments for its results"
            )
        ignored(format_version=format_version, document_granularity=document_granularity, **kwargs)
        new = request(column, index_type, name, replace=replace, train=train, uuid=index_uuid)
        if progress_callback is None:
            self._native = _native.create_index(self._native, new, None)
            return
        stage = Stage(progress_callback, self._native.count_rows(None) if train else 0)
        stage.tell("start", 0)
        self._native = _native.create_index(self._native, new, stage.counts)
        stage.tell("complete", stage.rows)

    def create_index_uncommitted(
        self,
        column: str | list[str],
        index_type: str | IndexConfig,
        name: str | None = None,
        *,
        replace: bool = False,
        train: bool = True,
        fragment_ids: Sequence[int] | None = None,
        index_uuid: str | None = None,
        **kwargs: Any,
    ) -> Index:
        """Build an index over some fragments without committing it, for instance in one of many processes.

        Parameters
        ----------
        column, index_type, name, replace, train, index_uuid
            As in [create_scalar_index][pennon.LanceDataset.create_scalar_index].
        fragment_ids
            The fragments.
        kwargs
            Accepted, without effect.

        Returns
        -------
        Index
            For [commit_existing_index_segments][pennon.LanceDataset.commit_existing_index_segments].

        Raises
        ------
        pennon.InvalidInputError
            No fragments were named, or one that this version does not have.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(100)}, "memory://segments", mode="overwrite", max_rows_per_file=50
        ... )
        >>> parts = [table.create_index_uncommitted("a", "BTREE", fragment_ids=[id]) for id in range(2)]
        >>> table.commit_existing_index_segments("a_idx", "a", parts)
        LanceDataset('memory://segments', version=2, rows=100)
        """
        if fragment_ids is None:
            raise InvalidInputError("create_index_uncommitted requires fragment_ids")
        ignored(**kwargs)
        single = single_column(column)
        new = request(single, index_type, name, replace=replace, train=train, uuid=index_uuid)
        return index_of(_native.create_index_segment(self._native, new, list(fragment_ids)))

    def merge_existing_index_segments(self, segments: list[Index]) -> Index:
        """Make one segment of several that are not committed; the files of those stay.

        Raises
        ------
        pennon.InvalidInputError
            There are none, they are of several kinds, or two of them cover the same fragment.
        """
        return index_of(_native.merge_index_segments(self._native, entries_of(segments)))

    def commit_existing_index_segments(self, index_name: str, column: str, segments: list[Index]) -> Self:
        """Commit segments as the index of a name, in place of those it has, and move to the new version.

        Raises
        ------
        pennon.InvalidInputError
            There are none, they are of several kinds or of another column, or two of them cover the same fragment.
        pennon.AlreadyExistsError
            An index over another column has the name.
        """
        entries = entries_of(segments)
        self._native = _native.commit_index_segments(self._native, index_name, column, entries)
        return self

    def drop_index(self, name: str) -> None:
        """Remove an index, and move to the version without it; its files stay until a cleanup.

        Raises
        ------
        pennon.NotFoundError
            No index has this name. It is also a `RuntimeError`.
        """
        self._native = _native.drop_index(self._native, name)

    @property
    def has_index(self) -> bool:
        """Whether this version has an index."""
        return bool(_native.describe_indices(self._native))

    def list_indices(self) -> list[IndexInformation]:
        """The segments of all indices of this version, by name; entries of the format itself too.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(10)}, "memory://list-indices", mode="overwrite")
        >>> table.create_scalar_index("a", "BITMAP")
        >>> [(index["name"], index["type"], index["fragment_ids"]) for index in table.list_indices()]
        [('a_idx', 'Bitmap', Bitmap({0}))]
        """
        return [segment for index in _native.describe_indices(self._native) for segment in information(index)]

    def describe_indices(self) -> list[IndexDescription]:
        """The indices of this version by name, each with its segments."""
        return [IndexDescription._of(index) for index in _native.describe_indices(self._native)]

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """Figures about an index; see [index_stats][pennon.stats.LanceStats.index_stats]."""
        return statistics(self._native, index_name)

    def prewarm_index(
        self, name: str, *, with_position: bool = False, index_segments: Iterable[Any] | None = None
    ) -> None:
        """Read an index into the session, as much of it as there is room for.

        Parameters
        ----------
        name
            The index.
        with_position, index_segments
            Accepted, without effect.

        Raises
        ------
        pennon.NotFoundError
            No index has this name. It is also a `RuntimeError`.
        """
        ignored(with_position=with_position or None, index_segments=index_segments)
        _native.prewarm_index(self._native, name)
