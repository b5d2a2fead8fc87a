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
from pennon._options import deprecated, ignored
from pennon.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pennon.types import WriteMode

BuilderT = TypeVar("BuilderT", bound="BuilderApi")


class BuilderApi(ExplainsAbsence):
    """Options of `ScannerBuilder` without effect on the result."""

    def io_buffer_size(self: BuilderT, io_buffer_size: int | None) -> BuilderT:
        """Accepted, without effect: the core decides."""
        ignored(io_buffer_size=io_buffer_size)
        return self

    def batch_readahead(self: BuilderT, nbatches: int | None = None) -> BuilderT:
        """Accepted, without effect: the core decides."""
        ignored(batch_readahead=nbatches)
        return self

    def fragment_readahead(self: BuilderT, nfragments: int | None = None) -> BuilderT:
        """Accepted, without effect: the core decides."""
        ignored(fragment_readahead=nfragments)
        return self

    def late_materialization(self: BuilderT, late_materialization: bool | list[str] | None) -> BuilderT:
        """Accepted, without effect: the core decides. Raises `InvalidInputError` for other values."""
        names = late_materialization if isinstance(late_materialization, list) else []
        is_known = late_materialization is None or isinstance(late_materialization, bool | list)
        if not is_known or not all(isinstance(name, str) for name in names):
            raise InvalidInputError(
                f"late_materialization must be a bool or a list of strings, got {late_materialization!r}"
            )
        ignored(late_materialization=late_materialization)
        return self


class ScannerApi(ExplainsAbsence, pyarrow.dataset.Scanner):
    """Methods of `LanceScanner` that are refused."""

    def take(self, indices: Sequence[int] | pa.Array) -> pa.Table:
        """Not supported; see [LanceDataset.take][pennon.LanceDataset.take]."""
        raise UnsupportedError("A scanner cannot take rows; use LanceDataset.take")

    def scan_batches(self) -> NoReturn:
        """Not supported; see `to_batches`."""
        raise UnsupportedError("scan_batches is not supported; use to_batches")

    @staticmethod
    def from_dataset(*args: Any, **kwargs: Any) -> NoReturn:
        """Not supported; see [LanceDataset.scanner][pennon.LanceDataset.scanner]."""
        raise UnsupportedError("Use LanceDataset.scanner")

    @staticmethod
    def from_fragment(*args: Any, **kwargs: Any) -> NoReturn:
        """Not supported; see [LanceFragment.scanner][pennon.LanceFragment.scanner]."""
        raise UnsupportedError("Use LanceFragment.scanner")

    @staticmethod
    def from_batches(*args: Any, **kwargs: Any) -> NoReturn:
        """Not supported."""
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
        """Deprecated: use `update_schema_metadata(..., replace=True)`."""
        deprecated("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self.update_schema_metadata(dict(new_metadata), replace=True)

    def replace_field_metadata(self, field_name: str, new_metadata: dict[str, str]) -> None:
        """Deprecated: use `update_field_metadata(..., replace=True)`."""
        deprecated("replace_field_metadata", "update_field_metadata({path: metadata}, replace=True)")
        self.update_field_metadata({field_name: dict(new_metadata)}, replace=True)

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        """The storage options that the table was opened with; `None` if there are none."""
        return self._native.storage_options or None

    def latest_storage_options(self) -> dict[str, str] | None:
        """The same: storage options do not change."""
        return self.initial_storage_options

    @property
    def partition_expression(self) -> pc.Expression:
        """Not supported, as in pylance."""
        raise UnsupportedError("Tables have no partition expression")

    def filter(self, expression: pc.Expression) -> NoReturn:
        """Not supported; use the filter of `scanner`."""
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
        """Not supported; use duckdb or polars."""
        raise UnsupportedError("join is not supported")

    def join_asof(
        self,
        right_dataset: Any,
        on: str,
        by: Any,
        tolerance: int,
        right_on: str | None = None,
        right_by: Any = None,
    ) -> NoReturn:
        """Not supported; use duckdb or polars."""
        raise UnsupportedError("join_asof is not supported")

    def sort_by(self, sorting: Any, **kwargs: Any) -> NoReturn:
        """Not supported; sort the table that was read."""
        raise UnsupportedError("sort_by is not supported")

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not supported, as in pylance."""
        raise UnsupportedError("replace_schema is not supported")
