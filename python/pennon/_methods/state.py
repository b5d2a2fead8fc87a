"""What a dataset is at its version: properties, figures and checks."""

from __future__ import annotations

import pyarrow as pa

from pennon import _native
from pennon._methods.base import TableMethods
from pennon._progress import ProgressLike, Reporter
from pennon._render import columns_of, panel
from pennon.schema import LanceSchema
from pennon.session import Session
from pennon.stats import Counters, IOStats, LanceStats
from pennon.verification import VerifyReport

_SYSTEM_COLUMNS = {"with_row_id": "_rowid", "with_row_address": "_rowaddr"}


class StateMethods(TableMethods):
    """The properties of `LanceDataset`."""

    _counters_seen = Counters()

    def __len__(self) -> int:
        return self._native.num_rows

    def __repr__(self) -> str:
        rows = self._native.num_rows
        return f"{type(self).__name__}({self.uri!r}, version={self.version}, rows={rows})"

    def _repr_html_(self) -> str:
        rows = self._native.num_rows
        facts = {
            "version": self.version,
            "rows": rows,
            "fragments": len(self._native.fragments),
            "file version": self.data_storage_version,
            "rows keep their ids": "yes" if self.has_stable_row_ids else "no",
        }
        return panel(f"{type(self).__name__} {self.uri}", facts, columns_of(self._native.schema))

    @property
    def uri(self) -> str:
        """The URI of the table.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://uri-of", mode="overwrite")
        >>> table.uri
        'memory://uri-of'
        >>> pennon.dataset(table.uri).count_rows()
        3
        """
        return self._native.uri

    @property
    def version(self) -> int:
        """The version of this object.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://version-of", mode="overwrite")
        >>> table.insert({"a": [4]})
        >>> table.version, table.checkout_version(1).version
        (2, 1)
        """
        return self._native.version

    @property
    def latest_version(self) -> int:
        """The newest version of the table, looked up at each call.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://latest-version", mode="overwrite")
        >>> other = pennon.dataset("memory://latest-version")
        >>> other.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> table.version, table.latest_version
        (1, 2)
        """
        return self._native.latest_version()

    @property
    def schema(self) -> pa.Schema:
        """The columns, and the system columns that the default scan options add.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://schema-of", mode="overwrite")
        >>> table.schema
        a: int64
        """
        schema = self._native.schema
        for option, name in _SYSTEM_COLUMNS.items():
            if self._default_scan_options.get(option):
                schema = schema.append(pa.field(name, pa.uint64()))
        return schema

    @property
    def lance_schema(self) -> LanceSchema:
        """The columns with their field ids.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://lance-schema", mode="overwrite")
        >>> [(field.name(), field.id()) for field in table.lance_schema.fields()]
        [('a', 0)]
        """
        return LanceSchema._of(self._native.lance_schema)

    @property
    def data_storage_version(self) -> str:
        """Version of the data files, such as `"2.2"`.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3]}
        >>> table = pennon.write_dataset(data, "memory://version-21", mode="overwrite", data_storage_version="2.1")
        >>> table.data_storage_version
        '2.1'
        """
        return self._native.data_storage_version

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3]}
        >>> table = pennon.write_dataset(data, "memory://stable-ids", mode="overwrite", enable_stable_row_ids=False)
        >>> table.has_stable_row_ids
        False
        """
        return self._native.has_stable_row_ids

    @property
    def max_field_id(self) -> int:
        """The largest field id in use.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://max-field-id", mode="overwrite")
        >>> table.add_columns({"b": "a + 1"})
        >>> table.drop_columns(["a"])
        >>> table.max_field_id
        1
        """
        return self._native.max_field_id

    @property
    def stats(self) -> LanceStats:
        """Figures about the table.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://stats-of", mode="overwrite")
        >>> table.stats.dataset_stats()
        {'num_deleted_rows': 0, 'num_fragments': 1, 'num_small_files': 1}
        """
        return LanceStats(self._native)

    def session(self) -> Session:
        """The caches of this table, to open others with.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://session-of", mode="overwrite")
        >>> other = pennon.dataset("memory://session-of", session=table.session())
        >>> other.session().is_same_as(table.session())
        True
        """
        return Session._of(self._native.session())

    def counters(self) -> Counters:
        """Requests, bytes, retries, look-ups in caches and decoded rows since the table was opened.

        All objects from one [dataset][pennon.dataset] or [write_dataset][pennon.write_dataset] share them:
        other versions, branches and fragments, and all tables of one [Session][pennon.Session]. Reading a data file
        counts one request for each range of bytes that is read at once.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://counters", mode="overwrite")
        >>> table.to_table(filter="a > 1").num_rows
        2
        >>> table.counters().rows_decoded
        3
        """
        return Counters._of(self._native.counters())

    def io_stats_snapshot(self) -> IOStats:
        """Requests and bytes since the last [io_stats_incremental][pennon.LanceDataset.io_stats_incremental].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://io-stats", mode="overwrite")
        >>> table.io_stats_incremental().written_bytes > 0
        True
        >>> table.io_stats_snapshot()
        IOStats(read_iops=0, read_bytes=0, write_iops=0, written_bytes=0)
        """
        return IOStats._of(self.counters(), self._counters_seen)

    def io_stats_incremental(self) -> IOStats:
        """Requests and bytes since the last call, or since the table was opened.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://io-stats-incremental", mode="overwrite")
        >>> table.io_stats_incremental().written_bytes > 0
        True
        >>> table.count_rows()
        3
        >>> table.io_stats_incremental().written_bytes
        0
        """
        now = self.counters()
        stats, self._counters_seen = IOStats._of(now, self._counters_seen), now
        return stats

    def validate(self) -> None:
        """Check that the files of this version exist and match the manifest, row ids included.

        Opens every data and deletion file. [verify][pennon.verify] also looks at the other versions, and lists
        everything that is wrong.

        Raises
        ------
        pennon.CorruptError
            A file is missing or damaged; the message names the first fault.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://validate", mode="overwrite")
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> table.validate()
        """
        self._native.validate()

    def verify(self, *, data: bool = False, progress: ProgressLike = None) -> VerifyReport:
        """Look for damage: in this version down to its rows, in the others for files that are missing.

        The same as [verify][pennon.verify] of its URI.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://verify-method", mode="overwrite")
        >>> table.verify().ok
        True
        """
        with Reporter("verify", progress) as report:
            return VerifyReport._of(_native.verify(self._native, data, report.counts))
