"""What all methods of a dataset share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow.dataset

from pennon._compatibility import ExplainsAbsence
from pennon._table.handles import OpenedWhenUsed

if TYPE_CHECKING:
    from datetime import timedelta

    import pyarrow as pa

    from pennon._native import Dataset as NativeDataset
    from pennon.types import Durability

DatasetT = TypeVar("DatasetT", bound="TableMethods")


class TableMethods(ExplainsAbsence, pyarrow.dataset.Dataset):
    """A dataset without methods: its native handle, and the options of its scans."""

    if TYPE_CHECKING:
        _native: NativeDataset
        _unopened: Callable[[], NativeDataset]
    else:
        _native = OpenedWhenUsed()
    _default_scan_options: dict[str, Any]

    @classmethod
    def _wrap(
        cls: type[DatasetT],
        native: NativeDataset,
        *,
        default_scan_options: Mapping[str, Any] | None = None,
    ) -> DatasetT:
        found = cls.__new__(cls)
        found._native = native
        found._default_scan_options = dict(default_scan_options or {})
        return found

    def _like(self: DatasetT, native: NativeDataset) -> DatasetT:
        """Another version or branch, read with the same options."""
        return self._wrap(native, default_scan_options=self._default_scan_options)


def unpickled(kind: type[DatasetT], scan_options: dict[str, Any], *given: Any) -> DatasetT:
    """A dataset that is opened when it is first used."""
    found = kind.__new__(kind)
    found._default_scan_options, found._unopened = scan_options, partial(_reopened, kind, *given)
    return found


def _reopened(
    kind: Any,
    uri: str,
    version: int,
    storage_options: dict[str, str],
    durability: Durability,
    max_retries: int,
    commit_timeout: timedelta,
    columns: pa.Schema | None,
) -> NativeDataset:
    given: Any = {"durability": durability, "max_retries": max_retries, "commit_timeout": commit_timeout}
    found = kind(uri, version, storage_options=storage_options, **given)
    native: NativeDataset = (found if columns is None else found.with_new_columns(columns))._native
    return native
