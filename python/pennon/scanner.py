"""Scans: which rows and columns to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow.compute as pc

from pennon._lance_api import BuilderApi
from pennon._lance_scanner import LanceScanner
from pennon._options import checked_number, refuse
from pennon._ordering import orderings_of
from pennon._table import scans
from pennon._table.nearest import options_of, request_of
from pennon.errors import InvalidInputError, InvalidTypeError, UnsupportedError

if TYPE_CHECKING:
    from pennon import _native
    from pennon._protocols import Numbered, Table
    from pennon._table.scans import ScanOptions
    from pennon.types import BlobHandling, ColumnOrdering, Columns, Filter, QueryVectorLike

__all__ = ["LanceScanner", "ScannerBuilder"]


_NOT_OFFERED = (
    "index_segments",
    "full_text_query",
    "scan_stats_callback",
    "row_addr_allowlist",
    "row_addr_blocklist",
)
# Options whose methods are not called with their values.
_APART = {*_NOT_OFFERED, "fragments", "nearest"}


class ScannerBuilder(BuilderApi):
    """Collects the options of a scan.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://builder", mode="overwrite")
    >>> ScannerBuilder(table).columns(["a"]).filter("a > 1").limit(1).to_scanner().to_table().to_pylist()
    [{'a': 2}]
    """

    _expression: pc.Expression | None = None
    _orderings: tuple[ColumnOrdering, ...] = ()
    _prefilter = _without_distance = False

    def __init__(self, ds: Table) -> None:
        self._dataset, self._request = ds, scans.new_request()
        self.apply_defaults(ds._default_scan_options)

    @classmethod
    def _without_defaults(cls, dataset: Table) -> ScannerBuilder:
        """A scan of all rows and columns, whatever the default options of the dataset."""
        builder = cls.__new__(cls)
        builder._dataset, builder._request = dataset, scans.new_request()
        return builder

    def apply_defaults(self, default_opts: Mapping[str, Any]) -> ScannerBuilder:
        """Call the methods that `default_opts` names. Raises `InvalidInputError` for a name that is not a method.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(6)}, "memory://builder-defaults", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).apply_defaults({"limit": 2, "with_row_id": True}).to_scanner()
        >>> scan.to_table().to_pydict()
        {'a': [0, 1], '_rowid': [0, 1]}
        """
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
        """The most rows to return; all without a number. Raises `InvalidInputError` for a negative one.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(6)}, "memory://builder-limit", mode="overwrite")
        >>> pennon.ScannerBuilder(table).filter("a > 1").limit(2).to_scanner().to_table()["a"].to_pylist()
        [2, 3]
        """
        self._request["limit"] = None if n is None else checked_number("limit", n)
        return self

    def offset(self, n: int | None = None) -> ScannerBuilder:
        """The number of matching rows to skip. Raises `InvalidInputError` for a negative one.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(6)}, "memory://builder-offset", mode="overwrite")
        >>> pennon.ScannerBuilder(table).filter("a > 1").offset(2).to_scanner().to_table()["a"].to_pylist()
        [4, 5]
        """
        self._request["offset"] = None if n is None else checked_number("offset", n)
        return self

    def batch_size(self, batch_size: int | None) -> ScannerBuilder:
        """The most rows in a batch; 8192 by default.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(6)}, "memory://builder-batch-size", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).batch_size(4).to_scanner()
        >>> [batch.num_rows for batch in scan.to_batches()]
        [4, 2]
        """
        most = scans.MOST_BATCH_ROWS
        given = None if batch_size is None else checked_number("batch_size", batch_size, 1, most)
        self._request["batch_size"] = given
        return self

    def batch_size_bytes(self, batch_size_bytes: int | None) -> ScannerBuilder:
        """About the most bytes in a batch.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(10_000)}, "memory://builder-batch-bytes", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).batch_size_bytes(16 * 1024).to_scanner()
        >>> max(batch.nbytes for batch in scan.to_batches()) <= 16 * 1024
        True
        """
        given = None if batch_size_bytes is None else checked_number("batch_size_bytes", batch_size_bytes)
        self._request["batch_size_bytes"] = given
        return self

    def strict_batch_size(self, strict_batch_size: bool | None = False) -> ScannerBuilder:
        """Whether every batch but the last has exactly `batch_size` rows.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(6)}, "memory://builder-strict-size", mode="overwrite")
        >>> builder = pennon.ScannerBuilder(table).filter("a % 2 = 0").batch_size(2)
        >>> [batch.num_rows for batch in builder.strict_batch_size(True).to_scanner().to_batches()]
        [2, 1]
        """
        self._request["strict_batch_size"] = bool(strict_batch_size)
        return self

    def scan_in_order(self, scan_in_order: bool | None = True) -> ScannerBuilder:
        """Whether rows are returned in the order of the table.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://builder-in-order", mode="overwrite", max_rows_per_file=2
        ... )
        >>> scan = pennon.ScannerBuilder(table).scan_in_order(False).to_scanner()
        >>> sorted(scan.to_table()["a"].to_pylist())
        [0, 1, 2, 3, 4, 5]
        """
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
        """Whether `_rowaddr` is added: the fragment's id in the upper 32 bits, the row's offset in the lower.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://builder-row-address", mode="overwrite", max_rows_per_file=3
        ... )
        >>> scan = pennon.ScannerBuilder(table).filter("a IN (2, 3)").with_row_address().to_scanner()
        >>> [divmod(address, 2**32) for address in scan.to_table()["_rowaddr"].to_pylist()]
        [(0, 2), (1, 0)]
        """
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
        try:
            ids = None if fragments is None else [part.fragment_id for part in fragments]
        except (AttributeError, TypeError):
            raise InvalidTypeError(f"fragments must be a list of LanceFragment, found {fragments!r}") from None
        return self._with_fragment_ids(ids)

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
        """Whether rows that cannot match, according to statistics, are skipped. The result is the same.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset(
        ...     {"a": range(6)}, "memory://builder-use-stats", mode="overwrite", max_rows_per_file=3
        ... )
        >>> builder = pennon.ScannerBuilder(table).filter("a > 3")
        >>> ["statistics" in builder.use_stats(flag).to_scanner().explain_plan() for flag in (True, False)]
        [True, False]
        """
        self._request["use_stats"] = use_stats is None or use_stats
        return self

    def use_scalar_index(self, use_scalar_index: bool | None = True) -> ScannerBuilder:
        """Whether indices over values answer the filter. The result is the same.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(6)}, "memory://builder-use-index", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> builder = pennon.ScannerBuilder(table).filter("a = 3")
        >>> ["a_idx" in builder.use_scalar_index(flag).to_scanner().explain_plan() for flag in (True, False)]
        [True, False]
        """
        self._request["use_scalar_index"] = use_scalar_index is None or use_scalar_index
        return self

    def fast_search(self, flag: bool | None) -> ScannerBuilder:
        """Whether fragments that no index covers are passed over, where indices answer the filter or a search.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(6)}, "memory://builder-fast-search", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> table.insert({"a": [3]})
        >>> builder = pennon.ScannerBuilder(table).filter("a = 3")
        >>> builder.to_scanner().count_rows(), builder.fast_search(True).to_scanner().count_rows()
        (2, 1)
        """
        self._request["fast_search"] = bool(flag)
        return self

    def strict_indices(self, flag: bool | None = True) -> ScannerBuilder:
        """Whether an index that would be used and cannot be read is an error rather than a warning and a scan.

        The error names the file: a `NotFoundError` if it is missing, a `CorruptError` if it is damaged, an
        `UnsupportedError` if it was written by a newer release.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(6)}, "memory://builder-strict-indices", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> pennon.ScannerBuilder(table).filter("a = 3").strict_indices().to_scanner().count_rows()
        1
        """
        self._request["strict_indices"] = bool(flag)
        return self

    def blob_handling(self, blob_handling: BlobHandling | None) -> ScannerBuilder:
        """What blob columns read as; see [LanceDataset.scanner][pennon.LanceDataset.scanner].

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa
        >>> data = pa.table({"image": pennon.blob_array([b"abc"])})
        >>> table = pennon.write_dataset(data, "memory://builder-blobs", mode="overwrite")
        >>> pennon.ScannerBuilder(table).blob_handling("all_binary").to_scanner().to_table().to_pylist()
        [{'image': b'abc'}]
        """
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
        """Whether the filter says which rows are searched, rather than which of the nearest are kept.

        Examples
        --------
        >>> import pennon
        >>> from pennon.vector import vec_to_table
        >>> data = vec_to_table([[0, 0], [3, 4], [1, 0]])
        >>> table = pennon.write_dataset(data, "memory://builder-prefilter", mode="overwrite")
        >>> builder = pennon.ScannerBuilder(table).nearest("vector", [0, 0], k=1).filter("_rowid > 0")
        >>> [builder.prefilter(flag).to_scanner().count_rows() for flag in (False, True)]
        [0, 1]
        """
        self._prefilter = bool(prefilter)
        return self

    def disable_scoring_autoprojection(self, disable: bool | None = True) -> ScannerBuilder:
        """Whether `_distance` is left out unless it is among the columns.

        Examples
        --------
        >>> import pennon
        >>> from pennon.vector import vec_to_table
        >>> data = vec_to_table([[0, 0], [3, 4], [1, 0]])
        >>> table = pennon.write_dataset(data, "memory://builder-autoprojection", mode="overwrite")
        >>> builder = pennon.ScannerBuilder(table).nearest("vector", [0, 0], k=1).columns(["vector"])
        >>> builder.disable_scoring_autoprojection().to_scanner().projected_schema.names
        ['vector']
        >>> builder.disable_scoring_autoprojection(False).to_scanner().projected_schema.names
        ['vector', '_distance']
        """
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
            Unknown or repeated columns, a filter that does not parse or is not boolean, a search for the nearest
            vectors of some fragments without `prefilter`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": range(6)}, "memory://builder-to-scanner", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).columns([]).with_row_id().to_scanner()
        >>> scan
        LanceScanner('memory://builder-to-scanner', version=1, columns=['_rowid'])
        >>> scan.count_rows()
        6
        """
        dataset, request = self._dataset, self._request
        if nearest := request["nearest"]:
            if request["fragments"] is not None and not self._prefilter:
                raise InvalidInputError("A search for the nearest vectors of some fragments needs prefilter=True")
            apart = {"prefilter": self._prefilter, "disable_scoring_autoprojection": self._without_distance}
            request = cast("_native.ScanRequest", {**request, "nearest": {**nearest, **apart}})
        plan = scans.plan(
            dataset._native,
            request,
            None if self._expression is None else dataset.schema,
            expression=self._expression,
            orderings=self._orderings,
        )
        return LanceScanner(dataset, plan)


def scan(dataset: Table, options: ScanOptions, *, with_defaults: bool = True) -> LanceScanner:
    """Plan a scan with the options that have a value; reads nothing.

    Fragments, and Pennon itself, scan without the default options of the dataset: these are for its callers.
    """
    if options.get("full_text_query") is not None:
        raise UnsupportedError(
            "The option 'full_text_query' is not supported by this release: full-text indices are kept correct,"
            f" and searched by pylance, lance.dataset({dataset._native.uri!r}).to_table(full_text_query=...)"
        )
    refuse(**{name: options.get(name) for name in _NOT_OFFERED})
    builder = ScannerBuilder(dataset) if with_defaults else ScannerBuilder._without_defaults(dataset)
    builder.with_fragments(options.get("fragments"))
    if (nearest := options.get("nearest")) is not None:
        builder.nearest(**options_of(nearest))
    return builder.apply_defaults(
        {name: value for name, value in options.items() if name not in _APART}
    ).to_scanner()
