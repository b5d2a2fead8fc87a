"""What happened to rows: a part of `LanceDataset`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon import _native
from pennon._time import instant
from pennon.delta import DatasetDelta

if TYPE_CHECKING:
    from pennon.types import Reference


class HistoryDataset:
    """What tells changes from versions."""

    _native: _native.Dataset

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """What changed between two versions, as the reference tells it.

        See [DatasetDelta][pennon.delta.DatasetDelta].
        Unlike the reference's it is right for an end before the version of this object, because it is evaluated
        there, and a version that is not there is an error. `changes` tells more.

        Parameters
        ----------
        compared_against
            One end of the window; the other is the version of this object.
        begin_version, end_version
            Both ends, the begin excluded and the end included.

        Raises
        ------
        pennon.InvalidInputError
            Not exactly one window is given.
        """
        return DatasetDelta._between(self, compared_against, begin_version, end_version)  # type: ignore[arg-type]

    def changes(
        self,
        begin: Reference | datetime,
        end: Reference | datetime | None = None,
        *,
        columns: Sequence[str] | None = None,
        mode: str = "net",
        images: str = "post",
        drop_unchanged: bool = False,
    ) -> pa.RecordBatchReader:
        """All changes of rows after one version, up to and including another.

        Computed from the two versions alone: nothing needs to be switched on beforehand, the versions may have been
        written by the reference, and only what differs between them is read.

        A row is inserted if its id lives only at the end, deleted if it lives only at the begin, and updated if it
        lives at both and was last updated in different versions. Overwrites and restores show as what they did to
        rows; compactions show nothing. A column that is added with values, or whose type changes, updates every row
        (the reference marks them so): `drop_unchanged` leaves out those that are the same in the selected columns.
        A restore that brings a dropped column back updates the rows that have values in it.
        Columns that were rewritten in place without marking the rows, as the reference's `update_columns` does, are
        compared by value, as long as no compaction has moved the rows.

        Parameters
        ----------
        begin
            The version after which changes count: a number, a tag, a pair of branch and version, or a time.
            Number 0 is the empty table before the first version.
        end
            The last version whose changes count, by default that of this object. A time means the newest version
            that is not younger.
        columns
            Columns of the table by name, by default all. With none the files of the table are not read.
        mode
            `"net"`: what differs between the two ends, at most one change for each row, as if the end had made it;
            versions between the ends need not be there any more. `"each"`: the changes of each version, one after
            the other.
        images
            `"post"`: the values after a change; a deleted row is only its id, its values are null. `"both"`: an
            update is two rows, first the one before and then the one after, and a deleted row has its last values.
        drop_unchanged
            Leave out updates after which the selected columns are what they were before.

        Returns
        -------
        pyarrow.RecordBatchReader
            `_change_type` (`insert`, `update_preimage`, `update_postimage`, `delete`), `_rowid`, `_commit_version`,
            `_commit_timestamp`, then columns as the end has them, all nullable. Values of other versions are
            matched by field id, so renamed columns keep theirs, and are null where a version does not have the
            column with that type.

        Raises
        ------
        pennon.InvalidInputError
            The rows have no stable ids, a column is unknown, or the end is before the begin or on another branch.
        pennon.NotFoundError
            A version is not there, or was cleaned up; the message says what would have kept it.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://changes", mode="overwrite")
        >>> table.insert({"a": [3]})
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> feed = table.changes(1, images="both").read_all()
        >>> feed.select(["_change_type", "_rowid", "a"]).to_pylist()
        [{'_change_type': 'delete', '_rowid': 0, 'a': 1}, {'_change_type': 'insert', '_rowid': 2, 'a': 3}]
        """
        request: _native.ChangesRequest = {
            "begin": _point(begin),
            "end": None if end is None else _point(end),
            "columns": None if columns is None else _names(columns),
            "mode": mode,
            "images": images,
            "drop_unchanged": drop_unchanged,
        }
        batches = _native.changes(self._native, request)
        return pa.RecordBatchReader.from_batches(batches.schema, batches)

    def history(self, row_id: int) -> pa.Table:
        """Every version of one row up to the version of this object, oldest first.

        Costs what the changes of the row cost, not what the versions of the table do: a row says in which version
        it was last updated.

        Parameters
        ----------
        row_id
            Its stable id.

        Returns
        -------
        pyarrow.Table
            `_change_type` (`insert`, `update`, `delete`), `_commit_version`, `_commit_timestamp`, `_operation` and
            `_commit_message` of the commit, `_rowaddr`, where the row was put, then its values, matched by field
            id. Address and values of a deleted row are null, and so are time, operation and message of a version
            that was cleaned up; a deletion in one of those shows at the next version that is left.

        Raises
        ------
        pennon.InvalidInputError
            The table has no stable row ids, or the id was never given out.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://history", mode="overwrite")
        >>> table.update({"a": "5"}, where="a = 2")
        {'num_rows_updated': 1}
        >>> table.delete("a = 5")
        {'num_deleted_rows': 1}
        >>> table.history(1).select(["_change_type", "_commit_version", "a"]).to_pydict()
        {'_change_type': ['insert', 'update', 'delete'], '_commit_version': [1, 2, 3], 'a': [2, 5, None]}
        """
        return pa.Table.from_batches([_native.history(self._native, row_id)])

    def restore_rows(self, row_ids: Sequence[int], version: Reference) -> int:
        """Bring back rows as an older version has them, under their ids, and move to the new version.

        Rows that were deleted live again; of rows that live, the values of then replace those of now. They keep the
        versions that made them, and count as updated by the new one. Columns that the version did not have become
        null.

        Parameters
        ----------
        row_ids
            Stable ids; repeated ones count once.
        version
            The version that has the rows: a number, a tag, or a pair of branch and version.

        Returns
        -------
        int
            The number of rows.

        Raises
        ------
        pennon.NotFoundError
            Some of the rows do not live in that version: the message says how many and the first. Or the version is
            not there, or was cleaned up.
        pennon.InvalidInputError
            The table has no stable row ids, or a column that must not be null was not there.
        pennon.UnsupportedError
            A column had another type, or a column of another name had its field id and may be another one.
        pennon.CommitConflictError
            All tries met conflicts.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://restore-rows", mode="overwrite")
        >>> table.delete("a = 2")
        {'num_deleted_rows': 1}
        >>> table.restore_rows([1], 1)
        1
        >>> table.to_table(with_row_id=True).to_pydict()
        {'a': [1, 2], '_rowid': [0, 1]}
        """
        rows, self._native = _native.restore_rows(self._native, list(row_ids), version)
        return rows


def _point(point: Reference | datetime) -> Reference | tuple[int, int]:
    return instant(point) if isinstance(point, datetime) else point


def _names(columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, not the string {columns!r}")
    return list(columns)
