"""`LanceTable.create` and its kin: a table without rows, from columns that are named one by one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, StructField, StructType

from pyspark_pennon import tables
from pyspark_pennon.errors import exists, invalid, missing
from pyspark_pennon.options.provider import stored
from pyspark_pennon.options.source import ReadOptions, session_storage_options
from pyspark_pennon.spark_api import parsed_type
from pyspark_pennon.tasks.retries import answered, committed
from pyspark_pennon.types.arrow_facts import COMMENT
from pyspark_pennon.types.schema import parsed_schema
from pyspark_pennon.types.storable import new_table_schema, refuse_other_case, stored_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_pennon.table import LanceTable


class Verb(Enum):
    """What becomes of a table that there is, and of one that there is not."""

    CREATE = "create"
    CREATE_IF_NOT_EXISTS = "createIfNotExists"
    REPLACE = "replace"
    CREATE_OR_REPLACE = "createOrReplace"

    @property
    def replaces(self) -> bool:
        """Whether a table that there is gets the new columns."""
        return self in (Verb.REPLACE, Verb.CREATE_OR_REPLACE)


class TableBuilder:
    """Columns and properties of a table to be made; see `LanceTable.create`.

    Examples
    --------
    >>> from pyspark_pennon import LanceTable
    >>> table = (
    ...     LanceTable.createIfNotExists(spark)
    ...     .location(f"{folder}/flights.lance")
    ...     .addColumn("id", "BIGINT", nullable=False)
    ...     .addColumn("name", "STRING", comment="as on the ticket")
    ...     .property("owner", "flights")
    ...     .execute()
    ... )
    >>> table.toDF().printSchema()
    root
     |-- id: long (nullable = false)
     |-- name: string (nullable = true)
    """

    def __init__(
        self,
        spark: SparkSession,
        handle: type[LanceTable],
        storage_options: Mapping[str, str] | None,
        verb: Verb,
    ) -> None:
        self._spark = spark
        self._handle = handle
        self._storage_options = session_storage_options(spark, storage_options)
        self._verb = verb
        self._uri: str | None = None
        self._fields: list[StructField] = []
        self._properties: dict[str, str] = {}
        self._reader: str | None = None

    def location(self, uri: str) -> TableBuilder:
        """Say where the table is or will be: a path or the URI of an object store.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> builder = LanceTable.create(spark).addColumns("id bigint").location(f"{folder}/flights.lance")
        >>> builder.execute().uri == f"{folder}/flights.lance"
        True
        """
        self._uri = uri
        return self

    def addColumn(  # noqa: N802 - as Delta spells it
        self,
        colName: str,  # noqa: N803
        dataType: str | DataType,  # noqa: N803
        nullable: bool = True,
        comment: str | None = None,
    ) -> TableBuilder:
        """Add a column after those before.

        Parameters
        ----------
        colName
            Its name.
        dataType
            A type of Spark, or its text, such as `"array<float>"`.
        nullable
            Whether values may be null.
        comment
            Text that is kept with the column, as `comment` in the metadata of the fields of frames and of Arrow.

        Raises
        ------
        pennon.InvalidInputError
            The text is not a type.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> builder = LanceTable.create(spark).location(f"{folder}/flights.lance").addColumn("id", "BIGINT")
        >>> builder = builder.addColumn("legs", "array<string>", comment="airports, in their order")
        >>> builder.execute().toDF().dtypes
        [('id', 'bigint'), ('legs', 'array<string>')]
        """
        kind = dataType if isinstance(dataType, DataType) else _parsed(dataType, colName)
        self._fields.append(StructField(colName, kind, nullable, {COMMENT: comment} if comment else None))
        return self

    def addColumns(self, cols: StructType | list[StructField] | str) -> TableBuilder:  # noqa: N802
        """Add the columns of a schema, or of its text, such as `"id bigint, name string"`, after those before.

        Raises
        ------
        pennon.InvalidInputError
            This is not a schema.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> builder = LanceTable.create(spark).location(f"{folder}/flights.lance")
        >>> builder = builder.addColumns(spark.range(3).schema).addColumns("carrier string, delay int")
        >>> builder.execute().toDF().columns
        ['id', 'carrier', 'delay']
        """
        if isinstance(cols, str):
            cols = parsed_schema(cols)
        fields = cols.fields if isinstance(cols, StructType) else list(cols)
        for field in fields:
            if not isinstance(field, StructField):
                raise invalid(f"A column is {field!r}: expected a StructType, its fields, or its text")
        self._fields.extend(fields)
        return self

    def property(self, key: str, value: str) -> TableBuilder:
        """Set a property of the table, which `LanceTable.properties` gives; the value is kept as text.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> builder = LanceTable.create(spark).location(f"{folder}/flights.lance").addColumns("id bigint")
        >>> builder.property("owner", "flights").property("day", "monday").execute().properties()["day"]
        'monday'
        """
        self._properties[key] = str(value)
        return self

    def compatibleWith(self, release: str) -> TableBuilder:  # noqa: N802
        """Make a table that a release of pylance reads, such as `"pylance 1.0"`.

        It is `compatible_with` of [write_dataset][pennon.write_dataset]: the table remembers the release, and later
        writes of newer data files are refused.

        Parameters
        ----------
        release
            A library and a release of it.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> builder = LanceTable.create(spark).location(f"{folder}/flights.lance").addColumns("id bigint")
        >>> builder.compatibleWith("pylance 1.0").execute().properties()["pennon.compatible_with"]
        'pylance 1.0'
        """
        self._reader = release
        return self

    def execute(self) -> LanceTable:
        """Make the table, in one commit; another one drops properties that a replaced table had.

        Returns
        -------
        LanceTable
            The table, made or left as it was.

        Raises
        ------
        pennon.InvalidInputError
            There is no location, no column, two columns have one name, or `compatibleWith` names no release that is
            known, or one that does not read the table that is replaced.
        pennon.SchemaMismatchError
            The names of two columns differ by case only.
        pennon.AlreadyExistsError
            `create`, and there is a table.
        pennon.NotFoundError
            `replace`, and there is no table.

        Examples
        --------
        >>> from pyspark_pennon import LanceTable
        >>> builder = LanceTable.create(spark).location(f"{folder}/flights.lance").addColumns("id bigint")
        >>> table = builder.execute()
        >>> table.version, table.count()
        (1, 0)
        >>> LanceTable.create(spark).location(f"{folder}/trains.lance").execute()
        Traceback (most recent call last):
            ...
        pennon.errors.InvalidInputError: The table has no columns: add them by addColumn() or addColumns()
        """
        if self._uri is None:
            raise invalid("The table has no location: give its URI to location()")
        table: Any = tables.find_table(self._uri, self._storage_options)
        if table is None and self._verb is Verb.REPLACE:
            raise missing(f"There is no table to replace: {self._uri}", self._uri)
        if table is not None and self._verb is Verb.CREATE:
            raise exists(f"Dataset already exists: {self._uri}", self._uri)
        if table is None or self._verb.replaces:
            self._make(self._uri, table)
        return self._handle(self._spark, self._uri, self._storage_options)

    def _make(self, uri: str, table: Any) -> None:
        import pennon
        from pennon import jobs

        if not self._fields:
            raise invalid("The table has no columns: add them by addColumn() or addColumns()")
        columns = stored_columns(StructType(self._fields), drop_system_columns=False)
        for at, name in enumerate(columns.names):
            refuse_other_case(columns.names[:at], name)
        schema = new_table_schema(columns)
        plan = jobs.plan_overwrite(
            uri,
            schema,
            mode="create" if table is None else "overwrite",
            compatible_with=self._reader,
            config=self._properties,
            storage_options=stored(self._storage_options),
        )
        try:
            made = committed(plan, []).dataset
        except pennon.AlreadyExistsError:
            # Another writer made the table in the meantime.
            if self._verb is Verb.CREATE:
                raise
            if self._verb.replaces:
                self._make(uri, tables.open_table(ReadOptions(uri, self._storage_options)))
            return
        if table is None:
            return
        # An overwrite can add properties, but not remove any: that is a version of its own.
        operation: Any = made.read_transaction(made.version).operation
        dropped = dict.fromkeys(name for name in made.config() if name not in (operation.config_upserts or {}))
        if dropped:
            answered(lambda: made.update_config(dropped), f"the removal of properties of {uri}")


def _parsed(text: str, column: str) -> DataType:
    try:
        return parsed_type(text)
    except Exception as error:
        raise invalid(f"The type of column {column!r} is {text!r}, which is not a type of Spark") from error
