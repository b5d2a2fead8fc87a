"""What happened to the rows of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon import _native
from pennon._methods.base import TableMethods
from pennon._options import checked_duration, checked_number, required_reference
from pennon._table.history import changes
from pennon._table.references import naming_branch
from pennon._table.row_numbers import id_list
from pennon._table.rows import RETRY_TIMEOUT
from pennon.delta import DatasetDelta

if TYPE_CHECKING:
    from datetime import timedelta

    from pennon.types import ChangeColumns, ChangeImages, ChangeMode, Reference, RestoreResult


class HistoryMethods(TableMethods):
    """The methods of `LanceDataset` that compare versions: change feed, history, restored rows."""

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """What changed between two versions, in the form of the reference.

        See [DatasetDelta][pennon.delta.DatasetDelta]. Unlike in the reference the delta is evaluated at
        the end version, so it is also correct for an end before the version of this object, and a missing version
        is an error. `changes` reports more.

        Parameters
        ----------
        compared_against
            One end of the window; the other is the version of this object.
        begin_version, end_version
            Both ends, the begin excluded and the end included.

        Raises
        ------
        pennon.InvalidInputError
            The two ends are missing, only one of them is given, or `compared_against` is given as well.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://delta-of", mode="overwrite")
        >>> table.update({"a": "9"}, where="a = 2")
        {'num_rows_updated': 1}
        >>> table.delta(1).get_updated_rows().read_all()["a"].to_pylist()
        [9]
        """
        return DatasetDelta._between(self, compared_against, begin_version, end_version)

    def changes(
        self,
        begin: Reference | datetime,
        end: Reference | datetime | None = None,
        *,
        columns: Sequence[str] | None = None,
        mode: ChangeMode = "net",
        images: ChangeImages = "post",
        drop_unchanged: bool = False,
        part: tuple[int, int] | None = None,
        columns_of: ChangeColumns = "end",
    ) -> pa.RecordBatchReader:
        """All changes of rows after one version, up to and including another.

        The begin is excluded, and the two ends are compared by default; `LanceTable.changes` of the package for
        Spark includes its begin and reports each version by default, as Delta does.

        Computed from the two versions alone, so there is nothing to enable beforehand and it works on tables
        written by pylance. Only what differs between the versions is read.

        A row is inserted if its id exists only at the end, deleted if it exists only at the begin, and updated if
        it exists at both and was last updated in different versions. Overwrites and restores are reported as
        changes of rows; a compaction is not reported. A column that is added with values, or whose type changes,
        updates every row, as the reference records it: `drop_unchanged` leaves out rows that are equal in the
        selected columns. A restore that brings a dropped column back updates the rows that have values in it.
        Columns that were rewritten in place without marking the rows, as the reference's `update_columns` does, are
        compared by value, as long as no compaction has moved the rows.

        Parameters
        ----------
        begin
            The version after which changes count (exclusive): a number, a tag, a pair of branch and version, or a
            time. Number 0 is the empty table before the first version.
        end
            The last version whose changes count (inclusive), by default that of this object. A time means the
            newest version committed at or before it.
        columns
            Columns of the table by name, by default all. With an empty list no data file is read.
        mode
            `"net"`: what differs between the two ends, at most one change per row, reported as a change of the end
            version; versions between the ends may have been cleaned up. `"each"`: the changes of each version, one
            version after the other.
        images
            `"post"`: the values after a change; of a deleted row only the id, its values are null. `"both"`: an
            update is two rows, the one before and then the one after, and a deleted row has its last values.
        drop_unchanged
            Leave out updates that did not change the selected columns.
        part
            The number of a part, from 0 on, and how many parts there are: only the changes of that part, for
            processes that share the work. Each change is in one of the parts, with both of its images: which one
            depends on the address of the row, so it is the same in every process and after a cleanup. Parts of
            large feeds are about equally large.
        columns_of
            Whose columns the feed shows: `"end"`, those of the end version, or `"table"`, those of the version of
            this object, which may be later: so that feeds of several windows have the same columns.

        Returns
        -------
        pyarrow.RecordBatchReader
            `_change_type` (`insert`, `update_preimage`, `update_postimage`, `delete`), `_rowid`, `_commit_version`,
            `_commit_timestamp`, then the columns, all nullable. In other versions a column is the one with its
            field id, so renamed columns keep their values, or before an overwrite the one with its name; values
            are null if a version does not have the column with that type.

        Raises
        ------
        pennon.InvalidInputError
            The table has no stable row ids, a column is unknown, the end is before the begin or on another branch,
            or there is no such part.
        pennon.NotFoundError
            A version does not exist, or was cleaned up; the message says what would have kept it.

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
        return changes(
            self._native,
            begin,
            end,
            columns=columns,
            mode=mode,
            images=images,
            drop_unchanged=drop_unchanged,
            part=part,
            columns_of=columns_of,
        )

    def history(self, row_id: int) -> pa.Table:
        """Every version of one row up to the version of this object, oldest first.

        The cost is proportional to the changes of the row, not to the versions of the table, because a row records
        in which version it was last updated.

        Parameters
        ----------
        row_id
            Its stable id.

        Returns
        -------
        pyarrow.Table
            `_change_type` (`insert`, `update`, `delete`), `_commit_version`, `_commit_timestamp`, `_operation` and
            `_commit_message` of the commit, `_rowaddr`, the address of the row in that version, then its values,
            in the columns of this version as `changes` finds them. Address and values of a deleted row are null,
            and so are time, operation and message of a version that was cleaned up, or is from before the branch
            or clone. Such versions show the last change of the row and its insert, which has neither address nor
            values if the row was updated since; a deletion shows at the next version that is there.

        Raises
        ------
        pennon.InvalidInputError
            The table has no stable row ids.
        pennon.NotFoundError
            The id was never assigned.

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
        return pa.Table.from_batches([_native.history(self._native, checked_number("row_id", row_id))])

    def restore_rows(
        self,
        row_ids: Sequence[int],
        version: Reference,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = RETRY_TIMEOUT,
    ) -> RestoreResult:
        """Bring back rows as an older version has them, under their ids, and move to the new version.

        Deleted rows exist again; existing rows get their older values. Both keep the versions that created them and
        count as updated by the new version. Columns that the older version did not have become null.

        Parameters
        ----------
        row_ids
            Stable ids, in a list or an array; repeated ones count once.
        version
            The version that has the rows: a number, a tag, or a pair of branch and version.
        conflict_retries
            Retries on the newest version after other writers changed the same rows.
        retry_timeout
            No retry starts after this time.

        Returns
        -------
        dict
            `num_restored_rows`.

        Raises
        ------
        pennon.NotFoundError
            Some of the rows do not exist in that version (the message says how many, and names the first), or the
            version does not exist or was cleaned up.
        pennon.InvalidInputError
            The table has no stable row ids, an id is not a whole number from 0 on, or a column that is not nullable
            did not exist.
        pennon.UnsupportedError
            A column had another type, or its field id belonged to a column of another name, which may be a
            different column.
        pennon.CommitConflictError
            Every attempt conflicted with another writer.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://restore-rows", mode="overwrite")
        >>> table.delete("a = 2")
        {'num_deleted_rows': 1}
        >>> table.restore_rows([1], 1)
        {'num_restored_rows': 1}
        >>> table.to_table(with_row_id=True).to_pydict()
        {'a': [1, 2], '_rowid': [0, 1]}
        """
        ids, version = id_list(row_ids), required_reference("version", version)
        retries = checked_number("conflict_retries", conflict_retries, most=2**32 - 1)
        timeout = checked_duration("retry_timeout", retry_timeout)
        with naming_branch(self._native, version):
            rows, self._native = _native.restore_rows(self._native, ids, version, retries, timeout)
        return {"num_restored_rows": rows}
