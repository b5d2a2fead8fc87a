"""Methods of `LanceTable` that look at a table as a whole and keep it in order: figures, history, restore, vacuum.

All of this is done by the driver, from manifests. Only `verify` opens data files, in Spark tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark_pennon.errors import internal, invalid, wrong_type
from pyspark_pennon.handle import TableHandle
from pyspark_pennon.options.provider import stored
from pyspark_pennon.options.source import required_version
from pyspark_pennon.tasks.executor import run_tasks
from pyspark_pennon.tasks.plans import ShippedPlan
from pyspark_pennon.tasks.retries import answered
from pyspark_pennon.transactions import COMMIT_MESSAGE, transactions
from pyspark_pennon.version_times import in_utc, version_time, version_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RETENTION_HOURS = 168.0
"""How long versions are kept by a vacuum: seven days, as in Delta."""

_DETAIL = (
    "location string, version long, numFiles long, sizeInBytes long, numRows long, "
    "properties map<string,string>, createdAt timestamp_ltz, lastModified timestamp_ltz"
)
_HISTORY = (
    "version long, timestamp timestamp_ltz, operation string, operationParameters map<string,string>, "
    "readVersion long, operationMetrics map<string,long>, userMetadata string"
)
_RESTORED = (
    "table_size_after_restore long, num_of_files_after_restore long, num_removed_files long, "
    "num_restored_files long, removed_files_size long, restored_files_size long"
)
_VACUUMED = (
    "num_removed_versions long, num_removed_files long, num_removed_data_files long, removed_bytes long, "
    "num_failed_files long"
)
_VACUUM_FILES = "path string, kind string, size_bytes long, last_modified timestamp_ltz, reason string"
_FINDINGS = (
    "severity string, kind string, version long, fragment long, path string, message string, files long, "
    "size_bytes long"
)

_METRICS = {
    "total_rows": "numRows",
    "total_fragments": "numFragments",
    "total_data_files": "numFiles",
    "total_files_size": "sizeInBytes",
}


class AdministrationMethods(TableHandle):
    """The methods of `LanceTable` for figures, history and upkeep."""

    @property
    def version(self) -> int:
        """Number of the newest version, looked up at each call, from 1.

        Raises
        ------
        pennon.NotFoundError
            The table was removed in the meantime.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> before = table.version
        >>> deleted = table.delete("id = 1")
        >>> before, table.version
        (1, 2)
        """
        return int(self._target.open().version)

    def count(self) -> int:
        """Number of rows of the newest version, from its manifest: no Spark job, no data file.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(336776), f"{folder}/flights.lance")
        >>> LanceTable.forPath(spark, f"{folder}/flights.lance").count()
        336776
        """
        return int(self._target.open().count_rows())

    def detail(self) -> DataFrame:
        """One row about the newest version.

        Returns
        -------
        DataFrame
            `location`, `version`, `numFiles` and `sizeInBytes` of the data files, `numRows`, `properties`,
            `createdAt`, the time of the first version, null once that is vacuumed, and `lastModified`, the time of
            the newest version.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance", max_tasks=1)
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.detail().select("numRows", "numFiles", "version").first()
        Row(numRows=3, numFiles=1, version=1)
        """
        import pennon

        table = self._target.open()
        totals = table.get_version()["metadata"]
        created: datetime | None = None
        try:
            created = version_time(table.checkout_version(1))
        except pennon.NotFoundError:
            created = None
        row = (
            table.uri,
            table.version,
            int(totals["total_data_files"]),
            int(totals["total_files_size"]),
            table.count_rows(),
            table.config(),
            created,
            version_time(table),
        )
        return self._frame([row], _DETAIL)

    def history(self, limit: int | None = None) -> DataFrame:
        """The versions that are left, newest first.

        Parameters
        ----------
        limit
            The most versions.

        Returns
        -------
        DataFrame
            `version`, `timestamp`, `operation`, `operationParameters` (what the transaction says besides files:
            the predicate of a delete, the version of a restore, query and batch of a stream), `readVersion`, the
            version that the writer started from, `operationMetrics` (`numRows`, `numFragments`, `numFiles` and
            `sizeInBytes` of the version, and with a sign `numRowsDifference` to the one before, where that is left)
            and `userMetadata`, the message of the commit. What is not known is null.

        Raises
        ------
        pennon.InvalidInputError
            The limit is less than 1.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> deleted = table.delete("id = 1")
        >>> table.history().select("version", "operation", "operationMetrics.numRowsDifference").show()
        +-------+---------+-----------------+
        |version|operation|numRowsDifference|
        +-------+---------+-----------------+
        |      2|   Delete|               -1|
        |      1|Overwrite|                3|
        +-------+---------+-----------------+
        """
        if limit is not None and _number("limit", limit) < 1:
            raise invalid(f"The limit of the history is {limit}: expected at least 1")
        return self._frame(_history(self._target.open(), limit), _HISTORY)

    def restoreToVersion(self, version: int | str) -> DataFrame:  # noqa: N802 - as Delta spells it
        """Make an older version, by number or tag, the newest again: one commit, no file is copied.

        Returns
        -------
        DataFrame
            One row, as in Delta: `table_size_after_restore`, `num_of_files_after_restore`, `num_removed_files`,
            `num_restored_files`, `removed_files_size`, `restored_files_size`; of data files.

        Raises
        ------
        pennon.NotFoundError
            There is no such version, or it was vacuumed.
        pennon.InvalidInputError
            The tag is of a version of another branch.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance", max_tasks=1)
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> deleted = table.delete()
        >>> table.restoreToVersion(1).first().num_restored_files
        1
        >>> table.version, table.count()
        (3, 3)
        """
        return self._restore(self._target.open(required_version(version)))

    def restoreToTimestamp(self, timestamp: str | datetime) -> DataFrame:  # noqa: N802
        """Make the version of a time, the newest made at or before it, the newest again; see `restoreToVersion`.

        Parameters
        ----------
        timestamp
            A time, or its text in ISO form; one without a time zone is local. A time from `history` names its
            version.

        Returns
        -------
        DataFrame
            As of `restoreToVersion`.

        Raises
        ------
        pennon.InvalidInputError
            The time is before the oldest version that is left, or no time.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> written = table.detail().first().lastModified
        >>> deleted = table.delete("id = 1")
        >>> done = table.restoreToTimestamp(written)
        >>> table.count()
        3
        """
        return self._restore(self._target.open(asof=timestamp))

    def migrateToStableRowIds(self) -> None:  # noqa: N802 - as the other verbs are spelt
        """Give the rows of a table that was made without stable row ids such ids: one commit on the driver.

        No row is written again, and indices are kept. The change feed begins after the version that is made; those
        from before can be read, not restored. See `LanceDataset.migrate_to_stable_row_ids` of `pennon`.

        Raises
        ------
        pennon.InvalidInputError
            The table keeps to a reader (`compatible_with`) that cannot read stable row ids.
        pennon.CommitConflictError
            Others committed all the time, or changed the schema at that moment.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance", enable_stable_row_ids=False)
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.migrateToStableRowIds()
        >>> deleted = table.delete("id = 1")
        >>> table.changes(3).first()["_change_type"]
        'delete'
        """
        self._target.open().migrate_to_stable_row_ids()

    def _restore(self, older: Any) -> DataFrame:
        import pennon

        newest = self._target.open()
        if older.uri != newest.uri:
            raise invalid(f"The version is one of {older.uri}: versions of {newest.uri} can be restored")
        before = _data_files(newest)
        restore = pennon.LanceOperation.Restore(int(older.version))
        after = _data_files(self._commit(older, int(newest.version), restore))
        removed = {path: size for path, size in before.items() if path not in after}
        restored = {path: size for path, size in after.items() if path not in before}
        row = (
            sum(after.values()),
            len(after),
            len(removed),
            len(restored),
            sum(removed.values()),
            sum(restored.values()),
        )
        return self._frame([row], _RESTORED)

    def _commit(self, table: Any, version: int, operation: Any) -> Any:
        """The version that an operation makes, once, whether its answer is lost or not."""
        import pennon

        transaction = pennon.Transaction(version, operation)
        return answered(lambda: pennon.LanceDataset.commit(table, transaction), f"the commit of {transaction.uuid}")

    def _configure(self, updates: dict[str, str | None]) -> dict[str, str]:
        import pennon

        table = self._target.open()
        operation = pennon.LanceOperation
        change = operation.UpdateConfig(config_updates=operation.UpdateMap(updates))
        return dict(self._commit(table, int(table.version), change).config())

    def vacuum(
        self,
        retentionHours: float | None = None,  # noqa: N803 - as Delta spells it
        dryRun: bool = False,  # noqa: N803
    ) -> DataFrame:
        """Remove versions that were replaced long ago, and the files that only they refer to.

        A version counts as Delta counts it, from the time when the next one replaced it: whatever was the newest
        version at some time in the last `retentionHours` can still be read. (`cleanup_old_versions` of `pennon`
        counts from when a version was made, and keeps 14 days by default.) The newest version, tagged versions,
        start versions of branches and what clones refer to are kept. Files that no version refers to are removed
        once they are seven days old, whatever the retention: younger ones may belong to a write in flight.

        Streams and change feeds need the versions that they have not read yet: see the retention as the longest
        time that they may stand still.

        Parameters
        ----------
        retentionHours
            168, seven days, by default. With 0 only the newest version is kept.
        dryRun
            Remove nothing, and return the files that would be removed.

        Returns
        -------
        DataFrame
            One row: `num_removed_versions`, `num_removed_files`, `num_removed_data_files`, `removed_bytes`,
            `num_failed_files`. With `dryRun` a row for each file: `path`, `kind`, `size_bytes`, `last_modified`,
            `reason`.

        Raises
        ------
        pennon.InvalidInputError
            The retention is negative.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> done = write(spark.range(5), table.uri, mode="overwrite")
        >>> table.vacuum(dryRun=True).count()
        0
        >>> table.vacuum(retentionHours=0).first().num_removed_versions
        1
        """
        hours = RETENTION_HOURS if retentionHours is None else _number("retentionHours", retentionHours)
        if hours < 0:
            raise invalid(f"The retention is {hours} hours: expected 0 or more")
        table = self._target.open()
        replaced = replaced_before(version_times(table), datetime.now(timezone.utc) - timedelta(hours=hours))
        chosen = {"versions": replaced, "error_if_tagged_old_versions": False}
        if dryRun:
            files = table.explain_cleanup_old_versions(**chosen).files.to_pylist()
            names = ("path", "kind", "size_bytes", "last_modified", "reason")
            return self._frame(
                [tuple(file[name] for name in names) for file in files if file["removed"]], _VACUUM_FILES
            )
        done = table.cleanup_old_versions(**chosen)
        kinds = (
            done.data_files_removed,
            done.transaction_files_removed,
            done.index_files_removed,
            done.deletion_files_removed,
        )
        removed = done.old_versions + sum(kinds)
        row = (done.old_versions, removed, done.data_files_removed, done.bytes_removed, done.failed_deletes)
        return self._frame([row], _VACUUMED)

    def verify(self, *, data: bool = False, leftovers: bool = False, all_versions: bool = False) -> DataFrame:
        """Look for damage, in all versions and down to the rows of the newest.

        Runs on the driver; the pages of the data files of the newest version are decoded by Spark tasks. If no row
        has the severity `error`, nothing is wrong.

        Parameters
        ----------
        data
            Also check the pages of the data files of the newest version.
        leftovers
            Also count the files that no version needs. They do no harm.
        all_versions
            With `data`, read the files of all versions, as [verify][pennon.verify] with `data` does: the driver
            reads the whole table, without tasks.

        Returns
        -------
        DataFrame
            A row for each finding: `severity`, which is `error`, `kind`, `version`, `fragment`, `path`, `message`.
            With `leftovers`, rows with the severity `leftover` as well: `kind`, which is `orphan` for files that a
            vacuum removes, `unverified` for those of the last seven days, since a write may be in flight, or
            another reason of [Leftover][pennon.verification.Leftover]; `message`, `files` and `size_bytes`. There
            is one for each kind of files.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.verify(data=True).where("severity = 'error'").count()
        0
        """
        if all_versions and not data:
            raise invalid("all_versions was given without data: without data all versions are looked at")
        table = self._target.open()
        if data and not all_versions:
            from pennon import jobs

            plan = jobs.plan_verify(table, storage_options=stored(self._target.storage_options))
            shipped = ShippedPlan.of(plan, self._target.storage_options)
            numbers = list(range(len(shipped)))
            results = run_tasks(
                self._target.spark, numbers, f"verify {self.uri}", call=lambda number: shipped.task(number).run()
            )
            report = plan.commit(results).verification
        else:
            report = table.verify(data=data)
        if report is None:
            raise internal(f"The verification of {self.uri} gave no report")
        rows: list[tuple[Any, ...]] = [
            ("error", fault.kind, fault.version, fault.fragment, fault.path, fault.message, None, None)
            for fault in report.findings
        ]
        for left in report.leftovers if leftovers else ():
            message = f"{left.files} files of the kind {left.kind} that no version needs"
            rows.append(("leftover", left.reason, None, None, None, message, left.files, left.size_bytes))
        return self._frame(rows, _FINDINGS)

    def properties(self) -> dict[str, str]:
        """The properties of the table, which are the settings in its config.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> builder = LanceTable.create(spark).location(f"{folder}/flights.lance").addColumns("id bigint")
        >>> builder.property("owner", "flights").execute().properties()
        {'owner': 'flights'}
        """
        return dict(self._target.open().config())

    def setProperties(self, values: Mapping[str, str]) -> dict[str, str]:  # noqa: N802
        """Set properties, in one commit.

        Parameters
        ----------
        values
            Names and values, which are kept as text. Properties that are not named keep their values.

        Returns
        -------
        dict
            All properties.

        Raises
        ------
        pennon.InvalidInputError
            A property that the format uses cannot be parsed, or a value is None.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.setProperties({"owner": "flights"})
        {'owner': 'flights'}
        >>> table.version
        2
        """
        if not isinstance(values, Mapping):
            raise invalid(f"The properties are {values!r}: expected a dict of names and values")
        for name, value in values.items():
            if value is None:
                raise invalid(f"The property '{name}' is None: expected text, or unsetProperties(['{name}'])")
        return self._configure({name: str(value) for name, value in values.items()})

    def unsetProperties(self, names: Sequence[str]) -> dict[str, str]:  # noqa: N802
        """Remove properties, in one commit.

        Parameters
        ----------
        names
            A list; names without a value are ignored.

        Returns
        -------
        dict
            The properties that are left.

        Raises
        ------
        pennon.InvalidInputError
            The names are a string.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> properties = table.setProperties({"owner": "flights", "day": "monday"})
        >>> table.unsetProperties(["day", "none"])
        {'owner': 'flights'}
        """
        if isinstance(names, str):
            raise invalid(f"The names of properties are a list, not the string {names!r}")
        return self._configure(dict.fromkeys(names))


def replaced_before(times: list[tuple[int, datetime]], cutoff: datetime) -> list[int]:
    """The versions whose successor was made before a time."""
    return [version for (version, _), (_, next_made) in pairwise(times) if next_made < cutoff]


def _data_files(table: Any) -> dict[tuple[str, int | None], int]:
    """Sizes of the data files of a version."""
    files = (file for fragment in table.get_fragments() for file in fragment.metadata.files)
    return {(file.path, file.base_id): file.file_size_bytes or 0 for file in files}


def _number(name: str, value: Any) -> Any:
    """An argument. Raises `InvalidTypeError` for one that is no number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise wrong_type(f"{name} is {value!r}: expected a number")


