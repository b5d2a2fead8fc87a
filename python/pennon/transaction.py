"""Transactions: what commits change."""

from __future__ import annotations

import uuid as _uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pennon._compatibility import ExplainsAbsence
from pennon._options import deprecated
from pennon._time import EPOCH
from pennon.errors import InvalidTypeError
from pennon.metadata import DataFile, FragmentMetadata
from pennon.schema import LanceSchema

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon import _native

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "DatasetBasePath",
    "Index",
    "IndexFile",
    "LanceOperation",
    "Transaction",
]

LANCE_COMMIT_MESSAGE_KEY = "__lance_commit_message"
"""The transaction property that holds the commit message."""


@dataclass(frozen=True)
class DatasetBasePath:
    """A further root of the files of a table.

    Attributes
    ----------
    path
        Path or URI.
    name
        A name to refer to the root by, in `target_bases`.
    is_dataset_root
        Whether files are in `data/`, `_deletions/` ... below it, or directly in it.
    id
        The number by which files refer to it; by default the commit assigns one.

    Examples
    --------
    >>> import pennon
    >>> pennon.DatasetBasePath("s3://cold/people", name="cold").name
    'cold'
    """

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int | None = None


@dataclass
class IndexFile:
    """A file of an index.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://index-file", mode="overwrite")
    >>> table.create_scalar_index("a", "BITMAP")
    >>> (entry,) = table.index_entries("a_idx")
    >>> [(file.path, file.size_bytes > 0) for file in entry.files]
    [('bitmap_page_lookup.lance', True)]
    """

    path: str
    size_bytes: int


@dataclass
class Index:
    """An index entry, one segment of an index.

    Attributes
    ----------
    uuid
        Name of its directory.
    name
        Entries of the same name are segments of the same index.
    fields
        Ids of the indexed fields.
    dataset_version
        The version that was read when it was first built.
    fragment_ids
        The fragments it covers; `None` if not recorded.
    index_version
        Version of its files.
    created_at
        When it was created, in UTC.
    base_id
        The root of its files; `None` for the table's own.
    files
        Its files.
    index_details
        Type URL and bytes of details that depend on the kind of index.
    covering_fields
        Ids of fields whose values it holds.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://index-entry", mode="overwrite")
    >>> table.create_scalar_index("a", "BTREE")
    >>> (entry,) = table.index_entries("a_idx")
    >>> entry.name, entry.fields, entry.dataset_version, entry.fragment_ids
    ('a_idx', [0], 1, {0})
    """

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: set[int] | None
    index_version: int | None
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    index_details: tuple[str, bytes] | None = None
    covering_fields: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.fragment_ids is not None:
            self.fragment_ids = set(self.fragment_ids)

    @property
    def _created_at_ms(self) -> int | None:
        return None if self.created_at is None else (self.created_at - EPOCH) // timedelta(milliseconds=1)


