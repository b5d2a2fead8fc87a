"""What is there only because pylance has it: methods without effect, that are refused, and deprecated ones.

Each class is a base of the one that pylance's programs know, so the names are where pylance has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from pennon._methods.commits import CommitMethods
from pennon._options import deprecated
from pennon.errors import UnsupportedError

BuilderT = TypeVar("BuilderT", bound="BuilderApi")


class BuilderApi:
    """Options of `ScannerBuilder` without effect on the result."""

    def io_buffer_size(self: BuilderT, io_buffer_size: int | None) -> BuilderT:
        """Accepted, without effect: the core decides."""
        return self

    def batch_readahead(self: BuilderT, nbatches: int | None = None) -> BuilderT:
        """Accepted, without effect: the core decides."""
        return self

    def fragment_readahead(self: BuilderT, nfragments: int | None = None) -> BuilderT:
        """Accepted, without effect: the core decides."""
        return self

    def late_materialization(self: BuilderT, late_materialization: bool | list[str] | None) -> BuilderT:
        """Accepted, without effect: the core decides."""
        return self

    def use_scalar_index(self: BuilderT, use_scalar_index: bool | None = True) -> BuilderT:
        """Accepted, without effect: the result is the same."""
        return self

    def prefilter(self: BuilderT, prefilter: bool | None) -> BuilderT:
        """Accepted, without effect: it only matters for vector search."""
        return self

    def fast_search(self: BuilderT, flag: bool | None) -> BuilderT:
        """Accepted, without effect: it only matters for index searches."""
        return self


class ScannerApi(pyarrow.dataset.Scanner):
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
    """Methods of `LanceDataset` that are deprecated or refused."""

    def replace_schema_metadata(self, new_metadata: dict[str, str]) -> None:
        """Deprecated: use `update_schema_metadata(..., replace=True)`."""
        deprecated("replace_schema_metadata", "update_schema_metadata(metadata, replace=True)")
        self.update_schema_metadata(dict(new_metadata), replace=True)

    def replace_field_metadata(self, field_name: str, new_metadata: dict[str, str]) -> None:
        """Deprecated: use `update_field_metadata(..., replace=True)`."""
        deprecated("replace_field_metadata", "update_field_metadata({path: metadata}, replace=True)")
        self.update_field_metadata({field_name: dict(new_metadata)}, replace=True)

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
