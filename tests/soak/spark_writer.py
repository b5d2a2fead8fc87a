"""The verbs of the soak of whole tables by Spark, through `pyspark_pennon`."""

from __future__ import annotations

from typing import Any

import pennon
import pyarrow as pa
from pyspark_pennon import LanceTable, write
from soak.effects import SHARED, Intent, keys_of, merged_keys, table_of, where
from soak.steps import extra_of, ids_of
from soak.table_writers import VERBS, Writer
from support.spark_session import start_session

SPARK_VERBS = ("append", "overwrite", "delete", "update", "merge", "by_id", "add_column", "compact", "restore")
CHANGES = {
    "count": {"n": "coalesce(n, 0L) + 1L"},
    "halve": {"f": "f / 2"},
    "clear": {"text": "CAST(NULL AS STRING)", "n": "id % 997L"},
    "join": {"text": "text || '+'", "n": "n + 3L"},
}


class SparkWriter(Writer):
    """Spark does not say which version it made: the journal has the versions between which it is."""

    library = pennon
    verbs = {verb: VERBS[verb] for verb in SPARK_VERBS}

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.spark = start_session()

    def commit(self, table: Any, intent: Intent, seq: int) -> None:
        before = pennon.dataset(self.uri, **self.of_pennon()).version
        handle = LanceTable.forPath(self.spark, self.uri, **self.of_pennon())
        is_certain = getattr(self, f"do_{intent['kind']}")(handle, table, intent)
        after = self.reopened().version
        # A verb that matches no row commits nothing.
        if is_certain:
            self.journal.ended(seq, None, between=[before, after])

    def of_column(self, given: Intent, table: Any) -> Intent | None:
        # A column of nulls is one of values to Spark.
        found = super().of_column(given, table)
        return None if found is None else {**found, "computed": True}

    def frame(self, rows: pa.Table) -> Any:
        return self.spark.createDataFrame(rows)

    def do_append(self, handle: LanceTable, table: Any, intent: Intent) -> bool:
        rows = table_of(keys_of(intent), intent["salt"], extra_of(table))
        write(self.frame(rows), self.uri, mode="append", **self.of_pennon())
        return True

    def do_overwrite(self, handle: LanceTable, table: Any, intent: Intent) -> bool:
        rows = table_of([*range(SHARED), *keys_of(intent)], intent["salt"])
        write(self.frame(rows), self.uri, mode="overwrite", **self.of_pennon())
        return True

    def do_delete(self, handle: LanceTable, table: Any, intent: Intent) -> bool:
        return bool(handle.delete(where(intent)).first()["num_deleted_rows"])

    def do_update(self, handle: LanceTable, table: Any, intent: Intent) -> bool:
        return bool(handle.update(where(intent), CHANGES[intent["change"]]).first()["num_updated_rows"])

    def do_merge(self, handle: LanceTable, table: Any, intent: Intent) -> bool:
        rows = table_of(merged_keys(intent), intent["salt"], extra_of(table))
        merge = handle.alias("t").merge(self.frame(rows).alias("s"), "t.id = s.id")
        if intent["matched"] == "delete":
            merge = merge.whenMatchedDelete()
        elif intent["matched"] != "nothing":
            merge = merge.whenMatchedUpdateAll(*(["t.n > 500"] if intent["matched"] == "larger" else []))
        if intent["insert"]:
            merge = merge.whenNotMatchedInsertAll()
        return bool(merge.execute().first()["num_affected_rows"])

    def do_by_id(self, handle: LanceTable, table: Any, intent: Intent) -> bool:
        ids = ids_of(table, intent["keys"])
        columns = [pa.array(ids, pa.int64()), pa.array([intent["salt"]] * len(ids), pa.int64())]
        handle.updateRows(self.frame(pa.table(columns, ["_rowid", "n"])))
        return True

    def do_add_column(self, handle: LanceTable, table: Any, intent: Intent) -> bool:
        handle.addColumns({intent["name"]: f"id + {intent['salt']}L"})
        return True

    def do_restore(self, handle: LanceTable, table: Any, intent: Intent) -> bool:
        handle.restoreToVersion(intent["version"])
        return True

    def keep(self, verb: str) -> None:
        LanceTable.forPath(self.spark, self.uri, **self.of_pennon()).optimize().executeCompaction()
