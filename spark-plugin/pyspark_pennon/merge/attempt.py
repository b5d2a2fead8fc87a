"""One attempt of a merge: it reads one version of the table and makes one commit, or raises a conflict.

The table gives its keys and addresses to a join, and nothing else of it is shuffled. Where clauses about matched
rows name columns of the table, the rows of the source go to the tasks that own the addresses, which read these
columns there, sorted by address; then Spark evaluates the clauses. The rows that nothing matches are read in the
same way by the owners of their blocks, which are given the addresses that match.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_pennon.catalyst.asterisks import refuse_asterisk
from pyspark_pennon.catalyst.jvm_columns import column_of, restored
from pyspark_pennon.catalyst.needed_columns import may_call_python, needed_columns, used_attributes
from pyspark_pennon.catalyst.plans import attribute_id, attributes
from pyspark_pennon.merge.clauses import Clause, Clauses, Evaluation, assigned_names, check_types, typed_clauses
from pyspark_pennon.merge.key_filter import without_other_keys
from pyspark_pennon.merge.plan import Keys, bounds_of, is_of_nanoseconds, keys_of, refuse_self_comparison
from pyspark_pennon.options.provider import stored
from pyspark_pennon.reads.addressed_rows import block_of, fetched, others
from pyspark_pennon.reads.frames import table_frame
from pyspark_pennon.row_changes import changes_schema, number_of_tasks, repeated_row_named
from pyspark_pennon.spark_api import as_column
from pyspark_pennon.target import Target
from pyspark_pennon.tasks.executor import run_partitions
from pyspark_pennon.tasks.plans import ShippedPlan
from pyspark_pennon.tasks.retries import committed
from pyspark_pennon.types.batches import table_rows
from pyspark_pennon.types.schema import CHANGE_TYPE, FRAGMENT_BITS, ROW_ADDRESS, is_plain, quoted
from pyspark_pennon.writes.new_columns import with_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from pyspark_pennon.streams.sink import StreamBatch

NUMBER = "_pennon_number"
"""Numbers the rows of the source."""
_MATCH = "_pennon_match"
"""The number of the source's row that a row of the table matches."""
_OWNER = "_pennon_owner"
_OF_SOURCE = "_pennon_source_"
_OF_TABLE = "_pennon_table_"
DEFAULT_ALIAS = "_pennon_target"
"""The alias of the table if it was given none."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Matches:
    """What an attempt found: addresses of a version of the table, with the numbers of the source's rows."""

    table: Any
    pairs: DataFrame