def _history(table: Any, limit: int | None) -> list[tuple[Any, ...]]:
    """The rows of the history; versions that a vacuum removes meanwhile are left out."""
    # A crash may have torn newer ones.
    numbers = [entry["version"] for entry in table.version_refs() if entry["version"] <= int(table.version)]
    shown = numbers if limit is None else numbers[-limit:]
    described = {version: _transaction(found) for version, found in transactions(table, shown[::-1])}
    # One more than are shown, for the difference to the version before.
    if limit is not None and limit + 1 < len(numbers):
        entries = _entries(table, numbers[-limit - 1 :])
    else:
        entries = table.versions()
    rows = []
    counts = {0: 0}
    for entry in entries:
        metrics = {name: int(entry["metadata"][key]) for key, name in _METRICS.items() if key in entry["metadata"]}
        version = entry["version"]
        if "numRows" in metrics:
            counts[version] = metrics["numRows"]
            if version - 1 in counts:
                metrics["numRowsDifference"] = counts[version] - counts[version - 1]
        if version in described:
            operation, parameters, read, message = described[version]
            rows.append((version, in_utc(entry["timestamp"]), operation, parameters, read, metrics, message))
    return rows[::-1]


def _entries(table: Any, versions: list[int]) -> list[Any]:
    """Entries of versions as in `versions`, without those that are gone."""
    import pennon

    found = []
    for version in versions:
        with suppress(pennon.NotFoundError):
            found.append(table.checkout_version(version).get_version())
    return found


def _transaction(transaction: Any) -> tuple[str | None, dict[str, str] | None, int | None, str | None]:
    """Operation, its parameters, the version that was read, and the message."""
    if transaction is None:
        return None, None, None, None
    operation, properties = transaction.operation, dict(transaction.transaction_properties or {})
    message = properties.pop(COMMIT_MESSAGE, None)
    values = {name: value for name, value in vars(operation).items() if isinstance(value, str | int | float)}
    parameters = {name: str(value) for name, value in values.items() if value is not None}
    return type(operation).__name__, {**parameters, **properties}, transaction.read_version, message
