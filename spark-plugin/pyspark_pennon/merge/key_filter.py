"""A Bloom filter of the source's keys: rows of the table that no row of the source can match are not shuffled.

Spark hashes the keys on both sides, after the casts of its own join, and makes the filter in a subquery of the
join: so the keys of the source are read once more, and at most 8 MB are sent to the tasks. The filter is never
needed for the result. It is left out where Spark broadcasts a side, where there is nothing to gain, for keys that
are equal without being the same (floats, text with a collation), before Spark 4.0, and in Spark Connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_pennon.catalyst.jvm_columns import column_of, internal_function
from pyspark_pennon.catalyst.plans import (
    attribute_id,
    attributes,
    equalities,
    execution_of,
    items,
    kind_of,
    plan_of,
    references,
)
from pyspark_pennon.spark_api import has_changed, parallelism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

LEAST_DROPPED = 100_000
"""The table has so many more rows than the source, or the filter costs more than it gains."""

MOST_KEYS = 10_000_000
"""For more keys Spark's own bounds of a filter let a tenth of all other keys pass."""

BITS_PER_KEY = 10
"""One other key in a hundred passes."""

MOST_BITS = 8 << 23

MOST_PARTS = 8
"""Tasks that read the keys of the source."""

_HASHED = ("byte", "short", "integer", "long", "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz")
"""Types of which equal values are the same bytes; decimals too."""


def without_other_keys(
    target: DataFrame, source: DataFrame, condition: Column, rows: tuple[int, int], needed: Sequence[Column | str]
) -> DataFrame:
    """The target without rows whose keys no row of the source has, for all that the filter knows.

    Parameters
    ----------
    rows
        Of the source and of the target.
    needed
        The columns that are wanted of the join.
    """
    wanted, stored = rows
    if not 0 < wanted <= MOST_KEYS or stored - wanted < LEAST_DROPPED or attributes(target) is None:
        return target
    try:
        joined = target.join(source, condition, "inner")
        pairs = _pairs_of_keys(joined, target, source)
        if not pairs or _is_broadcast(joined.select(*needed)):
            return target
        return _filtered(target, source, pairs, wanted)
    except Exception as error:
        if has_changed(error, "rows are shuffled without a filter of keys"):
            return target
        raise


def _filtered(target: DataFrame, source: DataFrame, pairs: list[tuple[Any, Any]], wanted: int) -> DataFrame:
    from pyspark.sql import functions as fn

    spark = target.sparkSession

    def hashed(expressions: list[Any]) -> Column:
        return fn.xxhash64(*(column_of(spark, expression) for expression in expressions))

    bits = min(max(wanted * BITS_PER_KEY, 1 << 10), MOST_BITS)
    sizes = [fn.lit(number).cast("long") for number in (wanted, bits)]
    hashes = source.select(hashed([own for _, own in pairs]).alias("hash"))
    # Each task makes a whole filter of its part.
    hashes = hashes.coalesce(min(parallelism(spark), MOST_PARTS))
    made = hashes.agg(internal_function(spark, "bloom_filter_agg", fn.col("hash"), *sizes).alias("keys"))
    utils = spark._jvm.org.apache.spark.sql.classic.ExpressionUtils  # type: ignore[union-attr]
    contains = spark._jvm.org.apache.spark.sql.catalyst.expressions.BloomFilterMightContain  # type: ignore[union-attr]
    keys = hashed([mine for mine, _ in pairs])
    both = (utils.expression(made.scalar()._jc), utils.expression(keys._jc))
    return target.where(column_of(spark, contains(*both)))


def _pairs_of_keys(joined: DataFrame, target: DataFrame, source: DataFrame) -> list[tuple[Any, Any]]:
    """Expressions over the target and over the source that the condition of a join says are equal."""
    sides = [{attribute_id(attribute) for attribute in attributes(frame) or []} for frame in (target, source)]
    found = []
    for _, left, right in equalities(plan_of(joined)):
        for mine, own in ((left, right), (right, left)):
            if _is_of(mine, sides[0]) and _is_of(own, sides[1]):
                found.append((mine, own))
                break
    return found


def _is_of(expression: Any, side: set[int]) -> bool:
    """Whether an expression is a key of one side that may be hashed, without a function in Python."""
    used = references(expression)
    kind = str(expression.dataType().typeName())
    is_hashed = kind.startswith("decimal") or (
        kind in _HASHED and "collate" not in expression.dataType().sql().lower()
    )
    return bool(used) and used <= side and is_hashed and expression.deterministic() and _is_native(expression)


def _is_native(expression: Any) -> bool:
    if any(word in kind_of(expression) for word in ("Python", "Subquery")):
        return False
    return all(_is_native(child) for child in items(expression.children()))


def _is_broadcast(joined: DataFrame) -> bool:
    """Whether Spark would send a side to all tasks."""
    return "Broadcast" in str(execution_of(joined).sparkPlan().toString())
