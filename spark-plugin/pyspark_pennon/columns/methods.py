"""Methods of `LanceTable` that write columns alone, for all rows or by key: rows stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from pyspark_pennon.columns.add import BatchFunction, Expressions, add_columns
from pyspark_pennon.columns.update import update_columns_from
from pyspark_pennon.handle import TableHandle
from pyspark_pennon.tasks.orphans import verb_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


class ColumnMethods(TableHandle):
    """The methods of `LanceTable` for columns."""

    def addColumns(  # noqa: N802
        self,
        values: Mapping[str, Column | str] | Callable[[Any], Any],
        schema: pa.Schema | StructType | str | None = None,
        *,
        readColumns: Sequence[str] | None = None,  # noqa: N803
        batchFormat: Literal["arrow", "pandas"] = "arrow",  # noqa: N803
        batchSize: int | None = None,  # noqa: N803
        checkpoint: str | PathLike[str] | None = None,
    ) -> DataFrame:
        """Give all rows new columns, in one commit: files with these columns alone, next to those that are there.

        Parameters
        ----------
        values
            A `Column`, or an expression in Spark's SQL as text, for each new column; Spark evaluates it once for
            each row (`functions.pandas_udf` works, too). Or a function that gets batches of rows and gives a batch
            of the new columns with as many rows in the same order; it runs next to the files, and rows do not pass
            through Spark.
        schema
            The new columns, of a function: an Arrow schema, or one of Spark. Of expressions it may say the Arrow
            types, such as vectors of a fixed size; by default they follow from those of Spark. A null
            in a column that is not nullable there is an error.
        readColumns
            The columns that a function gets, `_rowid` as well; by default all of the table.
        batchFormat
            What a function gets and gives: `arrow`, a `pyarrow.RecordBatch` (a dict of columns will do as a
            result), or `pandas`, a `pandas.DataFrame`.
        batchSize
            The most rows that a function gets at once.
        checkpoint
            A file of the driver that records which tasks are done. A call with the same columns and the same code
            goes on where one before it was interrupted, also if the table has changed meanwhile; the file is
            removed at the commit. UDFs, and what a function has of other modules, are compared by name alone.

        Returns
        -------
        DataFrame
            One row: `num_affected_rows`, and the `version` that was committed.

        Raises
        ------
        pennon.InvalidInputError
            The table has such a column, a value needs other rows (an aggregate, a window, a subquery), or the
            checkpoint is of other work. `SchemaMismatchError`: the function returns other rows, columns or types,
            or there are nulls in a column that may have none.
        pyspark.errors.AnalysisException
            An expression is not valid.
        pennon.CommitConflictError
            Other writers changed the table during each of ten attempts; what they left alone is computed once. If
            one overwrote or restored it, it is not tried again.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> flights = spark.createDataFrame([(1, 815, 800), (2, 930, 920)], "id long, arrival int, planned int")
        >>> done = write(flights, f"{folder}/flights.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/flights.lance")
        >>> table.addColumns({"delay": "arrival - planned"}).first().num_affected_rows
        2
        >>> def is_late(batch):
        ...     return {"late": [delay > 10 for delay in batch["delay"].to_pylist()]}
        >>> done = table.addColumns(is_late, "late boolean", readColumns=["delay"])
        >>> table.toDF(columns=["id", "delay", "late"]).orderBy("id").collect()
        [Row(id=1, delay=15, late=True), Row(id=2, delay=10, late=False)]
        """
        with verb_errors(self.uri):
            if callable(values):
                work: Any = BatchFunction.of(self._target, values, schema, readColumns, batchFormat, batchSize)
            else:
                given = {"readColumns": readColumns, "batchSize": batchSize}
                work = Expressions.of(self._target, values, schema, given)
            return add_columns(self._target, work, checkpoint)

    def updateColumnsFrom(self, data: DataFrame, on: str | Sequence[str]) -> DataFrame:  # noqa: N802
        """Give columns new values from a frame, by key, in one commit that writes these columns alone.

        Rows stay where they are, and rows without a match keep their values. Where few rows of many fragments
        change, `merge` writes less: here each fragment with a match gets new files of the columns for all rows.

        Parameters
        ----------
        data
            The keys, and the columns that get new values; cast to the types of the table.
        on
            One or more columns that both have, or `_rowid`. Ids that no row has change nothing.

        Returns
        -------
        DataFrame
            As of `delete`. If no row matches nothing is committed.

        Raises
        ------
        pennon.InvalidInputError
            The table lacks a column, or several rows of the frame match one row; the message has the key.
        pennon.CommitConflictError
            Other writers changed the table during each of ten attempts, or one overwrote or restored it: then it is
            not tried again.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable, write
        >>> done = write(spark.createDataFrame([(1, 0.5), (2, 0.5)], "id long, score double"), f"{folder}/t.lance")
        >>> table = LanceTable.forPath(spark, f"{folder}/t.lance")
        >>> scores = spark.createDataFrame([(2, 0.9), (7, 0.1)], "id long, score double")
        >>> table.updateColumnsFrom(scores, on="id").first().num_updated_rows
        1
        >>> table.toDF().orderBy("id").collect()
        [Row(id=1, score=0.5), Row(id=2, score=0.9)]
        """
        with verb_errors(self.uri):
            return update_columns_from(self._target, data, [on] if isinstance(on, str) else list(on))