class LanceOperation(ExplainsAbsence):
    """The operations a transaction can be.

    Lists are checked when an operation is made, everything else when it is committed.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2]}, "memory://operation", mode="overwrite")
    >>> new = pennon.fragment.write_fragments({"a": [3]}, table)
    >>> pennon.LanceDataset.commit(table, pennon.LanceOperation.Append(new), read_version=1)
    LanceDataset('memory://operation', version=2, rows=3)
    >>> pennon.LanceDataset.commit(table, pennon.LanceOperation.Restore(1))
    LanceDataset('memory://operation', version=3, rows=2)
    """

    @dataclass
    class BaseOperation:
        """What all operations have in common."""

        def __post_init__(self) -> None:
            for name in ("fragments", "updated_fragments", "new_fragments"):
                _check_fragments(getattr(self, name, []))

    @dataclass
    class Append(BaseOperation):
        """Adds fragments."""

        fragments: list[FragmentMetadata]

    @dataclass
    class Delete(BaseOperation):
        """Deletes rows: fragments with new deletion files, and ids of fragments without a row left."""

        updated_fragments: list[FragmentMetadata]
        deleted_fragment_ids: list[int]
        predicate: str

    @dataclass
    class Overwrite(BaseOperation):
        """Replaces everything, or creates the table.

        `config_upserts` are settings to keep; pylance has no such attribute.
        """

        new_schema: LanceSchema | pa.Schema
        fragments: list[FragmentMetadata]
        initial_bases: list[DatasetBasePath] | None = None
        config_upserts: dict[str, str] | None = field(default=None, repr=False)

    @dataclass
    class Restore(BaseOperation):
        """Makes an older version the newest one again."""

        version: int

    @dataclass
    class Clone(BaseOperation):
        """Copies a version of another table; read, not committed."""

        is_shallow: bool
        ref_name: str | None
        ref_version: int
        ref_path: str
        branch_name: str | None

    @dataclass
    class CreateIndex(BaseOperation):
        """Adds and removes index entries."""

        new_indices: list[Index]
        removed_indices: list[Index]

    @dataclass
    class DataOverlayGroup:
        """Overlays of a fragment, encoded."""

        fragment_id: int
        overlays: list[bytes]

    @dataclass
    class DataOverlay(BaseOperation):
        """Replaces cells; read, not committed."""

        groups: list[LanceOperation.DataOverlayGroup]

    @dataclass
    class DataReplacementGroup:
        """A new file for a fragment, with the fields of the one it replaces."""

        fragment_id: int
        new_file: DataFile

    @dataclass
    class DataReplacement(BaseOperation):
        """Replaces data files column by column."""

        replacements: list[LanceOperation.DataReplacementGroup]

    @dataclass
    class Merge(BaseOperation):
        """Changes columns and the whole fragment list."""

        fragments: list[FragmentMetadata]
        schema: LanceSchema | pa.Schema
        preserves_nullability: bool = False

        def __post_init__(self) -> None:
            super().__post_init__()
            if not isinstance(self.schema, LanceSchema):
                deprecated("Passing a pyarrow.Schema to Merge", "a LanceSchema")

    @dataclass
    class Project(BaseOperation):
        """Drops, renames or reorders columns."""

        schema: LanceSchema
        preserves_nullability: bool = False

    @dataclass
    class ReserveFragments(BaseOperation):
        """Reserves fragment ids."""

        num_fragments: int

    @dataclass
    class RewriteGroup:
        """Fragments that are replaced together."""

        old_fragments: list[FragmentMetadata]
        new_fragments: list[FragmentMetadata]

        def __post_init__(self) -> None:
            _check_fragments(self.old_fragments)
            _check_fragments(self.new_fragments)

    @dataclass
    class RewrittenIndex:
        """An index whose files were rewritten for the moved rows."""

        old_id: str
        new_id: str
        new_details_type_url: str
        new_details_value: bytes
        new_index_version: int

    @dataclass
    class Rewrite(BaseOperation):
        """Moves rows to other fragments without changing them."""

        groups: list[LanceOperation.RewriteGroup]
        rewritten_indices: list[LanceOperation.RewrittenIndex]

    @dataclass
    class Unknown(BaseOperation):
        """An operation unknown to this release; its number in the format."""

        number: int

    @dataclass
    class Update(BaseOperation):
        """Changes, adds and deletes rows.

        `update_mode` is `"rewrite_rows"` (also when empty) or `"rewrite_columns"`. `updated_fragment_offsets`
        holds roaring bitmaps by fragment. `inserted_rows` is the encoded filter of inserted keys, which pylance
        omits.
        """

        removed_fragment_ids: list[int] = field(default_factory=list)
        updated_fragments: list[FragmentMetadata] = field(default_factory=list)
        new_fragments: list[FragmentMetadata] = field(default_factory=list)
        fields_modified: list[int] = field(default_factory=list)
        fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
        update_mode: str = ""
        updated_fragment_offsets: dict[int, bytes] | None = None
        inserted_rows: bytes | None = field(default=None, repr=False)

    @dataclass
    class UpdateBases(BaseOperation):
        """Adds base paths."""

        new_bases: list[DatasetBasePath]

    @dataclass
    class UpdateMap:
        """New values of a map of strings; a key with `None` is removed. With `replace` the map is cleared first."""

        updates: dict[str, str | None]
        replace: bool = False

    @dataclass
    class UpdateConfig(BaseOperation):
        """Changes config and metadata; that of fields by their ids."""

        config_updates: LanceOperation.UpdateMap | None = None
        table_metadata_updates: LanceOperation.UpdateMap | None = None
        schema_metadata_updates: LanceOperation.UpdateMap | None = None
        field_metadata_updates: dict[int, LanceOperation.UpdateMap] | None = None

    @dataclass
    class UpdateMemWalState(BaseOperation):
        """Changes the state of in-memory logs, encoded; read, not committed."""

        compacted_sstables: list[bytes]


