"""A planned scan, and its results: `LanceScanner`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon._lance_api import ScannerApi
from pennon._optional import require
from pennon._options import ignored
from pennon._render import columns_of, listed, panel
from pennon._table import frames
from pennon._table.plan import planned
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from pennon import _native
    from pennon._protocols import Table
    from pennon._table.plan import ScanPlan
    from pennon.types import BlobMode


class LanceScanner(ScannerApi):
    """A planned scan; made by [LanceDataset.scanner][pennon.LanceDataset.scanner].

    It can be read several times, and by everything that accepts `__arrow_c_stream__`.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scan", mode="overwrite")
    >>> scan = table.scanner(columns=["a"], filter="a > 1")
    >>> scan.to_table()["a"].to_pylist()
    [2, 3]
    """

    def __init__(self, dataset: Table, plan: ScanPlan) -> None:
        # Pyarrow's own initialiser refuses to make scanners.
        self._dataset = dataset
        self._plan = plan

    def __repr__(self) -> str:
        native, names = self._dataset._native, self.projected_schema.names
        where = f"{native.uri!r}, version={self._plan.table.version}"
        return f"LanceScanner({where}, columns={listed(names, len(names))})"

    def _repr_html_(self) -> str:
        schema, native = self.projected_schema, self._dataset._native
        plan = [line.strip() for line in self.explain_plan().splitlines()[1:]]
        facts = {"version": self._plan.table.version, "columns": len(schema)}
        return panel(f"LanceScanner of {native.uri}", facts, columns_of(schema), notes=plan)

    @property
    def projected_schema(self) -> pa.Schema:
        """Columns of the result.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scanner-schema", mode="overwrite")
        >>> scan = table.scanner(filter="a > 1")
        >>> scan.projected_schema.names
        ['a']
        """
        return self._plan.schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """Columns of the dataset.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1], "b": [2]}, "memory://scanner-dataset-schema", mode="overwrite")
        >>> scan = table.scanner(columns=["a"])
        >>> scan.dataset_schema.names, scan.projected_schema.names
        (['a', 'b'], ['a'])
        """
        return self._dataset.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch. The iterator has a `schema`, and `close()` ends the read.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scanner-batches", mode="overwrite")
        >>> scan = table.scanner(filter="a > 1")
        >>> [batch.num_rows for batch in scan.to_batches()]
        [2]
        """
        return self._plan.batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scanner-reader", mode="overwrite")
        >>> scan = table.scanner(filter="a > 1")
        >>> scan.to_reader().read_all().num_rows
        2
        """
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """The rows, all at once.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scanner-table", mode="overwrite")
        >>> scan = table.scanner(filter="a > 1")
        >>> scan.to_table()["a"].to_pylist()
        [2, 3]
        """
        return pa.Table.from_batches(list(self.to_batches()), self.projected_schema)

    def to_pandas(self, *, blob_mode: BlobMode = "lazy", **kwargs: Any) -> Any:
        """The rows as a pandas frame.

        Parameters
        ----------
        blob_mode
            What blobs are: with `"lazy"` a [BlobFile][pennon.BlobFile], which reads when it is read, with `"bytes"`
            their bytes, with `"descriptions"` where the bytes are stored.
        **kwargs
            As in `pyarrow.Table.to_pandas`.

        Raises
        ------
        pennon.InvalidInputError
            The mode is another one.
        pennon.MissingPackageError
            Pandas is not installed.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> from pennon.blob import blob_array, blob_field
        >>> data = pa.table([blob_array([b"abc", None])], schema=pa.schema([blob_field("image")]))
        >>> table = pennon.write_dataset(data, "memory://to-pandas", mode="overwrite")
        >>> table.scanner().to_pandas()["image"][0].read()
        b'abc'
        """
        mode, schema, plan = frames.checked(blob_mode), self.projected_schema, self._plan
        require("pandas", "pandas", "to_pandas")
        paths = frames.blob_paths(schema)
        if mode == "descriptions" or not paths:
            return self.to_table().to_pandas(**kwargs)

        def scanned(request: _native.ScanRequest) -> pa.Table:
            changed = planned(plan.table, request, plan.rest, plan.orderings, self._dataset.schema)
            return LanceScanner(self._dataset, changed).to_table()

        if mode == "bytes":
            return scanned({**plan.request, "blob_handling": "all_binary"}).to_pandas(**kwargs)
        return frames.with_files(plan.table, plan.request, schema, paths, scanned, kwargs)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.projected_schema.__arrow_c_schema__()

    def count_rows(self) -> int:
        """The number of rows of the result; reads only what the filter needs.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scanner-count", mode="overwrite")
        >>> scan = table.scanner(filter="a > 1")
        >>> scan.count_rows()
        2
        """
        return self._plan.count_rows()

    def explain_plan(self, verbose: bool = False) -> str:
        """What the scan reads, as text: columns, filter, and the rows to look at by fragment. Reads nothing.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(100), "b": range(100)}
        >>> table = pennon.write_dataset(data, "memory://explain-plan", mode="overwrite")
        >>> print(table.scanner(columns=["b"], filter="a > 90").explain_plan())
        scan of memory://explain-plan at version 1
          columns: b
          columns read: b
          filter: a > 90
            columns read: a
            rows left out unread by: statistics of files, lineage and row addresses
          batches: at most 8192 rows, in table order
          fragments: 1 of 1, 100 rows to look at
            fragment 0: rows 0..100
        """
        ignored(verbose=verbose or None)
        return self._plan.described(self._plan.scan.explain())

    def analyze_plan(self, count_rows: bool = False) -> str:
        """Execute the scan without keeping its rows, and return its plan with what that took.

        Rows left by statistics and deletions, rows that matched and rows that were decoded; requests and bytes;
        hits of the caches; milliseconds.

        Parameters
        ----------
        count_rows
            Whether only the number of rows is wanted, as by `count_rows`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(100)}, "memory://analyze-plan", mode="overwrite")
        >>> print(table.scanner(filter="a > 90").analyze_plan())
        scan of memory://analyze-plan at version 1
        ...
        executed in ... ms
          result: 9 rows in 1 batches
          rows: 100 left after deletions and statistics, 9 matched
          rows decoded: 100
          fragments opened: 1, units of work: 1
          requests: ..., bytes read: ...
          caches: ... hits, ... misses
        """
        return self._plan.described(self._plan.scan.analyze(count_rows))

    def head(self, num_rows: int = 5) -> pa.Table:
        """The first rows. Raises `InvalidInputError` for a negative number.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scanner-head", mode="overwrite")
        >>> scan = table.scanner(filter="a > 1")
        >>> scan.head(1)["a"].to_pylist()
        [2]
        """
        if num_rows < 0:
            raise InvalidInputError(f"num_rows is {num_rows}, expected 0 or more")
        taken: list[pa.RecordBatch] = []
        for batch in self.to_batches():
            taken.append(batch.slice(0, num_rows))
            num_rows -= taken[-1].num_rows
            if num_rows <= 0:
                break
        return pa.Table.from_batches(taken, self.projected_schema)
