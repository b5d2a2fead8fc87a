"""Fragments and columns of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pennon import _native
from pennon._methods.scans import ScanMethods
from pennon._options import checked_names, checked_number
from pennon._table.columns import add, alteration
from pennon._table.keyed_data import new_columns
from pennon.bitmap import Bitmap
from pennon.fragment import LanceFragment
from pennon.udf import BatchUDF

if TYPE_CHECKING:
    from pennon._methods.base import DatasetT
    from pennon.types import AlterColumn, ReaderLike


class ColumnMethods(ScanMethods):
    """The methods of `LanceDataset` for its parts: fragments and columns."""

    def fragment_ids(self) -> Bitmap:
        """The ids of the fragments.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3]}
        >>> table = pennon.write_dataset(data, "memory://fragment-ids", mode="overwrite", max_rows_per_file=2)
        >>> table.fragment_ids()
        Bitmap({0, 1})
        """
        return Bitmap(fragment.id for fragment in self._native.fragments)

    def get_fragments(self, filter: pc.Expression | None = None) -> list[LanceFragment]:
        """The fragments in the table's order.

        Programs that scan datasets of pyarrow give a `filter`: no fragment is left out for it, scans of fragments
        take it too.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3]}
        >>> table = pennon.write_dataset(data, "memory://get-fragments", mode="overwrite", max_rows_per_file=2)
        >>> [fragment.count_rows() for fragment in table.get_fragments()]
        [2, 1]
        """
        del filter
        return [LanceFragment(self, None, fragment=fragment) for fragment in self._native.fragments]

    def _get_fragments(self, filter: pc.Expression | None) -> Iterator[LanceFragment]:
        # That of pyarrow looks into the empty object and ends the process.
        return iter(self.get_fragments(filter))

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment with this id; `None` if the version has no such fragment.

        Examples
        --------
        >>> import pennon
        >>> data = {"a": [1, 2, 3]}
        >>> table = pennon.write_dataset(data, "memory://get-fragment", mode="overwrite", max_rows_per_file=2)
        >>> table.get_fragment(1).to_table()["a"].to_pylist()
        [3]
        >>> table.get_fragment(7) is None
        True
        """
        found = self._native.fragment(checked_number("fragment_id", fragment_id, most=2**32 - 1))
        return None if found is None else LanceFragment(self, fragment_id, fragment=found)

    def add_columns(
        self,
        transforms: (
            dict[str, str]
            | BatchUDF
            | Callable[[pa.RecordBatch], Any]
            | ReaderLike
            | pa.Field
            | list[pa.Field]
            | pa.Schema
        ),
        read_columns: list[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Add columns to all rows, and move to the new version.

        This updates every row: `_row_last_updated_at_version` becomes the new version, unless the columns are null.

        Parameters
        ----------
        transforms
            A dict of names and SQL expressions; a function over batches, see [batch_udf][pennon.batch_udf]; rows to
            read, in the order of the table's; or fields, whose values are null, so that no file is written.
        read_columns
            The columns that a function gets, system columns such as `_rowid` included; by default all of the table.
        reader_schema
            Schema of the rows, if they have none of their own.
        batch_size
            The most rows that a function or an expression gets at once.

        Raises
        ------
        pennon.AlreadyExistsError
            The column exists, with the same type.
        pennon.SchemaMismatchError
            The column exists with another type, or a function returned columns that do not match its schema.
        pennon.InvalidInputError
            An expression does not parse or cannot be computed, there are too many or too few rows, or a column
            without values is not nullable.
        pennon.UnsupportedError
            Files of the table cannot hold the values, such as null structs without members.
        pennon.CommitConflictError
            Another writer changed rows or columns.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://add-columns", mode="overwrite")
        >>> table.add_columns({"double": "a * 2"})
        >>> table.add_columns(pa.field("note", pa.string()))
        >>> table.to_table().to_pylist()
        [{'a': 1, 'double': 2, 'note': None}, {'a': 2, 'double': 4, 'note': None}]
        """
        self._native = add(
            self._native, transforms, self, self.get_fragments, read_columns, reader_schema, batch_size
        )

    def with_new_columns(self: DatasetT, columns: pa.Field | list[pa.Field] | pa.Schema) -> DatasetT:
        """This version with more columns, null in all rows, as a new object.

        Nothing is committed. The first change of rows through the new object, an append, merge, update or delete,
        commits the columns with it, in one version, even if it finds no row; so does a job that is planned on it.
        Every other change is refused. What others do to other rows meanwhile does not matter. If they change the
        columns, that is a conflict: a merge, update or delete is made again on the newest version, with those of
        the columns that this does not have, and an append after `checkout_latest`.

        Parameters
        ----------
        columns
            Fields that may be null.

        Raises
        ------
        pennon.AlreadyExistsError
            A column exists, with the same type.
        pennon.SchemaMismatchError
            A column exists with another type.
        pennon.InvalidInputError
            A column is not nullable, none is given, or the object has such columns already.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"id": [1, 2]}, "memory://with-new-columns", mode="overwrite")
        >>> extended = table.with_new_columns(pa.field("note", pa.string()))
        >>> result = extended.merge_insert("id").when_matched_update_all().execute({"id": [2], "note": ["new"]})
        >>> extended.version, extended.to_table().sort_by("id").to_pylist()
        (2, [{'id': 1, 'note': None}, {'id': 2, 'note': 'new'}])
        """
        fields = [columns] if isinstance(columns, pa.Field) else columns
        return self._like(_native.with_columns(self._native, pa.schema(fields)))

    def alter_columns(self, *alterations: AlterColumn) -> None:
        """Change names, types, and whether columns may be null, and move to the new version.

        A new name or nullability only changes the schema. A column whose type changes is rewritten, which updates
        every row. Integers can become other integers and floats other floats; the same holds for times, decimals,
        texts, binaries and lists, as long as every value fits.

        Parameters
        ----------
        alterations
            Dicts of a `path` and any of `name`, `nullable` and `data_type`.

        Raises
        ------
        pennon.InvalidInputError
            There is no such column, its new name is taken, its values cannot be cast, or it holds nulls and would
            become not nullable.
        pennon.CommitConflictError
            Another writer changed columns, or rows of a column whose type changes.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://alter-columns", mode="overwrite")
        >>> table.alter_columns({"path": "a", "name": "b", "data_type": pa.int8()})
        >>> table.schema
        b: int8
        """
        self._native = _native.alter_columns(self._native, [alteration(one) for one in alterations])

    def drop_columns(self, columns: list[str]) -> None:
        """Drop columns, and move to the new version. Files keep the values until they are compacted.

        Parameters
        ----------
        columns
            Names, or paths of nested columns such as `a.b`.

        Raises
        ------
        pennon.InvalidInputError
            There is no such column, or none would be left.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1], "b": [2]}, "memory://drop-columns", mode="overwrite")
        >>> table.drop_columns(["a"])
        >>> table.schema.names
        ['b']
        """
        self._native = _native.drop_columns(self._native, checked_names("columns", columns))

    def merge(
        self, data_obj: ReaderLike, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> None:
        """Add the columns of other data to the rows that have the same key, and move to the new version.

        Rows without a match get null. If several rows of the data have the same key the last one counts; null
        matches null.

        Parameters
        ----------
        data_obj
            The data; it is held in memory.
        left_on
            The key in the table, which may be `_rowid` or `_rowaddr`.
        right_on
            The key in the data, by default of the same name. It is not added.
        schema
            Schema of the data, if it has none of its own; by default keys of Python and pandas get the type of the
            key in the table.

        Raises
        ------
        pennon.InvalidInputError
            A key does not exist, the keys have different types, a column is on both sides or is the index of a
            frame without a name, or a column that is not nullable has no value for some rows.
        pennon.CommitConflictError
            Another writer changed rows or columns.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://merge-new-columns", mode="overwrite")
        >>> table.merge({"a": [2], "b": ["two"]}, "a")
        >>> table.to_table().to_pylist()
        [{'a': 1, 'b': None}, {'a': 2, 'b': 'two'}]
        """
        reader, key = new_columns(self._native.schema, data_obj, left_on, right_on, schema)
        self._native = _native.merge_columns(self._native, reader, left_on, key)
