"""`LanceTable.merge`: rows of a source frame are merged with those of a table, in one commit.

| step | what is shuffled |
|---|---|
| the source is numbered and written to the executors | nothing |
| it is joined with the columns of the table that the condition names | keys, addresses and numbers of rows |
| rows of the source go to the tasks that own the addresses that match, inserted ones anywhere | the source |
| these tasks read what clauses name of the table, and the clauses are evaluated | nothing |

Where the source is small enough, Spark broadcasts it instead. The condition, the conditions of clauses and the
values are Spark's. A task writes whole rows, reads the columns that are not assigned from the table by address, and
keeps the ids of rows. The keys of inserted rows are named in the transaction: of two merges that insert one key at
a time, one is done again on the newest version, and joins only fragments that are new or have changed. So is a
merge whose keys are in rows that others appended meanwhile; where rows match by a cast of a key or by `<=>`, it is
done again after every append.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pennon.errors import invalid, wrong_type
from pyspark_pennon.merge.attempt import NUMBER, Matches, MergeAttempt
from pyspark_pennon.merge.clauses import Clause, Clauses
from pyspark_pennon.merge.plan import is_deterministic
from pyspark_pennon.row_changes import assigned_columns, check_value
from pyspark_pennon.spark_api import check_condition, is_frame, spark_context
from pyspark_pennon.target import Target
from pyspark_pennon.tasks.executor import described
from pyspark_pennon.tasks.orphans import verb_errors
from pyspark_pennon.tasks.retries import retried
from pyspark_pennon.types.column_names import assigned_name, is_case_sensitive, stored_names
from pyspark_pennon.types.schema import quoted
from pyspark_pennon.types.storable import frame_schema, new_columns, stored_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pyspark_pennon.streams.sink import StreamBatch

MAX_LOSSES = 4
"""The most times that the source is numbered; the loss of an executor that has rows of it makes the next one."""

_LOST_SOURCE = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"

_log = logging.getLogger(__name__)


class MergeBuilder:
    """Clauses of a merge, tried in their order; made by [LanceTable.merge][pyspark_pennon.LanceTable.merge],
    run by `execute`.

    Conditions are Columns or text in Spark's SQL, over the columns of both sides, by their aliases where names are
    the same. Text values are Spark's SQL, too. As in Delta each method gives another builder, and leaves the one
    that it is called on as it is.

    Examples
    --------
    >>> from pyspark_pennon import LanceTable, write
    >>> done = write(spark.createDataFrame([(1, "AA"), (2, "UA")], "id long, carrier string"), f"{folder}/t.lance")
    >>> table = LanceTable.forPath(spark, f"{folder}/t.lance").alias("t")
    >>> late = spark.createDataFrame([(1, None), (2, "DL"), (3, "OO")], "id long, carrier string").alias("s")
    >>> merge = table.merge(late, "t.id = s.id").whenMatchedDelete("s.carrier IS NULL")
    >>> metrics = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().first()
    >>> metrics.num_deleted_rows, metrics.num_updated_rows, metrics.num_inserted_rows
    (1, 1, 1)
    >>> table.toDF().orderBy("id").collect()
    [Row(id=2, carrier='DL'), Row(id=3, carrier='OO')]
    """

    def __init__(
        self, target: Target, source: DataFrame, condition: Column | str, batch: StreamBatch | None = None
    ) -> None:
        if not is_frame(source):
            raise wrong_type(f"The source of a merge is a {type(source).__name__}: expected a DataFrame of Spark")
        check_condition(condition, "The condition of a merge")
        self._target = target
        self._batch = batch
        self._source = source
        self._condition = condition
        self._clauses = Clauses()
        self._evolves = False

    def whenMatchedUpdate(  # noqa: N802 - as Delta spells it
        self, condition: Column | str | None = None, set: Mapping[str, Column | str] | None = None
    ) -> MergeBuilder:
        """Give columns of a matched row new values.

        Parameters
        ----------
        condition
            When the clause applies, over the columns of both sides; always by default.
        set
            A `Column`, or an expression in Spark's SQL as text, for each column; they see both rows as they were.

        Raises
        ------
        pennon.InvalidInputError
            No column gets a value, or the clause of this kind before it has no condition.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.createDataFrame([(1, 5), (2, 9)], "id long, delay int"), f"{folder}/t.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/t.lance").alias("t")
        >>> late = spark.createDataFrame([(1, 3), (2, 4)], "id long, delay int").alias("s")
        >>> merge = table.merge(late, "t.id = s.id").whenMatchedUpdate("t.delay > 5", {"delay": "s.delay"})
        >>> merge.execute().first().num_updated_rows
        1
        >>> table.toDF().orderBy("id").collect()
        [Row(id=1, delay=5), Row(id=2, delay=4)]
        """
        return self._with_matched(Clause("update", condition, _given(set, "set", condition)))

    def whenMatchedUpdateAll(self, condition: Column | str | None = None) -> MergeBuilder:  # noqa: N802
        """Give all columns that the source has the values of the source; others keep theirs.

        Parameters
        ----------
        condition
            When the clause applies, over the columns of both sides; always by default.

        Raises
        ------
        pennon.InvalidInputError
            The clause of this kind before it has no condition, so that this one never applies.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.createDataFrame([(1, "AA", 5)], ["id", "carrier", "delay"]), f"{folder}/t.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/t.lance").alias("t")
        >>> late = spark.createDataFrame([(1, 7), (2, 4)], "id long, delay int").alias("s")
        >>> merge = table.merge(late, "t.id = s.id").whenMatchedUpdateAll("s.delay > t.delay")
        >>> merge.execute().first().num_updated_rows
        1
        >>> table.toDF().collect()
        [Row(id=1, carrier='AA', delay=7)]
        """
        return self._with_matched(Clause("update", condition))

    def whenMatchedDelete(self, condition: Column | str | None = None) -> MergeBuilder:  # noqa: N802
        """Delete a matched row.

        Parameters
        ----------
        condition
            When the clause applies, over the columns of both sides; always by default.

        Raises
        ------
        pennon.InvalidInputError
            The clause of this kind before it has no condition, so that this one never applies.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(4), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance").alias("t")
        >>> merge = table.merge(spark.range(2, 9).alias("s"), "t.id = s.id")
        >>> merge.whenMatchedDelete("t.id > 2").execute().first().num_deleted_rows
        1
        """
        return self._with_matched(Clause("delete", condition))

    def whenNotMatchedInsert(  # noqa: N802
        self, condition: Column | str | None = None, values: Mapping[str, Column | str] | None = None
    ) -> MergeBuilder:
        """Insert a row of the source that matches nothing.

        Parameters
        ----------
        condition
            Which of these rows, over the columns of the source; all by default.
        values
            A `Column`, or an expression in Spark's SQL as text, for each column; columns without one are null.

        Raises
        ------
        pennon.InvalidInputError
            No column gets a value, or the clause of this kind before it has no condition.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.createDataFrame([(1, "AA", 5)], ["id", "carrier", "delay"]), f"{folder}/t.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/t.lance").alias("t")
        >>> late = spark.createDataFrame([(1, "UA"), (2, "DL"), (3, None)], "id long, carrier string").alias("s")
        >>> values = {"id": "s.id", "carrier": "lower(s.carrier)"}
        >>> merge = table.merge(late, "t.id = s.id").whenNotMatchedInsert("s.carrier IS NOT NULL", values)
        >>> merge.execute().first().num_inserted_rows
        1
        >>> table.toDF(where="id > 1").collect()
        [Row(id=2, carrier='dl', delay=None)]
        """
        clause = Clause("insert", condition, _given(values, "values", condition))
        return self._with_insert(clause)

    def whenNotMatchedInsertAll(self, condition: Column | str | None = None) -> MergeBuilder:  # noqa: N802
        """Insert a row of the source that matches nothing as it is; columns that it lacks are null.

        Parameters
        ----------
        condition
            Which of these rows, over the columns of the source; all by default.

        Raises
        ------
        pennon.InvalidInputError
            The clause of this kind before it has no condition, so that this one never applies.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance").alias("t")
        >>> merge = table.merge(spark.range(2, 9).alias("s"), "t.id = s.id")
        >>> merge.whenNotMatchedInsertAll("s.id < 8").execute().first().num_inserted_rows
        5
        """
        return self._with_insert(Clause("insert", condition))

    def whenNotMatchedBySourceUpdate(  # noqa: N802
        self, condition: Column | str | None = None, set: Mapping[str, Column | str] | None = None
    ) -> MergeBuilder:
        """Give columns of a row that no row of the source matches new values.

        Parameters
        ----------
        condition
            Which of these rows, over the columns of the table; all by default.
        set
            A `Column`, or an expression in Spark's SQL as text, for each column; they see the row as it was.

        Raises
        ------
        pennon.InvalidInputError
            No column gets a value, or the clause of this kind before it has no condition.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.createDataFrame([(1, "on"), (2, "on")], ["id", "state"]), f"{folder}/t.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/t.lance").alias("t")
        >>> merge = table.merge(spark.range(2, 9).alias("s"), "t.id = s.id")
        >>> merge.whenNotMatchedBySourceUpdate(set={"state": "'off'"}).execute().first().num_updated_rows
        1
        >>> table.toDF().orderBy("id").collect()
        [Row(id=1, state='off'), Row(id=2, state='on')]
        """
        clause = Clause("update", condition, _given(set, "set", condition))
        return self._with_by_source(clause)

    def whenNotMatchedBySourceDelete(self, condition: Column | str | None = None) -> MergeBuilder:  # noqa: N802
        """Delete a row that no row of the source matches.

        Parameters
        ----------
        condition
            Which of these rows, over the columns of the table; all by default.

        Raises
        ------
        pennon.InvalidInputError
            The clause of this kind before it has no condition, so that this one never applies.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(4), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance").alias("t")
        >>> merge = table.merge(spark.range(2, 9).alias("s"), "t.id = s.id")
        >>> merge.whenNotMatchedBySourceDelete("t.id > 0").execute().first().num_deleted_rows
        1
        """
        return self._with_by_source(Clause("delete", condition))

    def withSchemaEvolution(self) -> MergeBuilder:  # noqa: N802
        """Add columns of the source that the table lacks, in the commit of the merge.

        `whenMatchedUpdateAll` and `whenNotMatchedInsertAll` add all of them, other clauses those to which they give
        values. A merge that changes nothing adds none; Delta adds them. Conditions and values can name the columns
        that the table has.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(1, 3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance").alias("t")
        >>> late = spark.createDataFrame([(2, 4), (3, 6)], "id long, delay int").alias("s")
        >>> merge = table.merge(late, "t.id = s.id").withSchemaEvolution()
        >>> done = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        >>> table.toDF().orderBy("id").collect()
        [Row(id=1, delay=None), Row(id=2, delay=4), Row(id=3, delay=6)]
        """
        builder = copy(self)
        builder._evolves = True
        return builder

    def execute(self) -> DataFrame:
        """Run the merge, in one commit, or in none if nothing changes.

        Returns
        -------
        DataFrame
            One row: `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`, `num_inserted_rows`. A row counts
            when a clause applied to it, changed or not.

        Raises
        ------
        pennon.InvalidInputError
            There is no clause, the source is not deterministic (which a session of Spark Connect does not tell),
            the condition names no column of the table or compares one of the source with itself (nor this), a
            clause names an unknown column, one of its values or its condition needs or makes other rows (an
            aggregate, a window, `explode`), or several rows of the source match one row that a clause changes; the
            message has the key.
        pennon.SchemaMismatchError
            A value that a clause gives a row, or the type of one, does not fit the column.
        pyspark.errors.AnalysisException
            A condition or value is not valid.
        pennon.UnsupportedError
            A condition or value is nested too deeply for Spark.
        pennon.CommitConflictError
            Other writers changed matched rows, or inserted the same keys, during each of ten attempts, or one
            overwrote or restored the table: then it is not tried again.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.range(3), f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance").alias("t")
        >>> merge = table.merge(spark.range(2, 5).alias("s"), "t.id = s.id")
        >>> merge.whenMatchedDelete().whenNotMatchedInsertAll().execute().first().asDict()
        {'num_affected_rows': 3, 'num_updated_rows': 0, 'num_deleted_rows': 1, 'num_inserted_rows': 2}
        """
        if not any(self._clauses):
            raise invalid(
                "The merge has no clause: expected at least one when...() before execute(), on the builder that it "
                "gives"
            )
        if not is_deterministic(self._source):
            raise invalid(
                "The source of the merge is not deterministic, and is read more than once: give it to the merge as "
                "source.localCheckpoint(), or write it to a table first"
            )
        with described(self._target.spark, f"merge into {self._target.uri}"), verb_errors(self._target.uri):
            handled = sys.exc_info()[1]
            try:
                return self._with_source(MAX_LOSSES)
            except Exception as error:
                if spark_context(self._target.spark) is None:
                    _free_frames(error, handled)
                raise

    def _with_source(self, attempts: int) -> DataFrame:
        """The merge, with the source read and numbered again where an executor is lost with its part of it."""
        found: list[Matches] = []
        try:
            source = self._numbered()
            return retried(lambda: self._attempt(source, found), f"the merge into {self._target.uri}")
        except Exception as error:
            # Before the commit: after it nothing reads the source.
            if attempts == 1 or _LOST_SOURCE not in f"{error}{error.__cause__ or ''}":
                raise
            _log.info("the merge into %s is done again: an executor with source rows is lost", self._target.uri)
        finally:
            for matches in found:
                matches.pairs.unpersist()
        return self._with_source(attempts - 1)

    def _with_matched(self, clause: Clause) -> MergeBuilder:
        matched = _extended(self._clauses.matched, clause, "whenMatched")
        return self._with(replace(self._clauses, matched=matched))

    def _with_insert(self, clause: Clause) -> MergeBuilder:
        inserts = _extended(self._clauses.inserts, clause, "whenNotMatched")
        return self._with(replace(self._clauses, inserts=inserts))

    def _with_by_source(self, clause: Clause) -> MergeBuilder:
        by_source = _extended(self._clauses.by_source, clause, "whenNotMatchedBySource")
        return self._with(replace(self._clauses, by_source=by_source))

    def _with(self, clauses: Clauses) -> MergeBuilder:
        builder = copy(self)
        builder._clauses = clauses
        return builder

    def _numbered(self) -> DataFrame:
        from pyspark.sql import functions as fn

        reserved = [name for name in self._source.columns if name.startswith("_pennon_")]
        if reserved:
            raise invalid(f"The source has a column '{reserved[0]}', a name that the merge uses for itself")
        # Not persisted: a lost block would be computed again, perhaps with other numbers.
        return self._source.withColumn(NUMBER, fn.monotonically_increasing_id()).localCheckpoint()

    def _attempt(self, source: DataFrame, found: list[Matches]) -> DataFrame:
        target = self._target
        table = target.open()
        if self._batch is not None and self._batch.is_committed(table):
            _log.info("%s is in %s already", self._batch, target.uri)
            return target.metrics()
        new = self._new_fields(table.schema) if self._evolves or self._batch is not None else []
        if new and not self._evolves:
            raise invalid(
                f"The batch has the column '{new[0].name}', which {target.uri} lacks: set merge_schema to add it, "
                "or leave it out of the stream"
            )
        clauses = self._completed(source, pa.schema([*table.schema, *new]))
        return MergeAttempt(target, source, table, self._condition, clauses, self._batch, new).run(found)

    def _new_fields(self, stored: pa.Schema) -> list[pa.Field]:
        """The columns of the source that the table lacks and to which a clause gives values."""
        is_sensitive = is_case_sensitive(self._target.spark)
        data = stored_columns(self._source.schema, drop_system_columns=True)
        clauses = [clause for clause in self._clauses if clause.action != "delete"]
        if all(clause.values is not None for clause in clauses):
            keys = {key for clause in clauses for key in clause.values or ()}
            alias = self._target.alias
            given = {assigned_name(data.names, str(key), alias, is_sensitive=is_sensitive) for key in keys}
            data = StructType([column for column in data.fields if column.name in given])
        unknown = new_columns(stored, data, is_sensitive=is_sensitive)
        return list(frame_schema(StructType(unknown)))

    def _completed(self, source: DataFrame, columns: pa.Schema) -> Clauses:
        """The clauses with the values of those that take all columns."""
        matched, inserts, by_source = (
            tuple(self._complete(clause, columns, source) for clause in clauses)
            for clauses in (self._clauses.matched, self._clauses.inserts, self._clauses.by_source)
        )
        return Clauses(matched, inserts, by_source)

    def _complete(self, clause: Clause, columns: pa.Schema, source: DataFrame) -> Clause:
        if clause.action == "delete":
            return clause
        values = clause.values
        if values is None:
            # A name that occurs twice is an error.
            given = stored_columns(self._source.schema, drop_system_columns=True).names
            names = stored_names(columns.names, given, is_sensitive=is_case_sensitive(self._target.spark))
            repeated = [name for at, name in enumerate(names) if name in names[:at]]
            if repeated:
                raise invalid(f"Two columns of the source are '{repeated[0]}', and differ by case only: drop one")
            pairs = zip(names, given, strict=True)
            values = {name: source[quoted(own)] for name, own in pairs if name in columns.names}
            unknown = [name for name in names if name not in values and not self._evolves]
            if unknown:
                raise invalid(
                    f"The source has the column '{unknown[0]}', which the table lacks: name the columns in the "
                    "clause, drop it, or use withSchemaEvolution()"
                )
        return Clause(clause.action, clause.condition, assigned_columns(columns, values, self._target))


def _free_frames(error: BaseException, handled: BaseException | None) -> None:
    """Frees the frames that an error holds by its traceback, in this thread; not those of one that is handled.

    In Spark Connect the finalizer of a checkpoint asks the server to drop it. If the garbage collector calls it
    while gRPC starts a thread for another request, both wait for ever.
    """
    chain: BaseException | None = error
    while chain is not None and chain is not handled:
        traceback.clear_frames(chain.__traceback__)
        chain = chain.__cause__ or chain.__context__


def _extended(clauses: tuple[Clause, ...], clause: Clause, name: str) -> tuple[Clause, ...]:
    """The clauses of a kind, which errors call by the name, with one more."""
    if clause.condition is not None:
        check_condition(clause.condition, f"The condition of a {name} clause")
    if clauses and clauses[-1].condition is None:
        raise invalid(f"Only the last {name} clause may have no condition: the one before it has none")
    return (*clauses, clause)


def _given(values: Mapping[str, Column | str] | None, name: str, condition: object) -> Mapping[str, Column | str]:
    if values is None and isinstance(condition, Mapping):
        raise wrong_type(f"The condition of a clause is a dict: expected {name}= before it, as the second argument")
    if values is not None and not isinstance(values, Mapping):
        raise wrong_type(f"The {name} of a clause is {values!r}: expected a dict of columns and values")
    if not values:
        raise invalid(f"The clause has no {name}: expected a dict of columns and values")
    for column, value in values.items():
        check_value(column, value)
    return dict(values)