@dataclass
class Transaction:
    """A change to commit.

    Committing the same transaction again returns the version that the first commit made.

    Attributes
    ----------
    read_version
        The version the change was made for; 0 if it creates the table.
    operation
        The change, one of [LanceOperation][pennon.LanceOperation]'s classes.
    uuid
        Identity of the transaction.
    transaction_properties
        Notes of the writer; the commit message is under `__lance_commit_message`.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1, 2, 3]}, "memory://transaction", mode="overwrite")
    >>> transaction = table.read_transaction(1)
    >>> transaction.read_version, type(transaction.operation).__name__
    (0, 'Overwrite')
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(_uuid.uuid4()))
    transaction_properties: dict[str, str] | None = field(default_factory=dict)

    @classmethod
    def _of(cls, parts: _native.TransactionParts) -> Transaction:
        operation = getattr(LanceOperation, parts["operation"])(**_convert(parts["parts"]))
        return cls(parts["read_version"], operation, parts["uuid"], parts["properties"])


def _check_fragments(fragments: Any) -> None:
    wrong = [fragments]
    if isinstance(fragments, list):
        wrong = [part for part in fragments if not isinstance(part, FragmentMetadata)]
    if wrong:
        raise InvalidTypeError(f"fragments must be list[FragmentMetadata], got {type(wrong[0])}")


def _convert(parts: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a class, from those of the core."""
    return {name: value if value is None else _MAKE.get(name, _same)(value) for name, value in parts.items()}


def _same(value: Any) -> Any:
    return value


def _each(make: Callable[..., Any]) -> Callable[[Iterable[Any]], list[Any]]:
    return lambda values: [make(**_convert(parts)) for parts in values]


def index_of(parts: Any) -> Index:
    """The entry that the core says."""
    return Index(**_convert(parts))


def _fragments(values: Iterable[_native.FragmentParts]) -> list[FragmentMetadata]:
    return [FragmentMetadata._of(parts) for parts in values]


def _groups(values: list[dict[str, Any]]) -> list[Any]:
    overlays = bool(values) and "overlays" in values[0]
    return _each(LanceOperation.DataOverlayGroup if overlays else LanceOperation.RewriteGroup)(values)


def _update_map(parts: dict[str, Any]) -> LanceOperation.UpdateMap:
    return LanceOperation.UpdateMap(**parts)


_MAKE: dict[str, Callable[[Any], Any]] = {
    "config_updates": _update_map,
    "created_at": lambda ms: EPOCH + timedelta(milliseconds=ms),
    "field_metadata_updates": lambda updates: {id: _update_map(parts) for id, parts in updates.items()},
    "files": _each(IndexFile),
    "fragments": _fragments,
    "groups": _groups,
    "initial_bases": _each(DatasetBasePath),
    "new_bases": _each(DatasetBasePath),
    "new_file": lambda parts: DataFile(**parts),
    "new_fragments": _fragments,
    "new_indices": _each(Index),
    "new_schema": LanceSchema._of,
    "old_fragments": _fragments,
    "removed_indices": _each(Index),
    "replacements": _each(LanceOperation.DataReplacementGroup),
    "rewritten_indices": _each(LanceOperation.RewrittenIndex),
    "schema": LanceSchema._of,
    "schema_metadata_updates": _update_map,
    "table_metadata_updates": _update_map,
    "updated_fragments": _fragments,
}
