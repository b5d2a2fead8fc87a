"""`LanceTable.merge`: rows of a source frame are merged with those of a table, in one commit.

| step | what is shuffled |
|---|---|
| the source is numbered and written to the executors | nothing |
| it is joined with the columns of the table that the condition names | keys, addresses and numbers of rows |
| clauses are evaluated over the source and the addresses that match | the source, columns that clauses name |
| rows go to the task that owns the fragment, inserted ones anywhere | what changes |

Where the source is small enough, Spark broadcasts it instead. The condition, the conditions of clauses and the
values are Spark's. A task writes whole rows, reads the columns that are not assigned from the table by address, and
keeps the ids of rows. The keys of inserted rows are named in the transaction: of two merges that insert one key at
a time, one is done again on the newest version, and joins only fragments that are new or have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark_pennon.errors import invalid
from pyspark_pennon.executor import run_partitions
from pyspark_pennon.frames import parallelism, table_frame
from pyspark_pennon.merge_plan import bounds_of, is_deterministic, keys_of
from pyspark_pennon.needed_columns import needed_columns
from pyspark_pennon.plans import ShippedPlan
from pyspark_pennon.retries import committed, retried
from pyspark_pennon.row_changes import (
    Target,
    as_column,
    changes_schema,
    check_columns,
    table_rows,
)
from pyspark_pennon.schema import ROW_ADDRESS, SYSTEM_COLUMNS, quoted, spark_type
from pyspark_pennon.storable import stored_columns
from pyspark_pennon.write_plan import add_missing_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from pyspark_pennon.stream_sink import StreamBatch

_NUMBER = "_pennon_number"
"""Numbers the rows of the source."""
_MATCH = "_pennon_match"
"""The number of the source's row that a row of the table matches."""
_CLAUSE = "_pennon_clause"
_OWNER = "_pennon_owner"
_TARGET = "_pennon_target"
"""The alias of the table if it was given none."""

ROWS_PER_TASK = 1 << 20
"""Changes that a task holds in memory, about."""
LEAST_ROWS_PER_TASK = 50_000
"""A task for fewer costs more than it gains, and makes small files."""

MAX_LOSSES = 4
"""The most times that the source is numbered; the loss of an executor that has rows of it makes the next one."""

_LOST_SOURCE = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Clause:
    """What becomes of rows for which a condition is true and which no clause before took."""

    action: str
    condition: Column | str | None = None
    values: Mapping[str, Column | str] | None = None
    """None: all columns that the source and the table have in common."""


@dataclass(frozen=True)
class Matches:
    """What an attempt found: addresses of a version of the table, with the numbers of the source's rows."""

    table: Any
    pairs: DataFrame


