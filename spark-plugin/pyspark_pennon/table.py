"""`LanceTable`: operations on a table by its URI, with the work done by Spark tasks.

A verb that changes rows is a job of `pennon.jobs`: the driver pins a version and divides it -> tasks hand bitmaps
of rows and new files to the driver -> one commit. If another writer changed one of those rows in the meantime, the
commit is refused, and what changed is looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.administration import AdministrationMethods
from pyspark_pennon.builders import TableBuilder, Verb
from pyspark_pennon.columns.methods import ColumnMethods
from pyspark_pennon.feed.frames import read_changes
from pyspark_pennon.indices.methods import IndexMethods
from pyspark_pennon.merge.builder import MergeBuilder
from pyspark_pennon.optimize import OptimizeBuilder
from pyspark_pennon.options.source import session_storage_options
from pyspark_pennon.options.values import given_columns
from pyspark_pennon.reads.frames import read
from pyspark_pennon.references import ReferenceMethods
from pyspark_pennon.row_changes import delete_rows, take_rows, update_rows, update_rows_where
from pyspark_pennon.tasks.orphans import verb_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


class LanceTable(AdministrationMethods, ReferenceMethods, IndexMethods, ColumnMethods):
    """A Lance table seen from a Spark session; made by [forPath][pyspark_pennon.LanceTable.forPath].

    Has the URI and the storage options, no state of the table: every call reads the newest version. Names are
    those of Delta's `DeltaTable` where it has them.

    Examples
    --------
    >>> from pyspark_pennon import LanceTable, write
    >>> flights = spark.createDataFrame([(1, "AA"), (2, "UA"), (3, None)], "id long, carrier string")
    >>> done = write(flights, f"{folder}/flights.lance")
    >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
    >>> table.delete("carrier IS NULL").first().num_deleted_rows
    1
    >>> table.toDF().orderBy("id").show()
    +---+-------+
    | id|carrier|
    +---+-------+
    |  1|     AA|
    |  2|     UA|
    +---+-------+
    """

    @classmethod
    def forPath(  # noqa: N802 - as Delta spells it
        cls, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None = None
    ) -> LanceTable:
        """The table at `uri`.

        Parameters
        ----------
        spark
            The session.
        uri
            Where the table is.
        storage_options
            Keys and values for the object store, on top of the session's settings `spark.pennon.storage.<key>`.

        Raises
        ------
        pennon.NotFoundError
            There is no table at `uri`.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> LanceTable.forPath(spark, f"{folder}/flights.lance").count()
        3
        >>> LanceTable.forPath(spark, f"{folder}/trains.lance")
        Traceback (most recent call last):
            ...
        pennon.errors.NotFoundError: ...trains.lance...
        """
        table = cls(spark, uri, storage_options)
        table._target.open()
        return table

    @staticmethod
    def isLanceTable(  # noqa: N802 - as Delta spells it
        spark: SparkSession,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
    ) -> bool:
        """Whether there is a Lance table at `uri`; parameters as of `forPath`.

        Raises
        ------
        pennon.PennonError
            The store gave another answer than that there is none, or the table is damaged.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> LanceTable.isLanceTable(spark, f"{folder}/flights.lance")
        True
        >>> LanceTable.isLanceTable(spark, f"{folder}/trains.lance")
        False
        """
        return tables.find_table(uri, session_storage_options(spark, storage_options)) is not None

    @classmethod
    def create(cls, spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> TableBuilder:
        """A builder of a table that must not exist: see [TableBuilder][pyspark_pennon.builders.TableBuilder].

        `storage_options` as of `forPath`. Nothing is written before `execute`.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> builder = LanceTable.create(spark).location(f"{folder}/flights.lance").addColumn("id", "BIGINT")
        >>> builder.property("owner", "flights").execute().properties()
        {'owner': 'flights'}
        >>> builder.execute()
        Traceback (most recent call last):
            ...
        pennon.errors.AlreadyExistsError: ...
        """
        return TableBuilder(spark, cls, storage_options, Verb.CREATE)

    @classmethod
    def createIfNotExists(  # noqa: N802
        cls, spark: SparkSession, storage_options: Mapping[str, str] | None = None
    ) -> TableBuilder:
        """A builder of a table that is left as it is if it exists.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> builder = LanceTable.createIfNotExists(spark).location(f"{folder}/flights.lance")
        >>> table = builder.addColumns("id bigint").execute()
        >>> table.version, table.count()
        (1, 3)
        """
        return TableBuilder(spark, cls, storage_options, Verb.CREATE_IF_NOT_EXISTS)

    @classmethod
    def replace(cls, spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> TableBuilder:
        """A builder of new columns and properties, without rows, for a table that must exist; keeps its
        versions.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> builder = LanceTable.replace(spark).location(f"{folder}/flights.lance")
        >>> table = builder.addColumns("id bigint, carrier string").execute()
        >>> table.toDF().columns, table.count()
        (['id', 'carrier'], 0)
        >>> table.toDF(version=1).count()
        3
        """
        return TableBuilder(spark, cls, storage_options, Verb.REPLACE)

    @classmethod
    def createOrReplace(  # noqa: N802
        cls, spark: SparkSession, storage_options: Mapping[str, str] | None = None
    ) -> TableBuilder:
        """A builder of a table that is replaced, as by `replace`, if it exists.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> builder = LanceTable.createOrReplace(spark).location(f"{folder}/flights.lance").addColumns("id bigint")
        >>> builder.execute().version
        1
        >>> builder.execute().version
        2
        """
        return TableBuilder(spark, cls, storage_options, Verb.CREATE_OR_REPLACE)

    def alias(self, name: str) -> LanceTable:
        """The same table under a name that conditions can use, and that its frame has.

        Conditions of `delete` and `update` can use it as well as that of a `merge`.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance").alias("t")
        >>> merge = table.merge(spark.range(2, 5).alias("s"), "t.id = s.id")
        >>> merge.whenNotMatchedInsertAll().execute().first().num_inserted_rows
        2
        """
        named = copy(self)
        named._target = replace(self._target, alias=name)
        return named

    def toDF(  # noqa: N802 - as Delta spells it
        self,
        *,
        version: int | str | None = None,
        tag: str | None = None,
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> DataFrame:
        """The rows of a version as a frame, which has them whatever is written meanwhile.

        Parameters
        ----------
        version, tag
            A version by number or tag; by default the one that is the newest when this is called.
        columns
            Columns to read, in this order; all by default.
        **options
            The others of [read][pyspark_pennon.read], such as `where`, `branch`, `timestamp` or `with_row_id`.

        Raises
        ------
        pennon.NotFoundError
            There is no such version or tag.
        pennon.InvalidInputError
            A column is unknown, or options contradict each other.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> deleted = table.delete("id = 1")
        >>> table.toDF(with_row_id=True).orderBy("id").collect()
        [Row(id=0, _rowid=0), Row(id=2, _rowid=2)]
        >>> table.toDF(version=1, where="id > 0").count()
        2
        """
        frame = read(
            self._target.spark,
            self.uri,
            version=version,
            tag=tag,
            columns=columns,
            storage_options=self._target.storage_options,
            **options,
        )
        return self._target.named(frame)

    def changes(
        self,
        startingVersion: int | None = None,  # noqa: N803 - as Delta spells its options
        endingVersion: int | None = None,  # noqa: N803
        *,
        startingTimestamp: datetime | str | None = None,  # noqa: N803
        endingTimestamp: datetime | str | None = None,  # noqa: N803
        columns: Sequence[str] | None = None,
        net: bool = False,
        dropUnchanged: bool = False,  # noqa: N803
    ) -> DataFrame:
        """What happened to rows in a range of versions; see [pyspark_pennon.read_changes][].

        Both ends are included and each version has its own changes by default, as in Delta;
        [LanceDataset.changes][pennon.LanceDataset.changes] excludes its begin and compares the two ends by default.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> deleted = table.delete("id = 1")
        >>> table.changes(2).select("id", "_change_type", "_commit_version").show()
        +---+------------+---------------+
        | id|_change_type|_commit_version|
        +---+------------+---------------+
        |  1|      delete|              2|
        +---+------------+---------------+
        """
        return read_changes(
            self._target.spark,
            self.uri,
            starting_version=startingVersion,
            ending_version=endingVersion,
            starting_timestamp=startingTimestamp,
            ending_timestamp=endingTimestamp,
            columns=columns,
            net=net,
            drop_unchanged=dropUnchanged,
            storage_options=self._target.storage_options,
        )

    def optimize(self) -> OptimizeBuilder:
        """A compaction: `optimize().where(...).executeCompaction()`.

        See [OptimizeBuilder][pyspark_pennon.optimize.OptimizeBuilder].

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(0, 100, 1, 4), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> metrics = table.optimize().executeCompaction().first().metrics
        >>> metrics.numFragmentsRemoved, metrics.numFragmentsAdded
        (4, 1)
        """
        return OptimizeBuilder(self._target)

    def delete(self, condition: Column | str | None = None) -> DataFrame:
        """Delete the rows for which a condition is true, in one commit; all rows without one.

        A scan finds the rows if the condition has comparisons with constants alone: on the driver if at most 64 MiB
        are read for that, else in tasks. Other conditions Spark evaluates, tasks hand the addresses of the rows to
        the table, and a part of the condition skips rows while scanning.

        Parameters
        ----------
        condition
            A `Column`, or text in Spark's SQL, over the columns of the table and `_rowid`. Rows for which it is
            null are kept.

        Returns
        -------
        DataFrame
            One row: `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`, `num_inserted_rows`. If no row
            matches nothing is committed.

        Raises
        ------
        pyspark.errors.AnalysisException
            The condition is not valid.
        pennon.UnsupportedError
            The condition is nested too deeply for Spark.
        pennon.CommitConflictError
            Another writer changed matching rows during each of ten attempts, or overwrote or restored the table:
            then it is not tried again.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> flights = spark.createDataFrame([(1, "OO"), (2, "UA"), (3, None)], "id long, carrier string")
        >>> done = write(flights, f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.delete("lower(carrier) = 'oo'").first()["num_deleted_rows"]
        1
        >>> table.delete().first()["num_deleted_rows"]
        2
        """
        with verb_errors(self.uri):
            return delete_rows(self._target, condition)

    def update(
        self,
        condition: Column | str | Mapping[str, Column | str] | None = None,
        set: Mapping[str, Column | str] | None = None,
    ) -> DataFrame:
        """Give columns of the rows for which a condition is true new values, in one commit.

        Rows keep their ids. Whole rows are written to new files, by tasks that read only what the condition and
        the values name, and of rows that match the rest.

        Parameters
        ----------
        condition
            As in `delete`; may be left out.
        set
            A `Column`, or an expression in Spark's SQL as text, for each column; they see the row as it was.
            Literals are `functions.lit("text")`, or quoted in SQL.

        Returns
        -------
        DataFrame
            As of `delete`.

        Raises
        ------
        pennon.InvalidInputError
            No column gets a value, the table has no such column, or a value needs or makes other rows (an
            aggregate, a window, `explode`). `SchemaMismatchError`: a value does not fit.
        pyspark.errors.AnalysisException
            The condition or a value is not valid.
        pennon.UnsupportedError
            The condition or a value is nested too deeply for Spark.
        pennon.CommitConflictError
            Another writer changed matching rows during each of ten attempts, or overwrote or restored the table:
            then it is not tried again.

        Examples
        --------
        >>> from pyspark.sql import functions as fn
        >>> from pyspark_pennon import LanceTable, write
        >>> flights = spark.createDataFrame([(1, "OO", 5), (2, "UA", 9)], "id long, carrier string, delay int")
        >>> done = write(flights, f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.update("carrier = 'OO'", {"delay": "delay + 1"}).first()["num_updated_rows"]
        1
        >>> table.update({"carrier": fn.lower("carrier")}).first()["num_updated_rows"]
        2
        >>> table.toDF().orderBy("id").collect()
        [Row(id=1, carrier='oo', delay=6), Row(id=2, carrier='ua', delay=9)]
        """
        if set is None and isinstance(condition, Mapping):
            condition, set = None, condition
        with verb_errors(self.uri):
            return update_rows_where(self._target, condition, {} if set is None else set)  # type: ignore[arg-type]

    updateExpr = update  # noqa: N815 - Delta's name for text values
    """The same: text is an expression in any case."""

    def merge(self, source: DataFrame, condition: Column | str) -> MergeBuilder:
        """Merge the rows of a frame into the table: see [MergeBuilder][pyspark_pennon.merge.builder.MergeBuilder].

        Parameters
        ----------
        source
            The rows; with an alias if its columns are named like the table's.
        condition
            When a row of the source matches a row of the table, such as `"t.id = s.id"`.

        Raises
        ------
        pennon.errors.InvalidTypeError
            The source is not a frame of Spark, but one of pandas, for example. Errors in the condition and in
            clauses are raised by [execute][pyspark_pennon.merge.builder.MergeBuilder.execute].

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.createDataFrame([(1, "AA"), (2, "UA")], ["id", "carrier"]), f"{folder}/t.lance")
        >>> late = spark.createDataFrame([(2, "DL"), (3, "OO")], "id long, carrier string")
        >>> merge = LanceTable.forPath(spark, f"{folder}/t.lance").alias("t").merge(late.alias("s"), "t.id = s.id")
        >>> merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().first().asDict()
        {'num_affected_rows': 2, 'num_updated_rows': 1, 'num_deleted_rows': 0, 'num_inserted_rows': 1}
        """
        return MergeBuilder(self._target, source, condition)

    def takeRows(self, ids: DataFrame, columns: Sequence[str] | None = None) -> DataFrame:  # noqa: N802
        """The rows with the ids of a frame, which has the column `_rowid`; ids that no row has are left out.

        Read by id, without a scan or a join, from the newest version when this is called. Each row has its `_rowid`
        as its last column. In a table without stable row ids, ids are addresses, and one that is in no fragment is
        an error.

        Parameters
        ----------
        ids
            A frame with the column `_rowid` (long) alone.
        columns
            Columns of the table, in this order; all by default.

        Raises
        ------
        pennon.InvalidInputError
            The frame has other columns, or the table lacks one of `columns`. Actions on the result raise Spark's
            own errors, of which [typed_error][pyspark_pennon.typed_error] makes this one for an address in no
            fragment and for a null, and a `pennon.errors.PositionError` for a negative id.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> flights = spark.createDataFrame([(1, "AA"), (2, "UA")], "id long, carrier string").coalesce(1)
        >>> done = write(flights, f"{folder}/flights.lance")
        >>> ids = spark.createDataFrame([(1,), (99,)], "_rowid long")
        >>> LanceTable.forPath(spark, f"{folder}/flights.lance").takeRows(ids).collect()
        [Row(id=2, carrier='UA', _rowid=1)]
        """
        return take_rows(self._target, ids, given_columns(columns))

    def updateRows(self, data: DataFrame) -> DataFrame:  # noqa: N802
        """Give the rows with the ids of a frame new values, in one commit.

        Parameters
        ----------
        data
            A column `_rowid` and the columns that get new values; cast to the types of the table.

        Returns
        -------
        DataFrame
            As of `delete`.

        Raises
        ------
        pennon.NotFoundError
            No row has some of the ids.
        pennon.InvalidInputError
            An id occurs twice, or the table has no such column.

        Examples
        --------
        >>> from pyspark.sql import functions as fn
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.createDataFrame([(1, "AA"), (2, "UA")], ["id", "carrier"]), f"{folder}/t.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/t.lance")
        >>> found = table.toDF(with_row_id=True, where="carrier = 'UA'")
        >>> table.updateRows(found.select("_rowid", fn.lit("DL").alias("carrier"))).first().num_updated_rows
        1
        >>> table.toDF().orderBy("id").collect()
        [Row(id=1, carrier='AA'), Row(id=2, carrier='DL')]
        """
        with verb_errors(self.uri):
            return update_rows(self._target, data)
