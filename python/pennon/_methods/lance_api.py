"""What a dataset has only because pylance's or pyarrow's has it, and does not support."""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from pennon._methods.base import TableMethods
from pennon.errors import UnsupportedError


class LanceApi(TableMethods):
    """Names of pylance and pyarrow that are refused."""

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
