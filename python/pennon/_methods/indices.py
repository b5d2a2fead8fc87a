"""Indices of a dataset: made, described, dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pennon import _native
from pennon._methods.base import TableMethods
from pennon._options import checked_text, ignored
from pennon._table.indices import (
    entries_of,
    ignore_hints,
    ignore_vector_options,
    request,
    single_column,
    staged,
)
from pennon.errors import InvalidInputError
from pennon.indices import IndexConfig, IndexDescription, IndexInformation, information, statistics
from pennon.indices._vector_request import is_vector_kind, vector_request
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
            A function of an [IndexProgress][pennon.progress.IndexProgress], called when the index starts, as its
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
            The name or the uuid is taken. It is also a `RuntimeError`.
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
            rows found by indices: a_idx (BTree), for 1 of 1 fragments, exact, with their values
        ...
        """
        if fragment_ids is not None:
            raise InvalidInputError(
                "fragment_ids is for create_index_uncommitted, and commit_existing_index_segments for its results"
            )
        ignored(format_version=format_version, document_granularity=document_granularity, **kwargs)
        new = request(column, index_type, name, replace=replace, train=train, uuid=index_uuid)
        with staged(progress_callback) as stages:
            if stages is not None:
                stages.start("load_data", self._native.count_rows(None) if train else 0)
            self._native = _native.create_index(self._native, new, stages)

    def create_index(
        self,
        column: str | list[str],
        index_type: str,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: Any = None,
        pq_codebook: Any = None,
        num_sub_vectors: int | None = None,
        accelerator: Any = None,
        index_cache_size: int | None = None,
        shuffle_partition_batches: int | None = None,
        shuffle_partition_concurrency: int | None = None,
        ivf_centroids_file: str | None = None,
        precomputed_partition_dataset: str | None = None,
        storage_options: dict[str, str] | None = None,
        filter_nan: bool = True,
        train: bool = True,
        fragment_ids: list[int] | None = None,
        index_uuid: str | None = None,
        *,
        target_partition_size: int | None = None,
        streaming_sample_rate: int | None = None,
        streaming_coreset_rate: int | None = None,
        streaming_refine_passes: int | None = None,
        skip_transpose: bool = False,
        progress_callback: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Make an index over vectors, and move to the version that has it.

        Searches for the nearest vectors use it from then on, also those of pylance. Vectors are divided into
        partitions around centroids, which are found in a sample; a search looks into the partitions nearest to its
        query. Rows that are added later are compared one by one until
        [optimize_indices][pennon.optimize.DatasetOptimizer.optimize_indices] takes them in.

        Parameters
        ----------
        column
            A column of vectors: fixed-size lists of float16, float32, float64, or of uint8 for `"hamming"`; or of
            lists of such vectors, for `"cosine"`.
        index_type
            How vectors are stored, in any case: `"IVF_FLAT"`, as they are; `"IVF_PQ"`, by product quantization,
            the smallest; `"IVF_SQ"`, a byte for each element; `"IVF_HNSW_FLAT"`, `"IVF_HNSW_PQ"`,
            `"IVF_HNSW_SQ"`, with a graph in each partition.
        name
            Its name, `<column>_idx` by default.
        metric
            `"l2"`, `"cosine"`, `"dot"` or `"hamming"`: the one that searches use.
        replace
            Whether an index of that name over the same column is replaced; otherwise that is an error.
        num_partitions, target_partition_size
            How many partitions, or how many rows each of them should have: 4,096 by default, 8,192 for PQ and SQ,
            a million with graphs. A float of partitions is cut to an integer, with a warning.
        ivf_centroids, pq_codebook
            Centroids, an array of vectors, and a codebook, an array by sub-vector, code and element, that were
            found before; so parts built by several processes can be merged.
        num_sub_vectors
            Codes of a vector, for PQ; its dimension must be a multiple.
        train
            Whether the rows of this version go into it.
        index_uuid
            Its uuid, a random one by default.
        fragment_ids
            Not supported; see [create_index_uncommitted][pennon.LanceDataset.create_index_uncommitted].
        accelerator, ivf_centroids_file, precomputed_partition_dataset, streaming_sample_rate, \
        streaming_coreset_rate, streaming_refine_passes
            Not supported.
        progress_callback
            A function of an [IndexProgress][pennon.progress.IndexProgress], called at each pass of the training, as
            vectors are read, and for each partition that is written. What it raises ends the call, without an
            index.
        index_cache_size, shuffle_partition_batches, shuffle_partition_concurrency, storage_options, filter_nan, \
        skip_transpose
            Accepted, without effect.
        kwargs
            `num_bits` of a code of PQ, 8 or 4; `max_iters`, 50, and `sample_rate`, 256 rows for each centroid, of
            the search for centroids; `m`, 20, `ef_construction`, 150, and `max_level`, 7, of graphs.

        Raises
        ------
        pennon.NotFoundError
            There is no such column. It is also a `KeyError`.
        pennon.AlreadyExistsError
            The name is taken. It is also a `RuntimeError`.
        pennon.SchemaMismatchError
            The column has no vectors. It is also a `TypeError`.
        pennon.InvalidInputError
            A parameter has an invalid value, or there is none of that name.
        pennon.UnsupportedError
            There is no such kind of index.

        Examples
        --------
        >>> import pennon
        >>> from pennon.vector import vec_to_table
        >>> data = vec_to_table([[n % 7, n % 11] for n in range(500)])
        >>> table = pennon.write_dataset(data, "memory://vector-index", mode="overwrite")
        >>> table.create_index("vector", "IVF_FLAT", num_partitions=4)
        LanceDataset('memory://vector-index', version=2, rows=500)
        >>> table.to_table(columns=[], nearest={"column": "vector", "q": [3, 4], "k": 1}).to_pylist()
        [{'_distance': 0.0}]
        """
        if fragment_ids is not None:
            raise InvalidInputError(
                "fragment_ids is for create_index_uncommitted, and commit_existing_index_segments for its results"
            )
        ignore_hints(locals())
        given = {
            "num_partitions": num_partitions,
            "target_partition_size": target_partition_size,
            "num_sub_vectors": num_sub_vectors,
            "accelerator": accelerator,
            "ivf_centroids_file": ivf_centroids_file,
            "precomputed_partition_dataset": precomputed_partition_dataset,
            "streaming_sample_rate": streaming_sample_rate,
            "streaming_coreset_rate": streaming_coreset_rate,
            "streaming_refine_passes": streaming_refine_passes,
            **kwargs,
        }
        new = vector_request(
            single_column(column),
            index_type,
            name,
            metric,
            replace=replace,
            train=train,
            uuid=index_uuid,
            ivf_centroids=ivf_centroids,
            pq_codebook=pq_codebook,
            given=given,
        )
        with staged(progress_callback) as stages:
            self._native = _native.create_vector_index(self._native, new, stages)
        return self

    def create_index_uncommitted(
        self,
        column: str | list[str],
        index_type: str | IndexConfig,
        name: str | None = None,
        metric: str = "L2",
        replace: bool = False,
        num_partitions: int | None = None,
        ivf_centroids: Any = None,
        pq_codebook: Any = None,
        num_sub_vectors: int | None = None,
        accelerator: Any = None,
        index_cache_size: int | None = None,
        shuffle_partition_batches: int | None = None,
        shuffle_partition_concurrency: int | None = None,
        ivf_centroids_file: str | None = None,
        precomputed_partition_dataset: str | None = None,
        storage_options: dict[str, str] | None = None,
        filter_nan: bool = True,
        train: bool = True,
        fragment_ids: Sequence[int] | None = None,
        index_uuid: str | None = None,
        *,
        target_partition_size: int | None = None,
        streaming_sample_rate: int | None = None,
        streaming_coreset_rate: int | None = None,
        streaming_refine_passes: int | None = None,
        skip_transpose: bool = False,
        rabitq_model: Any = None,
        **kwargs: Any,
    ) -> Index:
        """Build an index over some fragments without committing it, for instance in one of many processes.

        Parameters
        ----------
        column, index_type, name, replace, train, index_uuid
            As in [create_scalar_index][pennon.LanceDataset.create_scalar_index] and
            [create_index][pennon.LanceDataset.create_index].
        fragment_ids
            The fragments.
        metric, num_partitions, ivf_centroids, pq_codebook, num_sub_vectors, target_partition_size, kwargs
            As in [create_index][pennon.LanceDataset.create_index]; without effect for other kinds than those over
            vectors, except `progress_callback`. With the same centroids, and codebook, segments can be merged
            without a look at their vectors.
        accelerator, index_cache_size, shuffle_partition_batches, shuffle_partition_concurrency, \
        ivf_centroids_file, precomputed_partition_dataset, storage_options, filter_nan, streaming_sample_rate, \
        streaming_coreset_rate, streaming_refine_passes, skip_transpose, rabitq_model
            As in [create_index][pennon.LanceDataset.create_index].

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
        ignore_hints(locals())
        single = single_column(column)
        progress_callback = kwargs.pop("progress_callback", None)
        if is_vector_kind(index_type):
            given = {
                "num_partitions": num_partitions,
                "target_partition_size": target_partition_size,
                "num_sub_vectors": num_sub_vectors,
                "accelerator": accelerator,
                "ivf_centroids_file": ivf_centroids_file,
                "precomputed_partition_dataset": precomputed_partition_dataset,
                "streaming_sample_rate": streaming_sample_rate,
                "streaming_coreset_rate": streaming_coreset_rate,
                "streaming_refine_passes": streaming_refine_passes,
                "rabitq_model": rabitq_model,
                **kwargs,
            }
            vectors = vector_request(
                single,
                index_type,
                name,
                metric,
                replace=replace,
                train=train,
                uuid=index_uuid,
                ivf_centroids=ivf_centroids,
                pq_codebook=pq_codebook,
                given=given,
            )
            with staged(progress_callback) as stages:
                parts = _native.create_vector_index_segment(self._native, vectors, list(fragment_ids), stages)
        else:
            ignore_vector_options(locals())
            ignored(**kwargs)
            new = request(single, index_type, name, replace=replace, train=train, uuid=index_uuid)
            with staged(progress_callback) as stages:
                parts = _native.create_index_segment(self._native, new, list(fragment_ids), stages)
        return index_of(parts)

    def merge_existing_index_segments(self, segments: list[Index]) -> Index:
        """Make one segment of several that are not committed; the files of those stay.

        It does not cover fragments in which values of the column were replaced since a segment was built. Merge
        before a compaction: segments of nothing but fragments that it removed are not merged, while
        [commit_existing_index_segments][pennon.LanceDataset.commit_existing_index_segments] takes them.

        Raises
        ------
        pennon.InvalidInputError
            There are none, they are of several kinds or metrics, or two of them cover the same fragment.
        pennon.UnsupportedError
            A segment cannot be read, none of them covers a fragment of this version, or their product quantization
            has several parameters.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(100)}
        >>> table = pennon.write_dataset(data, "memory://merge-segments", mode="overwrite", max_rows_per_file=50)
        >>> parts = [table.create_index_uncommitted("a", "BTREE", fragment_ids=[id]) for id in range(2)]
        >>> merged = table.merge_existing_index_segments(parts)
        >>> merged.fragment_ids
        {0, 1}
        >>> table.commit_existing_index_segments("a_idx", "a", [merged]).version
        2
        """
        return index_of(_native.merge_index_segments(self._native, entries_of(segments)))

    def commit_existing_index_segments(self, index_name: str, column: str, segments: list[Index]) -> Self:
        """Commit segments of the index of a name, and move to the new version.

        They replace segments of the same fragments; the other segments of the index are kept. They do not cover
        fragments in which values of the column were replaced since they were built: the rows of these are scanned
        until [optimize_indices][pennon.optimize.DatasetOptimizer.optimize_indices] takes them in.

        Raises
        ------
        pennon.InvalidInputError
            There are none, they are of another column or a later version, or two of them cover the same fragment.
            They and the segments that are kept are of several kinds or metrics. They cover some fragments of an old
            segment and not all. They are of another kind than the index and do not cover the whole table.
        pennon.NotFoundError
            This table or branch does not have the files of one: it was built on another.
        pennon.AlreadyExistsError
            An index over another column has the name.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": range(100)}
        >>> table = pennon.write_dataset(data, "memory://commit-segments", mode="overwrite", max_rows_per_file=50)
        >>> parts = [table.create_index_uncommitted("a", "BITMAP", fragment_ids=[id]) for id in range(2)]
        >>> _ = table.commit_existing_index_segments("by_a", "a", parts)
        >>> [(index["name"], index["fragment_ids"]) for index in table.list_indices()]
        [('by_a', Bitmap({0})), ('by_a', Bitmap({1}))]
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
        pennon.CommitConflictError
            Others made or changed an index of the name since this version. After `checkout_latest` it can be
            dropped.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://drop-index", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> table.drop_index("a_idx")
        >>> table.has_index
        False
        """
        self._native = _native.drop_index(self._native, checked_text("name", name))

    @property
    def has_index(self) -> bool:
        """Whether this version has an index.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://has-index", mode="overwrite")
        >>> table.has_index
        False
        >>> table.create_scalar_index("a", "BTREE")
        >>> table.has_index
        True
        """
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
        """The indices of this version by name, each with its segments.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://describe-indices", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> [(one.name, one.num_rows_indexed) for one in table.describe_indices()]
        [('a_idx', 3)]
        """
        return [IndexDescription._of(index) for index in _native.describe_indices(self._native)]

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """Figures about an index; see [index_stats][pennon.stats.LanceStats.index_stats].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://index-statistics", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> table.insert({"a": [4]})
        >>> figures = table.index_statistics("a_idx")
        >>> figures["num_indexed_rows"], figures["num_unindexed_rows"]
        (3, 1)
        """
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

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://prewarm-index", mode="overwrite")
        >>> table.create_scalar_index("a", "BTREE")
        >>> table.prewarm_index("a_idx")
        """
        ignored(with_position=with_position or None, index_segments=index_segments)
        _native.prewarm_index(self._native, checked_text("name", name))
