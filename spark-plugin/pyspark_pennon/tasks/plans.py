"""Plans of `pennon.jobs` on their way to Spark's tasks.

Driver and executors have a `pennon` wheel of their own each, so a task is shipped as text with the release that
wrote it; it becomes an object only after the releases were compared. Storage options travel next to the text in the
pickled function of the tasks, never in an option of a data source or in a schema, because Spark prints those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark_pennon.options.provider import stored
from pyspark_pennon.tasks.releases import check_release, installed_release
from pyspark_pennon.tasks.workers import mapped
from pyspark_pennon.types.arrow_facts import FIXED_SIZE_LIST

if TYPE_CHECKING:
    import pyarrow as pa
    from pennon.types import Durability
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MOST_BYTES = 4 << 30
"""Spark broadcasts nothing of this size, so no estimate needs to be larger."""

PADDING = f"STRUCT<{', '.join(f'b{number}: BINARY' for number in range(20))}>"
"""A type of which Spark believes that its values are of 2,000 bytes."""

PADDED_BYTES = 8 * (8 + 8 + 2_000) // (8 + 8)
"""What Spark takes for the size of a number with padding: its own, times the growth of a row of eight more."""


@dataclass(frozen=True)
class ShippedPlan:
    """A plan that a task can open; picklable, and without secrets in its representation.

    Attributes
    ----------
    texts
        JSON of each task, or of the plan alone if it does not say how many tasks there are.
    release
        That of the wheels on the driver.
    """

    texts: tuple[str, ...]
    is_open: bool
    release: str
    durability: Durability = "full"
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, plan: Any, storage_options: Mapping[str, str], durability: Durability = "full") -> ShippedPlan:
        """Ship a `pennon.jobs.JobPlan`."""
        is_open = plan.num_tasks is None
        texts = (plan.json(),) if is_open else tuple(task.json() for task in plan.tasks)
        return cls(texts, is_open, installed_release(), durability, storage_options)

    def __len__(self) -> int:
        return len(self.texts)

    def only(self, number: int) -> ShippedPlan:
        """The same with one task, which gets the number 0."""
        return self.chosen([number])

    def chosen(self, numbers: Sequence[int]) -> ShippedPlan:
        """The same with some of the tasks, which are numbered from 0."""
        return replace(self, texts=tuple(self.texts[number] for number in numbers))

    def task(self, number: int) -> Any:
        """The `pennon.jobs.Task` with a number.

        Raises
        ------
        pennon.UnsupportedError
            This process has another release of the wheels than the driver.
        """
        check_release(self.release)
        from pennon import jobs

        if self.is_open:
            return self.job().task(number)
        return jobs.Task.from_json(self.texts[number], **self.reached())

    def job(self) -> Any:
        """The `pennon.jobs.JobPlan` that says not how many tasks there are."""
        from pennon import jobs

        return jobs.JobPlan.from_json(self.texts[0], **self.reached())

    def with_uuid(self, uuid: str) -> ShippedPlan:
        """The same plan, which says not how many tasks there are, with another uuid."""
        return replace(self, texts=(self.job().with_uuid(uuid).json(),))

    def reached(self) -> dict[str, Any]:
        """How the table is reached, as arguments of `pennon`."""
        return {"storage_options": stored(self.storage_options), "durability": self.durability}


def numbered(
    spark: SparkSession,
    count: int,
    run: Callable[[int], Iterator[pa.RecordBatch]],
    schema: StructType | str,
    *,
    rows: int = 0,
) -> DataFrame:
    """A frame of what `run` yields for each number below `count`, a Spark task for each.

    Parameters
    ----------
    rows
        How many rows there will be, at most. Spark takes the size of its input for the size of the result of a
        Python function, and broadcasts what is small in joins: so the input is as large as the result.
    """
    count = max(count, 1)
    # Spark generates the other numbers and drops them, about a billion a second; the padding makes them few.
    elements = min(rows * row_bytes(schema), MOST_BYTES) // PADDED_BYTES
    shift = max(0, -(-elements // count) - 1).bit_length()
    columns = f"id, CAST(NULL AS {PADDING}) AS padding" if rows else "id"
    # One text, since Spark analyses each step of a frame.
    numbers = spark.sql(
        f"SELECT {columns} FROM range(0, {count << shift}, 1, {count}) WHERE id & {(1 << shift) - 1}L = 0"
    )

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from run(at >> shift)

    return mapped(numbers, each, schema)


_SIZES = {
    "BooleanType": 1,
    "ByteType": 1,
    "ShortType": 2,
    "IntegerType": 4,
    "FloatType": 4,
    "DateType": 4,
    "StringType": 20,
    "BinaryType": 100,
}


def row_bytes(kind: Any) -> int:
    """What Spark takes for the size of a row or value, and of a list as many values as it is known to have."""
    if hasattr(kind, "fields"):
        sizes = (row_bytes(child.dataType) * int(child.metadata.get(FIXED_SIZE_LIST, 1)) for child in kind.fields)
        return 8 + sum(sizes)
    if hasattr(kind, "elementType"):
        return row_bytes(kind.elementType)
    if hasattr(kind, "keyType"):
        return row_bytes(kind.keyType) + row_bytes(kind.valueType)
    return _SIZES.get(type(kind).__name__, 8)