class MergeAttempt:
    """A merge with one version of the table."""

    def __init__(
        self,
        target: Target,
        source: DataFrame,
        table: Any,
        condition: Column | str,
        clauses: Clauses,
        batch: StreamBatch | None,
        new: Sequence[pa.Field] = (),
    ) -> None:
        """`new`: columns that the table gets if the merge changes anything."""
        self._target, self._batch = target, batch
        self._condition = as_column(condition)
        self._source, self._table = source, table
        self._inserted = clauses.inserts
        self._alias = target.alias or DEFAULT_ALIAS
        self._address = f"{quoted(self._alias)}.{ROW_ADDRESS}"
        self._new = list(new)
        self._schema = pa.schema([*table.schema, *new])
        changing = (*clauses.matched, *clauses.by_source)
        check_types(self._schema, [clause for clause in changing if clause.action == "update"])
        self._everything = target.everything(table).alias(self._alias)
        self._options = target.options(version=int(table.version))
        self._clauses = Clauses(
            typed_clauses(clauses.matched, self._everything.crossJoin(source), self._schema),
            typed_clauses(clauses.inserts, source, self._schema),
            typed_clauses(clauses.by_source, self._everything, self._schema),
        )
        self._updated = assigned_names(self._schema, changing)
        self._columns = assigned_names(self._schema, [*changing, *clauses.inserts])
        self._changes_schema = changes_schema(self._schema, self._columns, change_type=True)
        stored = list(table.schema.names)
        self._evaluation = Evaluation(self._schema, stored, self._alias, self._columns, self._updated)
        if clauses.inserts:
            refuse_asterisk(source.select(*self._evaluation.inputs(self._clauses.inserts)))

    def run(self, found: list[Matches]) -> DataFrame:
        """One attempt; adds its matches to those of earlier ones."""
        joined = self._everything.join(self._source, self._condition, "inner")
        refuse_self_comparison(joined)
        keys = keys_of(joined, self._condition, self._everything, self._source)
        counted, bounds = bounds_of(self._source, self._table, keys.bare)
        pairs = self._pairs(counted, bounds, found[-1] if found else None).persist()
        found.append(Matches(self._table, pairs))
        changes, tasks = self._changes(pairs, counted)
        return self._applied(changes, tasks, pairs, keys)

    def _applied(self, changes: DataFrame, tasks: int, pairs: DataFrame, keys: Keys) -> DataFrame:
        """Write the changes, and commit them together with the new columns."""
        from pennon import jobs

        schema = self._changes_schema
        named, exact_keys = self._named(keys)
        plan = jobs.plan_change_rows(
            with_columns(self._table, self._new),
            schema,
            updates=self._updated,
            keys=named,
            exact_keys=exact_keys,
            storage_options=stored(self._target.storage_options),
        )
        shipped = ShippedPlan.of(plan, self._target.storage_options)
        results = self._written(changes, shipped, schema, pairs, tasks)
        if not any(result.rows for result in results):
            return self._target.metrics()
        properties = None if self._batch is None else self._batch.properties
        return self._target.counted(committed(plan, results, properties=properties))

    def _named(self, keys: Keys) -> tuple[list[str], bool]:
        """The keys of inserted rows that the transaction names, and whether rows match where these are the same.

        There are none unless clauses insert all of them.
        """
        if not self._clauses.inserts:
            return [], True
        stored = [key for key in keys.names if key in self._table.schema.names]
        inserted = assigned_names(self._schema, self._clauses.inserts)
        if stored and all(key in inserted for key in stored):
            exact = [key for key in stored if self._is_exact(keys, key)]
            return (exact, True) if exact else (stored, False)
        _log.warning(
            "a merge into %s does not insert the keys of its condition: one at the same time may insert them too",
            self._target.uri,
        )
        return [], True

    def _is_exact(self, keys: Keys, key: str) -> bool:
        if is_of_nanoseconds(self._table.schema.field(key).type):
            return False
        values = [(clause.values or {}).get(key) for clause in self._inserted]
        return keys.is_inserted(key, values, self._source)

    def _pairs(self, rows: int, bounds: list[str], earlier: Matches | None) -> DataFrame:
        """Addresses of matched rows with the numbers of the source's rows.

        After a conflict only fragments that are new or have changed are read again.
        """
        from pyspark.sql import functions as fn

        address = fn.col(self._address)
        joined = self._everything.join(self._source, self._condition, "inner").select(address, NUMBER)
        read = needed_columns(joined, self._everything)
        old, new = ({}, {}) if earlier is None else (_metadata_by_id(earlier.table), _metadata_by_id(self._table))
        changed = [number for number, metadata in new.items() if old.get(number) != metadata]
        stored = self._keys(read, bounds, None if earlier is None else changed)
        sizes = (rows, int(self._table.count_rows()))
        stored = without_other_keys(stored, self._source, self._condition, sizes, [address, NUMBER])
        pairs = stored.join(self._source, self._condition, "inner").select(address, fn.col(NUMBER).alias(_MATCH))
        if earlier is None:
            return pairs
        fragment = fn.shiftright(fn.col(ROW_ADDRESS), FRAGMENT_BITS)
        gone = [number for number, metadata in old.items() if new.get(number) != metadata]
        return earlier.pairs.where(~fragment.isin(gone)).unionByName(pairs.where(fragment.isin(changed)))

    def _keys(self, columns: list[str], predicates: list[str], fragments: Sequence[int] | None) -> DataFrame:
        """Columns of the version and addresses, without rows for which a predicate in Pennon's SQL is false."""
        options = self._target.options(
            version=int(self._table.version),
            columns=tuple(name for name in columns if name != ROW_ADDRESS),
            filter_sql=" AND ".join(f"({text})" for text in predicates) or None,
            with_row_address=True,
        )
        chosen = None if fragments is None else frozenset(fragments)
        return table_frame(self._target.spark, self._table, options, chosen).alias(self._alias)

    def _changes(self, pairs: DataFrame, rows: int) -> tuple[DataFrame, int]:
        """All changes, in partitions that each have all changes of a row, and how many partitions there may be."""
        from pyspark.sql import functions as fn

        tasks = number_of_tasks(self._target.spark, rows)
        spread: list[DataFrame] = []
        owned: list[DataFrame] = []
        partitions = 0
        if self._clauses.matched:
            matched, is_owned = self._matched(pairs, tasks)
            (owned if is_owned else spread).append(matched)
            partitions += tasks if is_owned else 0
        if self._clauses.inserts:
            matches = pairs.select(_MATCH)
            unmatched = self._source.join(matches, fn.col(NUMBER) == fn.col(_MATCH), "left_anti")
            owner = -fn.lit(1) - fn.pmod(fn.col(NUMBER), fn.lit(tasks))
            spread.append(self._decided(unmatched, self._clauses.inserts, fn.lit(None).cast("long"), owner))
        if self._clauses.by_source:
            readers = number_of_tasks(self._target.spark, int(self._table.count_rows()))
            owned.append(self._not_matched_by_source(pairs, readers))
            partitions += readers
        if spread:
            changes = _union(spread).repartition(tasks, fn.col(_OWNER))
            owned.append(changes.drop(_OWNER))
            partitions += tasks
        return _union(owned), partitions

    def _matched(self, pairs: DataFrame, tasks: int) -> tuple[DataFrame, bool]:
        """What becomes of matched rows, and whether they are with their owners already."""
        from pyspark.sql import functions as fn

        clauses, source = self._clauses.matched, self._source
        address = fn.col(self._address)
        if [(clause.action, clause.condition is None) for clause in clauses] == [("delete", True)]:
            # Rows that several rows of the source match are deleted all the same.
            once = pairs.select(ROW_ADDRESS).distinct().alias(self._alias)
            return self._decided(once, clauses, address, block_of(address)), False
        both = self._everything.crossJoin(source).select(*self._evaluation.inputs(clauses))
        refuse_asterisk(both, self._alias)
        names = [name for name in needed_columns(both, self._everything) if name != ROW_ADDRESS]
        is_same = fn.col(NUMBER) == fn.col(_MATCH)
        if not names:
            matched = source.join(pairs.alias(self._alias), is_same, "inner")
            return self._decided(matched, clauses, address, block_of(address)), False
        used = self._used_of_source(both)
        if used is None:
            # Without attributes the clauses are evaluated before the rows go to their owners.
            owned = pairs.repartition(tasks, block_of(fn.col(ROW_ADDRESS)))
            rows = fetched(owned, self._table, self._options, names, _OF_TABLE)
            columns = [fn.col(f"{_OF_TABLE}{at}").alias(name) for at, name in enumerate(names)]
            matched = source.join(rows.select(ROW_ADDRESS, _MATCH, *columns).alias(self._alias), is_same, "inner")
            return self._decided(matched, clauses, address, block_of(address)), False
        spark = source.sparkSession
        columns = [column_of(spark, one).alias(f"{_OF_SOURCE}{at}") for at, one in enumerate(used)]
        matched = source.join(pairs.alias(self._alias), is_same, "inner").select(*columns, address)
        owned = matched.repartition(tasks, block_of(fn.col(ROW_ADDRESS)))
        rows = fetched(owned, self._table, self._options, names, _OF_TABLE)
        stored = {one.name(): one for one in attributes(self._everything) or []}
        rows = restored(rows, [*used, stored[ROW_ADDRESS], *(stored[name] for name in names)])
        return self._decided(rows, clauses, address, None), True

    def _used_of_source(self, evaluated: DataFrame) -> list[Any] | None:
        """The attributes of the source that clauses name; None where they cannot be told, or have a type that does
        not come back from a function in Python as it was.
        """
        found = attributes(self._source)
        if found is None:
            return None
        used = used_attributes(evaluated)
        if used is None:
            return None
        fields = self._source.schema.fields
        needed = [at for at, one in enumerate(found) if attribute_id(one) in used]
        if not all(is_plain(fields[at].dataType) for at in needed):
            return None
        return [found[at] for at in needed]

    def _not_matched_by_source(self, pairs: DataFrame, tasks: int) -> DataFrame:
        """What becomes of rows that no row of the source matches, with their owners."""
        from pyspark.sql import functions as fn

        clauses = self._clauses.by_source
        evaluated = self._everything.select(ROW_ADDRESS, *self._evaluation.inputs(clauses))
        refuse_asterisk(evaluated, self._alias)
        columns = needed_columns(evaluated, self._everything)
        rows = others(pairs, self._table, self._options, columns, tasks).alias(self._alias)
        return self._decided(rows, clauses, fn.col(self._address), None)

    def _decided(
        self, frame: DataFrame, clauses: Sequence[Clause], address: Column, owner: Column | None
    ) -> DataFrame:
        """The changes of rows that a clause takes; others have a change that is null, or are left out."""
        from pyspark.sql import functions as fn

        owners = [] if owner is None else [owner.cast("long").alias(_OWNER)]
        taken = frame.select("*", self._evaluation.taken(clauses))
        wanted = taken.select(address.alias(ROW_ADDRESS), *self._evaluation.of(clauses), *owners)
        # Spark would move the filter below the columns, and call functions in Python for both.
        is_native = not (may_call_python(taken) or may_call_python(wanted))
        return wanted.where(fn.col(CHANGE_TYPE).isNotNull()) if is_native else wanted

    def _written(
        self, changes: DataFrame, shipped: ShippedPlan, schema: pa.Schema, pairs: DataFrame, tasks: int
    ) -> list[Any]:
        def write(number: int, batches: Iterator[pa.RecordBatch]) -> Any:
            changes = (batch.filter(batch.column(CHANGE_TYPE).is_valid()) for batch in batches)
            return shipped.task(number).run(table_rows(changes, schema))

        with repeated_row_named(lambda: self._ambiguous(pairs)):
            return run_partitions(changes, write, f"merge into {self._target.uri}", tasks=tasks)

    def _ambiguous(self, pairs: DataFrame) -> str | None:
        """A sentence about a row that several rows of the source match, if there is one."""
        from pyspark.sql import functions as fn

        counted = pairs.groupBy(ROW_ADDRESS).agg(fn.count("*").alias("n"), fn.min(_MATCH).alias(_MATCH))
        row = counted.where("n > 1").orderBy(ROW_ADDRESS).first()
        if row is None:
            return None
        shown = self._source.where(fn.col(NUMBER) == row[_MATCH]).drop(NUMBER).first()
        return (
            f"{row['n']} rows of the source match one row of the table, and a merge may change a row once: one of "
            f"them is {shown.asDict() if shown is not None else {}}"
        )


def _metadata_by_id(table: Any) -> dict[int, Any]:
    """The fragments of a version, with all that tells whether their rows are the same in another one."""
    return {fragment.fragment_id: fragment.metadata for fragment in table.get_fragments()}


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionByName(frame)
    return union
