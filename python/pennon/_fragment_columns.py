"""Columns of a fragment: added and rewritten without a commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from pennon import _native
from pennon._fragment_rows import FragmentRows
from pennon._table.keyed_data import new_columns, new_values
from pennon.errors import InvalidInputError
from pennon.metadata import FragmentMetadata
from pennon.schema import LanceSchema
from pennon.udf import BatchUDF, applied, normalize_transform

if TYPE_CHECKING:
    from pennon.types import ReaderLike


class FragmentColumns(FragmentRows):
    """The methods of `LanceFragment` that make columns."""

    def merge(
        self, data_obj: ReaderLike, left_on: str, right_on: str | None = None, schema: pa.Schema | None = None
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Add the columns of other data, without a commit.

        Parameters and errors as for [LanceDataset.merge][pennon.LanceDataset.merge].

        Returns
        -------
        tuple of FragmentMetadata and LanceSchema
            The fragment with its new file, and the schema, to be committed in a `LanceOperation.Merge` with all
            other fragments.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://fragment-merge", mode="overwrite")
        >>> fragment, schema = table.get_fragment(0).merge({"a": [2], "b": ["x"]}, "a")
        >>> merge = pennon.LanceOperation.Merge([fragment], schema)
        >>> pennon.LanceDataset.commit(table, merge, read_version=1).to_table().to_pylist()
        [{'a': 1, 'b': None}, {'a': 2, 'b': 'x'}]
        """
        native = self._dataset._native
        reader, key = new_columns(native.schema, data_obj, left_on, right_on, schema)
        return self._evolved(_native.merge_columns_in_fragment(native, self.fragment_id, reader, left_on, key))

    @overload
    def update_columns(
        self,
        data_obj: ReaderLike,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: Literal[False] = False,
    ) -> tuple[FragmentMetadata, list[int]]: ...
    @overload
    def update_columns(
        self,
        data_obj: ReaderLike,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: Literal[True],
    ) -> tuple[FragmentMetadata, list[int], bytes]: ...
    def update_columns(
        self,
        data_obj: ReaderLike,
        left_on: str = "_rowid",
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        with_offsets: bool = False,
    ) -> tuple[FragmentMetadata, list[int]] | tuple[FragmentMetadata, list[int], bytes]:
        """Rewrite columns, with the values of other data in rows that have the same key, without a commit.

        Parameters
        ----------
        data_obj
            The new values and the keys. If several rows have the same key the last one counts. They are cast to the
            types of the table, unless that would change a value, as in
            [update_rows][pennon.LanceDataset.update_rows].
        left_on
            The key in this fragment, which may be `_rowid` or `_rowaddr`.
        right_on
            The key in the data, by default `left_on`.
        schema
            Schema of the data, if it has none of its own; by default values of Python and pandas get the types of
            the table.
        with_offsets
            Whether to return the offsets of the matching rows as well. A commit with them marks these rows as last
            updated in its version.

        Returns
        -------
        tuple of FragmentMetadata, list of int and, with `with_offsets`, bytes
            The fragment with its new file and the ids of the fields it replaces, to be committed in a
            `LanceOperation.Update` of mode `"rewrite_columns"`; the offsets as a roaring bitmap.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2], "b": ["x", "y"]}, "memory://columns", mode="overwrite")
        >>> new = {"a": [2], "b": ["Y"]}
        >>> fragment, fields, offsets = table.get_fragment(0).update_columns(new, "a", with_offsets=True)
        >>> update = pennon.LanceOperation.Update(
        ...     updated_fragments=[fragment],
        ...     fields_modified=fields,
        ...     update_mode="rewrite_columns",
        ...     updated_fragment_offsets={0: offsets},
        ... )
        >>> pennon.LanceDataset.commit(table, update, read_version=1).to_table().to_pylist()
        [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'Y'}]
        """
        reader, key = new_values(self._dataset._native.schema, data_obj, left_on, right_on, schema)
        for name in ("_rowid", "_rowaddr"):
            if name in reader.schema.names and name != key:
                raise InvalidInputError(f"The metadata column {name} cannot be updated")
        parts, fields, offsets = _native.update_columns_in_fragment(
            self._dataset._native, self.fragment_id, reader, left_on, key
        )
        fragment = FragmentMetadata._of(parts)
        return (fragment, fields, offsets) if with_offsets else (fragment, fields)

    def merge_columns(
        self,
        value_func: dict[str, str] | BatchUDF | Callable[[pa.RecordBatch], Any] | ReaderLike,
        columns: list[str] | None = None,
        batch_size: int | None = None,
        reader_schema: pa.Schema | None = None,
    ) -> tuple[FragmentMetadata, LanceSchema]:
        """Add columns, without a commit.

        Parameters and errors as for [LanceDataset.add_columns][pennon.LanceDataset.add_columns]; the result
        is that of `merge`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://merge-columns", mode="overwrite")
        >>> fragment, schema = table.get_fragment(0).merge_columns({"b": "a * 2"})
        >>> merge = pennon.LanceOperation.Merge([fragment], schema)
        >>> pennon.LanceDataset.commit(table.uri, merge, read_version=1).to_table().to_pylist()
        [{'a': 1, 'b': 2}, {'a': 2, 'b': 4}]
        """
        new = normalize_transform(value_func, self, columns, reader_schema)
        native = self._dataset._native
        if isinstance(new, dict):
            expressions = list(new.items())
            return self._evolved(
                _native.add_expressions_in_fragment(native, self.fragment_id, expressions, batch_size)
            )
        if isinstance(new, BatchUDF):
            if new.cache is not None:
                raise InvalidInputError("A checkpoint file cannot be used for a single fragment")
            new = applied(new, [self], columns, batch_size)
        return self._evolved(_native.add_values_in_fragment(native, self.fragment_id, new))

    @staticmethod
    def _evolved(parts: tuple[_native.FragmentParts, _native.SchemaParts]) -> tuple[FragmentMetadata, LanceSchema]:
        fragment, schema = parts
        return FragmentMetadata._of(fragment), LanceSchema._of(schema)
