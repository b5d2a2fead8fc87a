"""The clauses of a merge, and what becomes of a row by them, as columns that Spark evaluates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_pennon.errors import invalid
from pyspark_pennon.spark_api import as_column
from pyspark_pennon.types.assigned_values import assigned, of_one_row, with_nulls
from pyspark_pennon.types.schema import CHANGE_TYPE, quoted, spark_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

CLAUSE = "_pennon_clause"
"""The number of the clause that takes a row."""


@dataclass(frozen=True)
class Clause:
    """What becomes of rows for which a condition is true and which no clause before took."""

    action: str
    condition: Column | str | None = None
    values: Mapping[str, Column | str] | None = None
    """None: all columns that the source and the table have in common."""


@dataclass(frozen=True)
class Clauses:
    """Those of one merge, by the rows that they are about."""

    matched: tuple[Clause, ...] = ()
    inserts: tuple[Clause, ...] = ()
    by_source: tuple[Clause, ...] = ()

    def __iter__(self) -> Iterator[Clause]:
        return iter((*self.matched, *self.inserts, *self.by_source))


@dataclass(frozen=True)
class Evaluation:
    """How clauses become columns.

    Attributes
    ----------
    schema
        The columns of the table, with those that it gets.
    stored
        Names of the columns that it has.
    alias
        That of the table.
    columns
        Those that some clause assigns.
    updated
        Those that an update assigns.
    """

    schema: pa.Schema
    stored: list[str]
    alias: str
    columns: list[str]
    updated: list[str]

    def taken(self, clauses: Sequence[Clause]) -> Column:
        """The number of the first clause whose condition is true, null if none is.

        A column of its own: a condition that is not deterministic decides once about a row.
        """
        from pyspark.sql import functions as fn

        number = fn.lit(None).cast("int")
        for at, clause in reversed([*enumerate(clauses)]):
            own, condition = fn.lit(at), clause.condition
            number = own if condition is None else fn.when(as_column(condition), own).otherwise(number)
        return number.alias(CLAUSE)

    def of(self, clauses: Sequence[Clause]) -> list[Column]:
        """What becomes of a row and its new values in the Spark types of the table's columns, by its clause."""
        from pyspark.sql import functions as fn

        # Each operation on a Column takes a millisecond, and there may be thousands of columns.
        number = fn.col(CLAUSE)
        is_taken = [None if clause.condition is None else number == at for at, clause in enumerate(clauses)]

        def chosen(values: Iterable[Column]) -> Column:
            found = fn.lit(None)
            for is_own, value in reversed([*zip(is_taken, values, strict=True)]):
                found = value if is_own is None else fn.when(is_own, value).otherwise(found)
            return found

        columns = [chosen(fn.lit(clause.action) for clause in clauses).cast("string").alias(CHANGE_TYPE)]
        for name in self.columns:
            kind = with_nulls(spark_type(self.schema.field(name)))
            values = (self._value(clause, name, kind) for clause in clauses)
            columns.append(chosen(values).cast(kind).alias(name))
        return columns

    def inputs(self, clauses: Sequence[Clause]) -> list[Column]:
        """All that is computed of the two sides, whatever clause takes a row."""
        kinds = {name: with_nulls(spark_type(self.schema.field(name))) for name in self.columns}
        values = (self._value(clause, name, kind) for clause in clauses for name, kind in kinds.items())
        return [self.taken(clauses), *values]

    def _value(self, clause: Clause, name: str, kind: DataType) -> Column:
        from pyspark.sql import functions as fn

        if clause.values is not None and name in clause.values:
            return as_column(clause.values[name])
        if clause.action == "update" and name in self.updated and name in self.stored:
            # Another clause assigns it.
            return fn.col(f"{quoted(self.alias)}.{quoted(name)}")
        return fn.lit(None).cast(kind)


def assigned_names(schema: pa.Schema, clauses: Sequence[Clause]) -> list[str]:
    """The columns that clauses assign, in the order of the table."""
    assigned = {name for clause in clauses for name in clause.values or {}}
    return [name for name in schema.names if name in assigned]


def typed_clauses(clauses: Sequence[Clause], frame: DataFrame, schema: pa.Schema) -> tuple[Clause, ...]:
    """The same with values, computed from a frame, in the Spark types of the table's columns.

    Raises
    ------
    pennon.InvalidInputError
        A value or condition is not computed from its own row.
    """
    conditions = {
        f"The condition of {clause.action} clause {at}": as_column(clause.condition)
        for at, clause in enumerate(clauses, 1)
        if clause.condition is not None
    }
    if conditions:
        of_one_row(frame, conditions)

    def typed(clause: Clause) -> Clause:
        if not clause.values:
            return clause
        values = {name: as_column(value) for name, value in clause.values.items()}
        return replace(clause, values=assigned(frame, schema, values))

    return tuple(typed(clause) for clause in clauses)


def check_types(schema: pa.Schema, updates: Sequence[Clause]) -> None:
    """Refuse columns that only some clauses assign and whose values Spark cannot hold: others would lose digits."""
    for name in assigned_names(schema, updates):
        kind = schema.field(name).type
        if "[ns" in str(kind) and not all(name in (clause.values or {}) for clause in updates):
            raise invalid(
                f"Not all update clauses assign the column '{name}' of type {kind}, which Spark reads in "
                "microseconds: assign it in all of them, or merge in two steps"
            )
