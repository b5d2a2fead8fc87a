"""Scans: which rows and columns to read, and their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from pennon._lance_api import BuilderApi, ScannerApi
from pennon._optional import require
from pennon._options import ignored, refuse
from pennon._ordering import orderings_of
from pennon._render import columns_of, listed, panel
from pennon._table import frames, scans
from pennon._table.nearest import options_of, request_of
from pennon._table.plan import planned
from pennon.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pennon import _native
    from pennon._protocols import Numbered, Table
    from pennon._table.plan import ScanPlan
    from pennon._table.scans import ScanOptions
    from pennon.types import BlobHandling, BlobMode, ColumnOrdering, Columns, Filter, QueryVectorLike

__all__ = ["LanceScanner", "ScannerBuilder"]


_NOT_OFFERED = (
    "index_segments",
    "full_text_query",
    "scan_stats_callback",
    "row_addr_allowlist",
    "row_addr_blocklist",
)


class ScannerBuilder(BuilderApi):
    """Collects the options of a scan.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://builder", mode="overwrite")
    >>> ScannerBuilder(table).columns(["a"]).filter("a > 1").limit(1).to_scanner().to_table().to_pylist()
    [{'a': 2}]
    """

    def __init__(self, ds: Table) -> None:
        self._dataset = ds
        self._expression: pc.Expression | None = None
        self._orderings: tuple[ColumnOrdering, ...] = ()
        self._request = scans.new_request()
        self._prefilter = self._without_distance = False
        self.apply_defaults(ds._default_scan_options)

    def apply_defaults(self, default_opts: Mapping[str, Any]) -> ScannerBuilder:
        """Call the methods that `default_opts` names."""
        for name, value in default_opts.items():
            method = getattr(self, name, None)
            if name.startswith("_") or method is None:
                raise InvalidInputError(f"Unknown scan option {name!r}")
            method(value)
        return self

    def columns(self, cols: Columns | None = None) -> ScannerBuilder:
        """Columns by name, or SQL expressions by the name of their result.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://builder-columns", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).columns({"double": "a * 2"}).to_scanner()
        >>> scan.to_table().to_pydict()
        {'double': [2, 4, 6]}
        """
        self._request["columns"] = scans.native_columns(cols)
        return self

    def filter(self, filter: Filter | None) -> ScannerBuilder:
        """Only rows for which this is true: SQL text or a pyarrow expression.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://builder-filter", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).filter("a > 1").to_scanner()
        >>> scan.to_table().to_pydict()
        {'a': [2, 3]}
        """
        if filter is None or isinstance(filter, str):
            self._request["filter"], self._expression = filter, None
        elif isinstance(filter, pc.Expression):
            self._request["filter"], self._expression = None, filter
        else:
            raise UnsupportedError(f"A filter of type {type(filter).__name__} is not supported")
        return self

    def limit(self, n: int | None = None) -> ScannerBuilder:
        """The most rows to return."""
        if n is not None and n < 0:
            raise InvalidInputError("Limit must be non-negative")
        self._request["limit"] = n
        return self

    def offset(self, n: int | None = None) -> ScannerBuilder:
        """The number of matching rows to skip."""
        if n is not None and n < 0:
            raise InvalidInputError("Offset must be non-negative")
        self._request["offset"] = n
        return self

    def batch_size(self, batch_size: int | None) -> ScannerBuilder:
        """The most rows in a batch."""
        if batch_size is not None and batch_size < 0:
            raise InvalidInputError(f"batch_size must be between 1 and {2**32 - 1}, got {batch_size}")
        self._request["batch_size"] = batch_size
        return self

    def batch_size_bytes(self, batch_size_bytes: int | None) -> ScannerBuilder:
        """About the most bytes in a batch."""
        self._request["batch_size_bytes"] = batch_size_bytes
        return self

    def strict_batch_size(self, strict_batch_size: bool | None = False) -> ScannerBuilder:
        """Whether every batch but the last has exactly `batch_size` rows."""
        self._request["strict_batch_size"] = bool(strict_batch_size)
        return self

    def scan_in_order(self, scan_in_order: bool | None = True) -> ScannerBuilder:
        """Whether rows are returned in the order of the table."""
        self._request["scan_in_order"] = scan_in_order is None or scan_in_order
        return self

    def with_row_id(self, with_row_id: bool | None = True) -> ScannerBuilder:
        """Whether `_rowid` is added.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://builder-row-id", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).with_row_id().to_scanner()
        >>> scan.to_table().to_pydict()
        {'a': [1, 2, 3], '_rowid': [0, 1, 2]}
        """
        self._request["with_row_id"] = bool(with_row_id)
        return self

    def with_row_address(self, with_row_address: bool | None = True) -> ScannerBuilder:
        """Whether `_rowaddr` is added."""
        self._request["with_row_address"] = bool(with_row_address)
        return self

    def with_fragments(self, fragments: Iterable[Numbered] | None) -> ScannerBuilder:
        """Only rows of these fragments.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://builder-fragments", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).with_fragments(table.get_fragments()[:1]).to_scanner()
        >>> scan.count_rows()
        3
        """
        return self._with_fragment_ids(None if fragments is None else [part.fragment_id for part in fragments])

    def _with_fragment_ids(self, ids: list[int] | None) -> ScannerBuilder:
        self._request["fragments"] = ids
        return self

    def include_deleted_rows(self, flag: bool | None) -> ScannerBuilder:
        """Whether deleted rows are returned as well, with null row ids.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://builder-deleted", mode="overwrite")
        >>> table.delete("a = 1")
        {'num_deleted_rows': 1}
        >>> scan = pennon.ScannerBuilder(table).with_row_id().include_deleted_rows(True).to_scanner()
        >>> scan.to_table().to_pydict()
        {'a': [1, 2, 3], '_rowid': [None, 1, 2]}
        """
        self._request["include_deleted_rows"] = bool(flag)
        return self

    def use_stats(self, use_stats: bool | None = True) -> ScannerBuilder:
        """Whether rows that cannot match, according to statistics, are skipped. The result is the same."""
        self._request["use_stats"] = use_stats is None or use_stats
        return self

    def use_scalar_index(self, use_scalar_index: bool | None = True) -> ScannerBuilder:
        """Whether indices over values answer the filter. The result is the same."""
        self._request["use_scalar_index"] = use_scalar_index is None or use_scalar_index
        return self

    def fast_search(self, flag: bool | None) -> ScannerBuilder:
        """Whether fragments that no index covers are passed over, where indices answer the filter."""
        self._request["fast_search"] = bool(flag)
        return self

    def strict_indices(self, flag: bool | None = True) -> ScannerBuilder:
        """Whether an index that would be used and cannot be read is an error rather than a warning and a scan.

        The error names the file: a `NotFoundError` if it is missing, a `CorruptError` if it is damaged, an
        `UnsupportedError` if it was written by a newer release.
        """
        self._request["strict_indices"] = bool(flag)
        return self

    def blob_handling(self, blob_handling: BlobHandling | None) -> ScannerBuilder:
        """What blob columns read as, see [LanceDataset.scanner][pennon.LanceDataset.scanner]."""
        self._request["blob_handling"] = blob_handling
        return self

    def nearest(
        self,
        column: str,
        q: QueryVectorLike,
        k: int | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        use_index: bool = True,
        ef: int | None = None,
        query_parallelism: int | None = None,
        approx_mode: Literal["fast", "normal", "accurate"] = "normal",
        distance_range: tuple[float | None, float | None] | None = None,
        search_effort: float | None = None,
    ) -> ScannerBuilder:
        """Only the rows whose vectors are nearest to a query, the nearest first, with their `_distance`.

        With an index over the column its partitions nearest to the query are searched; rows that it does not cover,
        and all without an index, are compared one by one.

        Parameters
        ----------
        column
            A column of vectors: fixed-size lists of float16, float32, float64, or of uint8 as bits; or of lists of
            these. The distance of a row with a list of vectors is the sum, over the vectors of the query, of the
            least distance to one of its own. Rows with a null or NaN in a vector are not found.
        q
            The query, of as many numbers as a vector has. Several vectors in a list or in a two-dimensional array
            are several queries: `query_index` says which one a row answers. For lists of vectors they are one.
        k
            The most rows for each query; `limit` and `offset` together, or 10, if not given.
        metric
            `"l2"`, the sum of squared differences; `"cosine"`, one minus the cosine; `"dot"`, one minus the inner
            product; `"hamming"`, the number of bits that differ. If not given, as in the index over the column.
            Without an index: l2, and hamming for uint8.
        distance_range
            Only rows at least as far as the first number and nearer than the second.
        use_index
            Whether an index over the column is searched, and says which metric is meant if none is given.
        nprobes, minimum_nprobes, maximum_nprobes
            How many partitions are searched, or at least and at most until there are `k` rows. By default a number
            that grows with `k` and the number of partitions.
        search_effort
            The same from 0, one partition, to 1, all; 0.5 is the default.
        refine_factor
            So many times `k` rows are taken from the index, and the nearest by their vectors kept.
        ef
            Candidates of the search of a graph.
        query_parallelism, approx_mode
            Checked as by pylance, without effect.

        Raises
        ------
        pennon.InvalidInputError
            The column is not there, a number is out of its range, or the query fits neither column nor metric.
        pennon.InvalidTypeError
            The column has no vectors, or the query no numbers.

        Examples
        --------
        >>> import pennon
        >>> from pennon.vector import vec_to_table
        >>> data = vec_to_table([[0, 0], [3, 4], [1, 0]])
        >>> table = pennon.write_dataset(data, "memory://nearest", mode="overwrite")
        >>> ScannerBuilder(table).nearest("vector", [0, 0], k=2).columns([]).to_scanner().to_table().to_pylist()
        [{'_distance': 0.0}, {'_distance': 1.0}]
        """
        self._request["nearest"] = request_of(
            self._dataset.schema,
            {
                "column": column,
                "q": q,
                "k": k,
                "metric": metric,
                "nprobes": nprobes,
                "minimum_nprobes": minimum_nprobes,
                "maximum_nprobes": maximum_nprobes,
                "refine_factor": refine_factor,
                "use_index": use_index,
                "ef": ef,
                "query_parallelism": query_parallelism,
                "approx_mode": approx_mode,
                "distance_range": distance_range,
                "search_effort": search_effort,
            },
        )
        return self

    def prefilter(self, prefilter: bool | None) -> ScannerBuilder:
        """Whether the filter says which rows are searched, rather than which of the nearest are kept."""
        self._prefilter = bool(prefilter)
        return self

    def disable_scoring_autoprojection(self, disable: bool | None = True) -> ScannerBuilder:
        """Whether `_distance` is left out unless it is among the columns."""
        self._without_distance = bool(disable)
        return self

    def order_by(self, orderings: Sequence[ColumnOrdering | str] | None) -> ScannerBuilder:
        """Sort the rows, see [LanceDataset.scanner][pennon.LanceDataset.scanner].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://builder-order", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).order_by(["a"]).limit(1).to_scanner()
        >>> scan.to_table().to_pydict()
        {'a': [1]}
        """
        self._orderings = orderings_of(orderings)
        return self

    def to_scanner(self) -> LanceScanner:
        """Plan the scan; reads nothing.

        Raises
        ------
        pennon.InvalidInputError
            Unknown or repeated columns, a filter that does not parse or is not boolean.
        """
        dataset, request = self._dataset, self._request
        if nearest := request["nearest"]:
            apart = {"prefilter": self._prefilter, "disable_scoring_autoprojection": self._without_distance}
            request = cast("_native.ScanRequest", {**request, "nearest": {**nearest, **apart}})
        plan = scans.plan(
            dataset._native,
            request,
            dataset.schema,
            expression=self._expression,
            orderings=self._orderings,
        )
        return LanceScanner(dataset, plan)


def scan(dataset: Table, options: ScanOptions) -> LanceScanner:
    """Plan a scan with the options that have a value; reads nothing."""
    if options.get("full_text_query") is not None:
        raise UnsupportedError(
            "The option 'full_text_query' is not supported by this release: full-text indices are kept true, and "
            f"searched by pylance, lance.dataset({dataset._native.uri!r}).to_table(full_text_query=...)"
        )
    refuse(**{name: options.get(name) for name in _NOT_OFFERED})
    builder = ScannerBuilder(dataset).with_fragments(options.get("fragments"))
    if (nearest := options.get("nearest")) is not None:
        if options.get("fragments") is not None:
            raise InvalidInputError("nearest is not supported for a scan of some fragments")
        builder.nearest(**options_of(nearest))
    apart = {*_NOT_OFFERED, "fragments", "nearest"}
    return builder.apply_defaults(
        {name: value for name, value in options.items() if name not in apart}
    ).to_scanner()


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
        """Columns of the dataset."""
        return self._dataset.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch. The iterator has a `schema`.

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
            their bytes, with `"descriptions"` where the bytes are stored. Those of legacy blobs are read with the
            rows in any case.
        **kwargs
            As in `pyarrow.Table.to_pandas`.

        Raises
        ------
        pennon.InvalidInputError
            The mode is another one.
        pennon.UnsupportedError
            Descriptions of legacy blobs.
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
        paths = frames.blob_paths(plan.table, plan.request, schema)
        if mode == "descriptions" or not paths:
            frames.refuse_legacy_descriptions(paths, plan.request, schema)
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
