"""Indices, built by tasks, each a segment over some fragments; the driver commits them together.

What an index over vectors is built with, its centroids and codebook, is found on the driver once for all tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark_pennon.handle import TableHandle
from pyspark_pennon.indices import care as index_care
from pyspark_pennon.indices.build import IndexBuild
from pyspark_pennon.options.source import ReadOptions
from pyspark_pennon.tasks.orphans import verb_errors
from pyspark_pennon.tasks.retries import retried
from pyspark_pennon.types.column_names import is_case_sensitive, stored_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INDICES = (
    "name string, type string, columns array<string>, segments int, indexed_fragments int, indexed_rows long, "
    "unindexed_fragments int, unindexed_rows long, size_bytes long"
)


class IndexMethods(TableHandle):
    """The methods of `LanceTable` that are about indices."""

    def createIndex(  # noqa: N802 - as the other verbs are spelled
        self,
        column: str,
        index_type: str = "BTREE",
        name: str | None = None,
        *,
        replace: bool = True,
        parameters: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Make an index over the values of a column, or over vectors.

        Tasks build it over some fragments each, balanced by rows; it is committed at once. Filters of the wheel and
        of pylance are answered by it from then on, and `filter_sql=` of a read; searches for the nearest vectors
        use one over vectors.

        Parameters
        ----------
        column
            A column, or the path of a nested field.
        index_type
            `"BTREE"`, `"BITMAP"`, `"ZONEMAP"`, `"BLOOMFILTER"` or, for lists, `"LABEL_LIST"`; for vectors
            `"IVF_FLAT"`, `"IVF_PQ"`, `"IVF_SQ"` and with graphs `"IVF_HNSW_FLAT"`, `"IVF_HNSW_PQ"`,
            `"IVF_HNSW_SQ"`.
        name
            Its name, `<column>_idx` by default.
        replace
            Whether an index of that name over the same column is replaced; otherwise that is an error.
        parameters
            Those of the kind, as `{"zone_size": 4096}` of a B-tree, or
            `{"metric": "cosine", "num_partitions": 256, "num_sub_vectors": 48}` of one over vectors.
        progress
            Whether a line on standard error shows what is done, as in `executeCompaction`.

        Raises
        ------
        pennon.NotFoundError
            There is no such table or column.
        pennon.AlreadyExistsError
            The name is taken.
        pennon.SchemaMismatchError, pennon.UnsupportedError
            The kind cannot have values of this type, or cannot be made.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, read, write
        >>> done = write(spark.range(1000), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.createIndex("id", parameters={"zone_size": 256})
        >>> read(spark, table.uri, filter_sql="id = 7").count()
        1
        >>> table.indices().select("name", "type", "indexed_rows").collect()
        [Row(name='id_idx', type='BTree', indexed_rows=1000)]
        """
        from pennon.indices import IndexConfig

        is_vector = index_type.upper().startswith("IVF")
        kind: Any = index_type
        if parameters is not None and not is_vector:
            kind = IndexConfig(index_type, dict(parameters))
        names = self._target.open().schema.names
        column = stored_name(names, column, is_sensitive=is_case_sensitive(self._target.spark)) or column
        build = IndexBuild(
            self._target,
            column,
            kind,
            name=f"{column}_idx" if name is None else name,
            vectors=dict(parameters or {}) if is_vector else None,
            replaces=replace,
            progress=progress,
        )
        with verb_errors(self.uri):
            retried(build.attempt, f"the index {build.name} of {self.uri}", is_repeatable=True)

    def optimizeIndices(  # noqa: N802
        self, names: list[str] | None = None, *, retrain: bool = False, progress: bool | None = None
    ) -> None:
        """Take rows into indices that these do not cover.

        Tasks build segments over the fragments that an index does not cover, over vectors with its own centroids
        and codebook, so that the number of partitions stays; those of all indices are one commit. The segments that
        it has stay, unless its rows may have moved to these fragments: then one task merges all of them.

        The driver takes in what is too little for two tasks of 131,072 rows: into the newest segment. It also takes
        care of `IVF_SQ` and `IVF_HNSW_SQ`, and of all indices after a compaction that deferred their remapping, in
        a commit of its own.

        Parameters
        ----------
        names
            The indices; all by default.
        retrain
            Whether they are built again from all rows, with their parameters, by tasks as in `createIndex`; over
            vectors with new centroids.
        progress
            Whether a line on standard error shows what is done, as in `executeCompaction`.

        Raises
        ------
        pennon.NotFoundError
            No index has one of the names.
        pennon.CommitConflictError
            Others made, changed or dropped one of the indices during each of ten attempts.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(1000), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.createIndex("id")
        >>> done = write(spark.range(1000, 1200), table.uri, mode="append")
        >>> table.indices().first().unindexed_rows
        200
        >>> table.optimizeIndices()
        >>> table.indices().first().unindexed_rows
        0
        """
        read = ReadOptions(self.uri, self._target.storage_options)
        with verb_errors(self.uri):
            retried(
                lambda: index_care.optimize(self._target.spark, read, names, retrain=retrain, progress=progress),
                f"the care of indices of {self.uri}",
                is_repeatable=True,
            )

    def dropIndex(self, name: str) -> None:  # noqa: N802
        """Remove an index, in one commit; a vacuum removes its files with the versions that have it.

        Raises
        ------
        pennon.NotFoundError
            No index has the name.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.createIndex("id", "BITMAP", name="by_id")
        >>> table.dropIndex("by_id")
        >>> table.indices().count()
        0
        """
        self._target.open().drop_index(name)

    def indices(self) -> DataFrame:
        """The indices, and how much of the table they cover.

        Returns
        -------
        DataFrame
            A row for each index: `name`, `type`, `columns`, `segments`, `indexed_fragments`, `indexed_rows`,
            `unindexed_fragments` and `unindexed_rows`, which searches read without it until `optimizeIndices`, and
            `size_bytes` of its files.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.createIndex("id", "BITMAP")
        >>> table.indices().select("name", "type", "columns", "indexed_rows", "unindexed_rows").show()
        +------+------+-------+------------+--------------+
        |  name|  type|columns|indexed_rows|unindexed_rows|
        +------+------+-------+------------+--------------+
        |id_idx|Bitmap|   [id]|           3|             0|
        +------+------+-------+------------+--------------+
        """
        table = self._target.open()
        rows = []
        for index in table.describe_indices():
            figures = table.index_statistics(index.name)
            rows.append(
                (
                    index.name,
                    index.index_type,
                    index.field_names,
                    len(index.segments),
                    figures["num_indexed_fragments"],
                    figures["num_indexed_rows"],
                    figures["num_unindexed_fragments"],
                    figures["num_unindexed_rows"],
                    index.total_size_bytes,
                )
            )
        return self._frame(rows, _INDICES)