class MergeBuilder:
    """Clauses of a merge, tried in their order; made by `LanceTable.merge`, run by [execute][].

    Conditions are Columns or text in Spark's SQL, over the columns of both sides, by their aliases where names are
    the same. Text values are Spark's SQL, too.
    """

    def __init__(
        self, target: Target, source: DataFrame, condition: Column | str, batch: StreamBatch | None = None
    ) -> None:
        self._target = target
        self._batch = batch
        self._source = source
        self._condition = condition
        self._matched: list[Clause] = []
        self._inserts: list[Clause] = []
        self._by_source: list[Clause] = []
        self._evolves = False

    def whenMatchedUpdate(  # noqa: N802 - as Delta spells it
        self, condition: Column | str | None = None, set: Mapping[str, Column | str] | None = None
    ) -> MergeBuilder:
        """Give columns of a matched row new values."""
        return self._add(self._matched, "whenMatched", Clause("update", condition, _given(set, "set")))

    def whenMatchedUpdateAll(self, condition: Column | str | None = None) -> MergeBuilder:  # noqa: N802
        """Give all columns that the source has the values of the source."""
        return self._add(self._matched, "whenMatched", Clause("update", condition))

    def whenMatchedDelete(self, condition: Column | str | None = None) -> MergeBuilder:  # noqa: N802
        """Delete a matched row."""
        return self._add(self._matched, "whenMatched", Clause("delete", condition))

    def whenNotMatchedInsert(  # noqa: N802
        self, condition: Column | str | None = None, values: Mapping[str, Column | str] | None = None
    ) -> MergeBuilder:
        """Insert a row of the source that matches nothing; columns without a value are null."""
        clause = Clause("insert", condition, _given(values, "values"))
        return self._add(self._inserts, "whenNotMatched", clause)

    def whenNotMatchedInsertAll(self, condition: Column | str | None = None) -> MergeBuilder:  # noqa: N802
        """Insert a row of the source that matches nothing as it is."""
        return self._add(self._inserts, "whenNotMatched", Clause("insert", condition))

    def whenNotMatchedBySourceUpdate(  # noqa: N802
        self, condition: Column | str | None = None, set: Mapping[str, Column | str] | None = None
    ) -> MergeBuilder:
        """Give columns of a row that no row of the source matches new values."""
        clause = Clause("update", condition, _given(set, "set"))
        return self._add(self._by_source, "whenNotMatchedBySource", clause)

    def whenNotMatchedBySourceDelete(self, condition: Column | str | None = None) -> MergeBuilder:  # noqa: N802
        """Delete a row that no row of the source matches."""
        return self._add(self._by_source, "whenNotMatchedBySource", Clause("delete", condition))

    def withSchemaEvolution(self) -> MergeBuilder:  # noqa: N802
        """Add the columns of the source that the table lacks, in a commit of their own before the merge."""
        self._evolves = True
        return self

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
            There is no clause, the source is not deterministic, a clause names an unknown column, or several rows
            of the source match one row that a clause changes; the message has the key.
        pyspark.errors.AnalysisException
            A condition or value is not valid.
        pennon.CommitConflictError
            Other writers changed matched rows, or inserted the same keys, during each of ten attempts.
        """
        if not (self._matched or self._inserts or self._by_source):
            raise invalid("The merge has no clause: expected at least one when...() before execute()")
        if not is_deterministic(self._source):
            raise invalid(
                "The source of the merge is not deterministic, and is read more than once: give it to the merge as "
                "source.localCheckpoint(), or write it to a table first"
            )
        return self._with_source(MAX_LOSSES)

    def _with_source(self, attempts: int) -> DataFrame:
        """The merge, with the source read and numbered again where an executor is lost with its part of it."""
        found: list[Matches] = []
        try:
            source = self._numbered()
            return retried(lambda: self._attempt(source, found), f"the merge into {self._target.uri}")
        except Exception as error:
            # Before the commit: after it nothing reads the source.
            if attempts == 1 or _LOST_SOURCE not in str(error):
                raise
            _log.info("the merge into %s is done again: an executor with source rows is lost", self._target.uri)
        finally:
            for matches in found:
                matches.pairs.unpersist()
        return self._with_source(attempts - 1)

    def _add(self, clauses: list[Clause], name: str, clause: Clause) -> MergeBuilder:
        if clauses and clauses[-1].condition is None:
            raise invalid(f"Only the last {name} clause may have no condition: the one before it has none")
        clauses.append(clause)
        return self

    def _numbered(self) -> DataFrame:
        from pyspark.sql import functions as fn

        reserved = [name for name in self._source.columns if name.startswith("_pennon_")]
        if reserved:
            raise invalid(f"The source has a column '{reserved[0]}', a name that the merge uses for itself")
        # Not persisted: a lost block would be computed again, perhaps with other numbers.
        return self._source.withColumn(_NUMBER, fn.monotonically_increasing_id()).localCheckpoint()

    def _attempt(self, source: DataFrame, found: list[Matches]) -> DataFrame:
        target = self._target
        table = target.open()
        if self._batch is not None and self._batch.is_committed(table):
            _log.info("%s is in %s already", self._batch, target.uri)
            return target.metrics()
        if self._evolves:
            data = stored_columns(self._source.schema, drop_system_columns=True)
            from pyspark_pennon.options import WriteOptions

            options = WriteOptions(uri=target.uri, storage_options=target.storage_options)
            table = add_missing_columns(table, options, data, None)
        return _Merge(self, source, table).run(found)


class _Merge:
    """A merge with one version of the table."""

    def __init__(self, builder: MergeBuilder, source: DataFrame, table: Any) -> None:
        self._target, self._batch = builder._target, builder._batch
        self._condition = as_column(builder._condition)
        self._source, self._table = source, table
        self._alias = self._target.alias or _TARGET
        common = {name: source[name] for name in builder._source.columns if name in table.schema.names}
        self._matched = [self._complete(clause, common, builder) for clause in builder._matched]
        self._inserts = [self._complete(clause, common, builder) for clause in builder._inserts]
        self._by_source = [self._complete(clause, {}, builder) for clause in builder._by_source]
        for clauses in (self._matched, self._by_source):
            _check_types(table, [clause for clause in clauses if clause.action == "update"])
        self._everything = self._target.everything(table).alias(self._alias)
        self._updated = _names(table, [*self._matched, *self._by_source])
        self._columns = _names(table, [*self._matched, *self._by_source, *self._inserts])

    def _complete(self, clause: Clause, common: dict[str, Column], builder: MergeBuilder) -> Clause:
        if clause.action == "delete":
            return clause
        values: Mapping[str, Column | str] = common if clause.values is None else clause.values
        if clause.values is None:
            unknown = [
                name
                for name in builder._source.columns
                if name not in common and name not in SYSTEM_COLUMNS and not builder._evolves
            ]
            if unknown:
                raise invalid(
                    f"The source has the column '{unknown[0]}', which the table lacks: name the columns in the "
                    "clause, drop it, or use withSchemaEvolution()"
                )
        return Clause(clause.action, clause.condition, check_columns(self._table, values))

    def run(self, found: list[Matches]) -> DataFrame:
        """One attempt; adds its matches to those of earlier ones."""
        from pennon import jobs
        from pyspark.sql import functions as fn

        joined = self._everything.join(self._source, self._condition, "inner")
        keys = keys_of(joined, self._everything, self._source)
        counted, bounds = bounds_of(self._source, self._table, keys.bare)
        pairs = self._pairs(bounds, found[-1] if found else None).persist()
        found.append(Matches(self._table, pairs))
        changes = self._changes(pairs, counted)
        schema = changes_schema(self._table, self._columns, change_type=True)
        tasks = self._number_of_tasks(counted)
        plan = jobs.plan_change_rows(
            self._table,
            schema,
            updates=self._updated,
            keys=self._named(keys.names),
            tasks=tasks,
            storage_options=self._target.storage_options or None,
        )
        shipped = ShippedPlan.of(plan, self._target.storage_options)
        owned = changes.repartition(tasks, fn.col(_OWNER)).drop(_OWNER)
        results = self._written(owned, shipped, schema, pairs)
        if not any(result.rows for result in results):
            return self._target.metrics()
        properties = None if self._batch is None else self._batch.properties
        return self._target.counted(committed(plan, results, properties=properties))

    def _named(self, keys: list[str]) -> list[str]:
        """The keys of inserted rows that the transaction names: none unless clauses insert all of them."""
        if not self._inserts:
            return []
        stored = [key for key in keys if key in self._table.schema.names]
        inserted = _names(self._table, self._inserts)
        if stored and all(key in inserted for key in stored):
            return stored
        _log.warning(
            "a merge into %s does not insert the keys of its condition: one at the same time may insert them too",
            self._target.uri,
        )
        return []

    def _pairs(self, bounds: list[str], earlier: Matches | None) -> DataFrame:
        """Addresses of matched rows with the numbers of the source's rows, and what clauses need of the table.

        After a conflict only fragments that are new or have changed are read again.
        """
        from pyspark.sql import functions as fn

        needed = self._needed_by_clauses()
        columns = needed_columns(
            self._everything.join(self._source, self._condition, "inner").select(
                fn.col(f"{self._alias}.{ROW_ADDRESS}"), _NUMBER
            ),
            self._everything,
        )
        read = [name for name in self._everything.columns if name in {*columns, *needed, ROW_ADDRESS}]
        old = {} if earlier is None else fragments_of(earlier.table)
        new = fragments_of(self._table)
        others = [number for number, metadata in new.items() if old.get(number) != metadata]
        stored = self._frame(read, bounds, None if earlier is None else others)
        pairs = stored.join(self._source, self._condition, "inner").select(
            *(fn.col(f"{self._alias}.{quoted(name)}") for name in (*needed, ROW_ADDRESS)),
            fn.col(_NUMBER).alias(_MATCH),
        )
        if earlier is None:
            return pairs
        fragment = fn.shiftright(fn.col(ROW_ADDRESS), 32)
        gone = [number for number, metadata in old.items() if new.get(number) != metadata]
        return earlier.pairs.where(~fragment.isin(gone)).unionByName(pairs.where(fragment.isin(others)))

    def _frame(
        self, columns: list[str], predicates: list[str], fragments: Sequence[int] | None = None
    ) -> DataFrame:
        """Some columns of the version, without rows for which a predicate in Pennon's SQL is false."""
        options = self._target.options(
            version=int(self._table.version),
            columns=tuple(name for name in columns if name != ROW_ADDRESS),
            filter_sql=" AND ".join(f"({text})" for text in predicates) or None,
            with_row_address=True,
        )
        chosen = None if fragments is None else frozenset(fragments)
        return table_frame(self._target.spark, self._table, options, chosen).alias(self._alias)

    def _needed_by_clauses(self) -> list[str]:
        """The columns of the table that clauses about matched rows name."""
        if not self._matched:
            return []
        both = self._everything.crossJoin(self._source)
        evaluated = both.select(*self._evaluated(self._matched))
        return [name for name in needed_columns(evaluated, self._everything) if name != ROW_ADDRESS]

    def _changes(self, pairs: DataFrame, rows: int) -> DataFrame:
        """All changes, each with the number of its owner."""
        from pyspark.sql import functions as fn

        source = self._source
        parts = []
        address = fn.col(f"{self._alias}.{ROW_ADDRESS}")
        fragment = fn.shiftright(address, 32)
        if [(clause.action, clause.condition is None) for clause in self._matched] == [("delete", True)]:
            # Rows that several rows of the source match are deleted all the same.
            once = pairs.select(ROW_ADDRESS).distinct().alias(self._alias)
            parts.append(
                once.select(address.alias(ROW_ADDRESS), *self._evaluated(self._matched), fragment.alias(_OWNER))
            )
        elif self._matched:
            matched = source.join(pairs.alias(self._alias), fn.col(_NUMBER) == fn.col(_MATCH), "inner")
            parts.append(self._decided(matched, self._matched, address, fragment))
        if self._inserts:
            matches = pairs.select(_MATCH)
            unmatched = source.join(matches, fn.col(_NUMBER) == fn.col(_MATCH), "left_anti")
            owner = -fn.lit(1) - fn.pmod(fn.col(_NUMBER), fn.lit(self._number_of_tasks(rows)))
            nowhere = fn.lit(None).cast("long")
            parts.append(self._decided(unmatched, self._inserts, nowhere, owner))
        if self._by_source:
            evaluated = self._everything.select(ROW_ADDRESS, *self._evaluated(self._by_source))
            columns = needed_columns(evaluated, self._everything)
            found = pairs.select(fn.col(ROW_ADDRESS).alias(_MATCH))
            others = self._frame(columns, []).join(found, address == fn.col(_MATCH), "left_anti")
            parts.append(self._decided(others, self._by_source, address, fragment))
        changes = parts[0]
        for part in parts[1:]:
            changes = changes.unionByName(part)
        return changes

    def _decided(self, frame: DataFrame, clauses: list[Clause], address: Column, owner: Column) -> DataFrame:
        from pyspark.sql import functions as fn

        evaluated = self._evaluated(clauses)
        wanted = frame.select(address.alias(ROW_ADDRESS), *evaluated, owner.cast("long").alias(_OWNER))
        return wanted.where(fn.col("_change_type").isNotNull())

    def _evaluated(self, clauses: list[Clause]) -> list[Column]:
        """What becomes of a row and its new values, in the Spark types of the table's columns."""
        from pyspark.sql import functions as fn

        def chosen(pick: Callable[[Clause], Column]) -> Column:
            """The value of the first clause whose condition is true, null if none is."""
            value = fn.lit(None)
            for clause in reversed(clauses):
                if clause.condition is None:
                    value = pick(clause)
                else:
                    value = fn.when(as_column(clause.condition), pick(clause)).otherwise(value)
            return value

        columns = [chosen(lambda clause: fn.lit(clause.action)).cast("string").alias("_change_type")]
        for name in self._columns:
            kind = spark_type(self._table.schema.field(name))

            def value(clause: Clause, name: str = name, kind: Any = kind) -> Column:
                if clause.values is not None and name in clause.values:
                    return as_column(clause.values[name]).cast(kind)
                if clause.action == "update" and name in self._updated:
                    # Another clause assigns it.
                    return fn.col(f"{self._alias}.{quoted(name)}")
                return fn.lit(None).cast(kind)

            columns.append(chosen(value).cast(kind).alias(name))
        return columns

    def _number_of_tasks(self, rows: int) -> int:
        if self._by_source:
            rows += int(self._table.count_rows())
        most = max(parallelism(self._target.spark), -(-rows // ROWS_PER_TASK))
        return max(1, min(-(-rows // LEAST_ROWS_PER_TASK), most))

    def _written(self, owned: DataFrame, shipped: ShippedPlan, schema: pa.Schema, pairs: DataFrame) -> list[Any]:
        import pennon

        def write(number: int, batches: Iterator[pa.RecordBatch]) -> Any:
            return shipped.task(number).run(table_rows(batches, schema))

        try:
            results = run_partitions(owned, write, f"merge into {self._target.uri}", tasks=len(shipped))
        except pennon.InvalidInputError as error:
            is_repeated = any(text in str(error) for text in ("more than once", "has two changes"))
            found = self._ambiguous(pairs) if is_repeated else None
            if found is None:
                raise
            raise invalid(found) from error
        # Spark leaves out partitions of what it finds to be empty.
        done = {result.number for result in results}
        missing = [number for number in range(len(shipped)) if number not in done]
        return [*results, *(shipped.task(number).run(table_rows(iter([]), schema)) for number in missing)]

    def _ambiguous(self, pairs: DataFrame) -> str | None:
        """A sentence about a row that several rows of the source match, if there is one."""
        from pyspark.sql import functions as fn

        counted = pairs.groupBy(ROW_ADDRESS).agg(fn.count("*").alias("n"), fn.min(_MATCH).alias(_MATCH))
        row = counted.where("n > 1").orderBy(ROW_ADDRESS).first()
        if row is None:
            return None
        shown = self._source.where(fn.col(_NUMBER) == row[_MATCH]).drop(_NUMBER).first()
        return (
            f"{row['n']} rows of the source match one row of the table, and a merge may change a row once: one of "
            f"them is {shown.asDict() if shown is not None else {}}"
        )


def fragments_of(table: Any) -> dict[int, str]:
    """The fragments of a version, with all that tells whether their rows are the same in another one."""
    return {fragment.fragment_id: str(fragment.metadata.to_json()) for fragment in table.get_fragments()}


def _names(table: Any, clauses: list[Clause]) -> list[str]:
    """The columns that clauses assign, in the order of the table."""
    assigned = {name for clause in clauses for name in clause.values or {}}
    return [name for name in table.schema.names if name in assigned]


def _check_types(table: Any, updates: list[Clause]) -> None:
    """Refuse columns that only some clauses assign and whose values Spark cannot hold: others would lose digits."""
    for name in _names(table, updates):
        kind = table.schema.field(name).type
        if "[ns" in str(kind) and not all(name in (clause.values or {}) for clause in updates):
            raise invalid(
                f"Not all update clauses assign the column '{name}' of type {kind}, which Spark reads in "
                "microseconds: assign it in all of them, or merge in two steps"
            )


def _given(values: Mapping[str, Column | str] | None, name: str) -> Mapping[str, Column | str]:
    if not values:
        raise invalid(f"The clause has no {name}: expected a dict of columns and values")
    return dict(values)
