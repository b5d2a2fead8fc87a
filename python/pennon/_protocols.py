"""What the modules below `LanceDataset` need of one, so that they do not import it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon import _native

TableT = TypeVar("TableT", bound="Table")


class Handle(Protocol):
    """An object that is moved to another version by giving it another native handle."""

    _native: _native.Dataset


class Table(Handle, Protocol):
    """A dataset, as scans, fragments and deltas use it."""

    _default_scan_options: dict[str, Any]

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    def checkout_version(self: TableT, version: int) -> TableT:
        """Another version."""
        ...

    def _scan(self, options: Any) -> Scan:
        """Plan a scan without the default options."""
        ...


class Numbered(Protocol):
    """A fragment, as far as a scan needs it."""

    @property
    def fragment_id(self) -> int:
        """Its id."""
        ...


class Scan(Protocol):
    """A planned scan."""

    @property
    def projected_schema(self) -> pa.Schema:
        """Columns of the result."""
        ...

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        ...


class Scannable(Protocol):
    """A dataset or a fragment, as user functions read it."""

    def _scan(self, options: Any) -> Scan:
        """Plan a scan without the default options."""
        ...


class ScannedFragment(Scannable, Numbered, Protocol):
    """A fragment whose rows a user function gets."""

    @property
    def metadata(self) -> Any:
        """Its metadata."""
        ...
