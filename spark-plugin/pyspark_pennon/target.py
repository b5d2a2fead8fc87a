"""The table that a verb reads or changes: the session, the URI and the storage options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark_pennon import tables
from pyspark_pennon.errors import invalid
from pyspark_pennon.local_frames import frame_without_rows
from pyspark_pennon.options.source import ReadOptions, session_storage_options
from pyspark_pennon.types.column_names import is_case_sensitive, stored_name
from pyspark_pennon.types.schema import SYSTEM_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Target:
    """A table by its URI, seen from a session: what verbs start from, without state of the table."""

    spark: SparkSession
    uri: str
    given_storage_options: Mapping[str, str] | None = field(repr=False)
    alias: str | None = None

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Those that were given, and below them those that the session has now."""
        return session_storage_options(self.spark, self.given_storage_options)

    def options(self, **given: Any) -> ReadOptions:
        """Options of a read."""
        return ReadOptions(uri=self.uri, storage_options=self.storage_options, **given)

    def open(self, version: int | str | None = None, asof: datetime | str | None = None) -> Any:
        """The table at a version, a tag or a time, by default the newest."""
        return tables.open_table(self.options(version=version, timestamp=asof))

    def everything(self, table: Any) -> DataFrame:
        """All columns of a version, those of the system too, without rows: what expressions are analysed on.

        Raises
        ------
        pennon.InvalidInputError
            As of `check_system_names`.
        """
        check_system_names(self.spark, table.schema.names)
        schema = tables.read_schema(table, self.all_columns(table))
        return self.named(frame_without_rows(self.spark, schema))

    def all_columns(self, table: Any) -> ReadOptions:
        """Options of a read of them."""
        return self.options(
            version=int(table.version), with_row_id=True, with_row_address=True, with_row_versions=True
        )

    def named(self, frame: DataFrame) -> DataFrame:
        """The frame under the alias of the table."""
        return frame if self.alias is None else frame.alias(self.alias)

    def counted(self, report: Any) -> DataFrame:
        """The metrics of a job that changed rows."""
        counts = report.counts
        return self.metrics(
            updated=counts["num_updated_rows"],
            deleted=counts["num_deleted_rows"],
            inserted=counts["num_inserted_rows"],
        )

    def metrics(self, *, updated: int = 0, deleted: int = 0, inserted: int = 0) -> DataFrame:
        """One row in the manner of Delta."""
        # Every Spark shows rows of a text without a task.
        return self.spark.sql(
            f"SELECT * FROM VALUES ({updated + deleted + inserted}L, {updated}L, {deleted}L, {inserted}L) AS "
            "metrics(num_affected_rows, num_updated_rows, num_deleted_rows, num_inserted_rows)"
        )


def check_system_names(spark: SparkSession, names: Sequence[str]) -> None:
    """Refuse columns of a table that differ from one of the system by case only: Spark takes both for one name."""
    if is_case_sensitive(spark):
        return
    for name in names:
        if stored_name(list(SYSTEM_COLUMNS), name, is_sensitive=False) not in (None, name):
            raise invalid(
                f"The table has the column '{name}', which differs from the system column '{name.lower()}' by case "
                "only: set spark.sql.caseSensitive, or rename it by alter_columns of pennon"
            )
