"""What is there only because pylance has it: methods without effect, that are refused, and deprecated ones.

Each class is a base of the one that pylance's programs know, so the names are where pylance has them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from pennon._compatibility import ExplainsAbsence
from pennon._methods.commits import CommitMethods
from pennon._options import deprecated, ignored, strings
from pennon._table import scans
from pennon.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pennon._protocols import Table
    from pennon.types import WriteMode

BuilderT = TypeVar("BuilderT", bound="BuilderApi")


class BuilderApi(ExplainsAbsence):
    """Options of `ScannerBuilder` without effect on the result."""

    _dataset: Table

    def io_buffer_size(self: BuilderT, io_buffer_size: int | None) -> BuilderT:
        """Accepted, without effect: the core decides how many bytes it reads ahead.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://io-buffer-size", mode="overwrite")
        >>> pennon.ScannerBuilder(table).io_buffer_size(64 << 20).to_scanner().to_table().num_rows
        3
        """
        ignored(io_buffer_size=io_buffer_size)
        return self

    def batch_readahead(self: BuilderT, nbatches: int | None = None) -> BuilderT:
        """Accepted, without effect: the core decides how many batches it reads ahead.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://batch-readahead", mode="overwrite")
        >>> pennon.ScannerBuilder(table).batch_readahead(4).batch_size(2).to_scanner().to_table().num_rows
        3
        """
        ignored(batch_readahead=nbatches)
        return self

    def fragment_readahead(self: BuilderT, nfragments: int | None = None) -> BuilderT:
        """Accepted, without effect: the core decides how many fragments it reads ahead.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://fragment-readahead", mode="overwrite")
        >>> pennon.ScannerBuilder(table).fragment_readahead(2).to_scanner().to_table().num_rows
        3
        """
        ignored(fragment_readahead=nfragments)
        return self

    def late_materialization(self: BuilderT, late_materialization: bool | list[str] | None) -> BuilderT:
        """Accepted, without effect: the core decides which columns it reads after the filter.

        Raises
        ------
        pennon.InvalidInputError
            The value is neither a bool nor a list of names.
        pennon.NotFoundError
            There is no such column.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2], "b": ["x", "y"]}, "memory://late", mode="overwrite")
        >>> scan = pennon.ScannerBuilder(table).filter("a > 1").late_materialization(["b"]).to_scanner()
        >>> scan.to_table().to_pylist()
        [{'a': 2, 'b': 'y'}]
        """
        names = late_materialization if isinstance(late_materialization, list) else []
        is_known = late_materialization is None or isinstance(late_materialization, bool | list)
        if not is_known or not all(isinstance(name, str) for name in names):
            raise InvalidInputError(
                f"late_materialization must be a bool or a list of strings, got {late_materialization!r}"
            )
        if names:
            scans.check_columns(self._dataset._native, "late_materialization", names)
        ignored(late_materialization=late_materialization)
        return self


class ScannerApi(ExplainsAbsence, pyarrow.dataset.Scanner):
    """Methods of `LanceScanner` that are refused."""

    def take(self, indices: Sequence[int] | pa.Array) -> pa.Table:
        """Not supported: raises `UnsupportedError`. Use [LanceDataset.take][pennon.LanceDataset.take].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scanner-take", mode="overwrite")
        >>> table.scanner().take([0, 2])
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: A scanner cannot take rows; use LanceDataset.take
        >>> table.take([0, 2])["a"].to_pylist()
        [1, 3]
        """
        raise UnsupportedError("A scanner cannot take rows; use LanceDataset.take")

    def scan_batches(self) -> NoReturn:
        """Not supported: raises `UnsupportedError`. Use [to_batches][pennon.LanceScanner.to_batches].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://scan-batches", mode="overwrite")
        >>> table.scanner().scan_batches()
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: scan_batches is not supported; use to_batches
        >>> [batch.num_rows for batch in table.scanner().to_batches()]
        [3]
        """
        raise UnsupportedError("scan_batches is not supported; use to_batches")

    @staticmethod
    def from_dataset(*args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: raises `UnsupportedError`. Use [LanceDataset.scanner][pennon.LanceDataset.scanner].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://from-dataset", mode="overwrite")
        >>> pennon.LanceScanner.from_dataset(table, columns=["a"])
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: Use LanceDataset.scanner
        >>> table.scanner(columns=["a"]).count_rows()
        3
        """
        raise UnsupportedError("Use LanceDataset.scanner")

    @staticmethod
    def from_fragment(*args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: raises `UnsupportedError`. Use [LanceFragment.scanner][pennon.LanceFragment.scanner].

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://from-fragment", mode="overwrite")
        >>> fragment = table.get_fragment(0)
        >>> pennon.LanceScanner.from_fragment(fragment)
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: Use LanceFragment.scanner
        >>> fragment.scanner().count_rows()
        3
        """
        raise UnsupportedError("Use LanceFragment.scanner")

    @staticmethod
    def from_batches(*args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: raises `UnsupportedError`. Pyarrow scans batches that are in memory.

        Examples
        --------
        >>> import pennon
        >>> import pyarrow as pa, pyarrow.dataset
        >>> batches = pa.table({"a": [1, 2, 3]}).to_batches()
        >>> pennon.LanceScanner.from_batches(batches)
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: A LanceScanner reads tables only
        >>> pa.dataset.Scanner.from_batches(batches, schema=batches[0].schema).count_rows()
        3
        """
        raise UnsupportedError("A LanceScanner reads tables only")


class DatasetApi(CommitMethods):
    """Methods of `LanceDataset` that are deprecated or refused, or that another call replaces."""

    _written: Callable[..., Any]

    @classmethod
    def from_pydantic_model(
        cls,
        model_class: type[BaseModel],
        data: list[Any],
        uri: str | os.PathLike[str] | None = None,
        mode: WriteMode = "create",
        **kwargs: Any,
    ) -> Any:
        """Write models of pydantic to a table, as [write_dataset][pennon.write_dataset] does with a list of them.

        Parameters
        ----------
        model_class
            The class of the models, whose schema is that of
            [pydantic_to_schema][pennon.pydantic.pydantic_to_schema].
        data
            The models, at least one.
        uri
            Where the table is or will be; by default the name of the class in snake case.
        mode, kwargs
            As in [write_dataset][pennon.write_dataset].

        Raises
        ------
        pennon.InvalidTypeError
            The class is not one of models, the data is not a list, or an item of it has another class.

        Examples
        --------
        >>> import pennon, pydantic
        >>> class User(pydantic.BaseModel):
        ...     name: str
        >>> pennon.LanceDataset.from_pydantic_model(User, [User(name="Ada")], "memory://users", "overwrite")
        LanceDataset('memory://users', version=1, rows=1)
        """
        from pennon.pydantic import checked_model, models_to_table

        model = checked_model(model_class, data)
        if uri is None:
            uri = re.sub(r"(?<!^)(?=[A-Z])", "_", model.__name__).lower()
        return cls._written(models_to_table(data, model), uri, mode, **kwargs)

    def replace_schema_metadata(self, new_metadata: dict[str, str]) -> None:
        """Deprecated: use `update_schema_metadata(metadata, replace=True)`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://replace-metadata", mode="overwrite")
        >>> table.update_schema_metadata({"owner": "ada"})
        {'owner': 'ada'}
        >>> table.replace_schema_metadata({"team": "core"})
        >>> table.schema.metadata
        {b'team': b'core'}
        """
        deprecated("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self.update_schema_metadata({**strings(new_metadata, "new_metadata")}, replace=True)

    def replace_field_metadata(self, field_name: str, new_metadata: dict[str, str]) -> None:
        """Deprecated: use `update_field_metadata({path: metadata}, replace=True)`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://replace-field-metadata", mode="overwrite")
        >>> table.replace_field_metadata("a", {"unit": "m"})
        >>> table.schema.field("a").metadata
        {b'unit': b'm'}
        """
        deprecated("replace_field_metadata", "update_field_metadata({path: metadata}, replace=True)")
        self.update_field_metadata({field_name: {**strings(new_metadata, "new_metadata")}}, replace=True)

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        """The storage options that the table was opened with; `None` if there are none.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://initial-options", mode="overwrite")
        >>> print(table.initial_storage_options)
        None
        >>> options = {"timeout": "30s"}
        >>> pennon.dataset("memory://initial-options", storage_options=options).initial_storage_options
        {'timeout': '30s'}
        """
        return self._native.storage_options or None

    def latest_storage_options(self) -> dict[str, str] | None:
        """The same as `initial_storage_options`: storage options do not change while a table is open.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1]}, "memory://latest-options", mode="overwrite")
        >>> table = pennon.dataset("memory://latest-options", storage_options={"timeout": "30s"})
        >>> table.latest_storage_options()
        {'timeout': '30s'}
        """
        return self.initial_storage_options

    @property
    def partition_expression(self) -> pc.Expression:
        """Not supported, as in pylance: raises `UnsupportedError`. A Lance table is not partitioned.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://partition", mode="overwrite")
        >>> table.partition_expression
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: Tables have no partition expression
        """
        raise UnsupportedError("Tables have no partition expression")

    def filter(self, expression: pc.Expression) -> NoReturn:
        """Not supported: raises `UnsupportedError`. Use the filter of [scanner][pennon.LanceDataset.scanner].

        Examples
        --------
        >>> import pennon, pyarrow.compute as pc
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://filter-of", mode="overwrite")
        >>> table.filter(pc.field("a") > 1)
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: filter is not supported; use scanner(filter=...)
        >>> table.scanner(filter=pc.field("a") > 1).count_rows()
        2
        """
        raise UnsupportedError("filter is not supported; use scanner(filter=...)")

    def join(
        self,
        right_dataset: Any,
        keys: Any,
        right_keys: Any = None,
        join_type: str = "left outer",
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        coalesce_keys: bool = True,
        use_threads: bool = True,
    ) -> NoReturn:
        """Not supported: raises `UnsupportedError`. Join what was read, with pyarrow, DuckDB or Polars.

        Examples
        --------
        >>> import pennon
        >>> people = pennon.write_dataset({"id": [1, 2], "name": ["ann", "bob"]}, "memory://join", mode="overwrite")
        >>> ages = pennon.write_dataset({"id": [1, 2], "age": [30, 40]}, "memory://join-right", mode="overwrite")
        >>> people.join(ages, "id")
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: join is not supported; use to_table().join(...)
        >>> people.to_table().join(ages.to_table(filter="age > 30"), "id", join_type="inner").to_pylist()
        [{'id': 2, 'name': 'bob', 'age': 40}]
        """
        raise UnsupportedError("join is not supported; use to_table().join(...)")

    def join_asof(
        self,
        right_dataset: Any,
        on: str,
        by: Any,
        tolerance: int,
        right_on: str | None = None,
        right_by: Any = None,
    ) -> NoReturn:
        """Not supported: raises `UnsupportedError`. Join what was read, with pyarrow, DuckDB or Polars.

        Examples
        --------
        >>> import pennon
        >>> trades = pennon.write_dataset({"t": [5], "of": ["x"]}, "memory://join-asof", mode="overwrite")
        >>> quotes = pennon.write_dataset({"t": [3], "of": ["x"], "price": [7]}, "memory://asof", mode="overwrite")
        >>> trades.join_asof(quotes, "t", "of", -2)
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: join_asof is not supported; use to_table().join_asof(...)
        >>> trades.to_table().join_asof(quotes.to_table(), "t", "of", -2)["price"].to_pylist()
        [7]
        """
        raise UnsupportedError("join_asof is not supported; use to_table().join_asof(...)")

    def sort_by(self, sorting: Any, **kwargs: Any) -> NoReturn:
        """Not supported: raises `UnsupportedError`. A scan sorts by `order_by`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [2, 3, 1]}, "memory://sort-by", mode="overwrite")
        >>> table.sort_by("a")
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: sort_by is not supported; use to_table(order_by=[...])
        >>> table.to_table(order_by=["a"])["a"].to_pylist()
        [1, 2, 3]
        """
        raise UnsupportedError("sort_by is not supported; use to_table(order_by=[...])")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not supported, as in pylance: raises `UnsupportedError`. Use
        [alter_columns][pennon.LanceDataset.alter_columns], `add_columns` and `drop_columns`.

        Examples
        --------
        >>> import pennon
        >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://replace-schema", mode="overwrite")
        >>> table.replace_schema(table.schema.remove_metadata())
        Traceback (most recent call last):
            ...
        pennon.errors.UnsupportedError: replace_schema is not supported; use alter_columns, or add and drop columns
        >>> table.alter_columns({"path": "a", "name": "b"})
        >>> table.schema.names
        ['b']
        """
        raise UnsupportedError("replace_schema is not supported; use alter_columns, or add and drop columns")
