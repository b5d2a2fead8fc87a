"""Files of a dataset: base paths, compaction and cleanup."""

from __future__ import annotations

import os
from datetime import timedelta

import pyarrow as pa

from pennon import _native
from pennon._methods.base import DatasetT, TableMethods
from pennon._options import located, location, strings
from pennon._progress import ProgressLike, Reporter
from pennon._table import files
from pennon.cleanup import CleanupExplanation, CleanupStats, explanation, options
from pennon.errors import InvalidInputError
from pennon.file import LanceFileSession
from pennon.optimize import DatasetOptimizer
from pennon.transaction import DatasetBasePath


class UpkeepMethods(TableMethods):
    """The methods of `LanceDataset` that manage its files."""

    def base_paths(self) -> dict[int, DatasetBasePath]:
        """Further roots of the files of this version, by id.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://base-paths", mode="overwrite")
        >>> _ = table.add_bases([pennon.DatasetBasePath("memory://cold", name="cold")])
        >>> [base.name for base in table.base_paths().values()]
        ['cold']
        """
        return {base["id"]: DatasetBasePath(**base) for base in _native.base_paths(self._native)}

    def add_bases(
        self: DatasetT,
        new_bases: list[DatasetBasePath],
        transaction_properties: dict[str, str] | None = None,
    ) -> DatasetT:
        """Register further roots that data files may be written to, and move to the new version.

        Parameters
        ----------
        new_bases
            The roots. A relative path is resolved against the current working directory.
        transaction_properties
            Key-value pairs to keep in the transaction.

        Returns
        -------
        LanceDataset
            This dataset.

        Raises
        ------
        pennon.InvalidInputError
            A name or path is registered already, or a path is invalid: it contains `..`, is inside the table,
            or no store can open it.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://based", mode="overwrite")
        >>> base = pennon.DatasetBasePath("memory://archive", name="archive")
        >>> pennon.write_dataset({"a": [2]}, table.add_bases([base]), mode="append", target_bases=["archive"])
        LanceDataset('memory://based', version=3, rows=2)
        """
        _native.add_bases(self._native, new_bases, strings(transaction_properties, "transaction_properties"))
        return self

    @property
    def optimize(self) -> DatasetOptimizer:
        """Maintenance that keeps the table small and fast, such as `optimize.compact_files()`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://optimize-of", mode="overwrite")
        >>> table.insert({"a": [4]})
        >>> table.optimize.compact_files().fragments_added
        1
        >>> len(table.get_fragments())
        1
        """
        return DatasetOptimizer(self)

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        delete_concurrency: int | None = None,
        progress: ProgressLike = None,
    ) -> CleanupStats:
        """Remove old versions, and the files that only they refer to.

        A version is removed if it meets every condition given. The version of this object, later versions, tagged
        versions and start versions of branches are kept, and so is every file that a version of this table, of a
        branch or of a clone made by Pennon refers to. Manifests are removed before files: an interrupted cleanup
        leaves orphans, and never a version without its files.

        The age of a version counts from when it was made. `LanceTable.vacuum` of the package for Spark counts from
        when the next version replaced it, and keeps seven days by default.

        Parameters
        ----------
        older_than
            Only versions older than this; 14 days if no condition is given.
        retain_versions
            Keep this number of newest versions.
        delete_unverified
            Also remove young files that no version refers to. By default they are removed once they are seven days
            old, because a younger one may belong to a write in flight.
        error_if_tagged_old_versions
            Whether a tagged version that meets the conditions is an error; it is kept in any case.
        delete_rate_limit
            The most files deleted per second.
        versions
            Only these versions.
        delete_concurrency
            The most delete requests in flight.
        progress
            A function that hears of files, as tasks, and bytes that were removed; what it raises ends the cleanup.
            Otherwise as in [jobs.run][pennon.jobs.run].

        Raises
        ------
        pennon.InvalidInputError
            A limit is 0, the age is negative, or a tagged version meets the conditions.
        pennon.CorruptError
            A version cannot be read, so the files it refers to are unknown. Nothing was removed.

        Examples
        --------
        >>> import pennon
        >>> from datetime import timedelta
        >>> table = pennon.write_dataset({"a": [1]}, "memory://cleanup", mode="overwrite")
        >>> table.insert({"a": [2]}, mode="overwrite")
        >>> table.cleanup_old_versions(timedelta(0)).old_versions
        1
        """
        given = options(
            older_than,
            retain_versions,
            delete_unverified,
            error_if_tagged_old_versions,
            delete_rate_limit,
            versions,
            delete_concurrency,
        )
        with Reporter("cleanup", progress) as report:
            return CleanupStats(**_native.cleanup(self._native, given, report.counts))

    def all_files(self) -> pa.RecordBatchReader:
        """The files in the folders of the table, those that no version refers to too.

        The columns are `base_uri`, `path`, `size_bytes` and `last_modified`. Not listed are tags and branches,
        files of branches and of base paths, and what is not of the table.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://all-files", mode="overwrite")
        >>> sorted({path.partition("/")[0] for path in table.all_files().read_all()["path"].to_pylist()})
        ['_transactions', '_versions', 'data']
        """
        return files.all_files(self._native)

    def tracked_files(
        self, *, min_version: int | None = None, progress: files.Progress | None = None
    ) -> pa.RecordBatchReader:
        """The files that the versions refer to, by version.

        Parameters
        ----------
        min_version
            Only this version and later ones.
        progress
            Called after each version, with how many are done and how many there are.

        Returns
        -------
        pyarrow.RecordBatchReader
            The columns `version`, `base_uri`, `path`, and `type`: `manifest`, `transaction file`, `data file`,
            `deletion file` or `index file`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://tracked-files", mode="overwrite")
        >>> table.tracked_files().read_all()["type"].to_pylist()
        ['manifest', 'transaction file', 'data file']
        """
        return files.tracked_files(self._native, min_version, progress)

    def new_file_session(self) -> LanceFileSession:
        """The files of the table, its data files and others, by their paths in it; with its storage options.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://file-session", mode="overwrite")
        >>> (file,) = table.get_fragment(0).data_files()
        >>> table.new_file_session().open_reader(f"data/{file.path}").num_rows()
        2
        """
        return LanceFileSession(self._native.absolute_uri, self._native.storage_options or None)

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
    ) -> CleanupExplanation:
        """Report what `cleanup_old_versions` would remove, and for every file why it is removed or kept.

        Errors as for `cleanup_old_versions`.

        Parameters
        ----------
        older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, delete_rate_limit, versions
            As for `cleanup_old_versions`.
        include_files
            Whether `candidate_files` is filled.
        max_files
            The most files in `candidate_files`, at least one. The table `files` has all of them in any case.

        Examples
        --------
        >>> import pennon
        >>> from datetime import timedelta
        >>> table = pennon.write_dataset({"a": [1]}, "memory://explain", mode="overwrite")
        >>> table.truncate_table()
        >>> found = table.explain_cleanup_old_versions(timedelta(0)).files
        >>> [row["reason"] for row in found.to_pylist() if row["kind"] == "manifest"]
        ['current_version', 'old_version']
        """
        if max_files < 1:
            raise InvalidInputError(f"max_files must be positive, got {max_files}")
        given = options(
            older_than,
            retain_versions,
            delete_unverified,
            error_if_tagged_old_versions,
            delete_rate_limit,
            versions,
        )
        return explanation(_native.explain_cleanup(self._native, given), include_files, max_files)

    @staticmethod
    def drop(
        base_uri: str | os.PathLike[str],
        storage_options: dict[str, str] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Remove a table with all its versions and branches.

        Shallow clones of it lose the files that they share with it.

        Raises
        ------
        pennon.NotFoundError
            There is no such table, unless `ignore_not_found` is true.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://drop", mode="overwrite")
        >>> pennon.LanceDataset.drop("memory://drop")
        >>> pennon.LanceDataset.drop("memory://drop", ignore_not_found=True)
        """
        uri = location(base_uri, "base_uri")
        with located(uri):
            _native.Dataset.drop_table(uri, strings(storage_options), bool(ignore_not_found))
