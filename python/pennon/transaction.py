"""Transactions: what the commits of a table changed. Here to look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.fragment import FragmentMetadata
from pennon.schema import LanceSchema

if TYPE_CHECKING:
    from pennon import _native

__all__ = ["LanceOperation", "Transaction"]


class LanceOperation:
    """The operations a transaction can be. Those without attributes are told apart, not looked into."""

    @dataclass
    class BaseOperation:
        """What all operations have in common."""

    @dataclass
    class Append(BaseOperation):
        """Adds fragments."""

        fragments: list[FragmentMetadata]

    @dataclass
    class Delete(BaseOperation):
        """Deletes rows."""

        updated_fragments: list[FragmentMetadata]
        deleted_fragment_ids: list[int]
        predicate: str

    @dataclass
    class Overwrite(BaseOperation):
        """Replaces everything, or creates the table."""

        new_schema: LanceSchema
        fragments: list[FragmentMetadata]

    @dataclass
    class Restore(BaseOperation):
        """Goes back to an older version."""

        version: int

    @dataclass
    class Clone(BaseOperation):
        """Copies a version of another table."""

    @dataclass
    class CreateIndex(BaseOperation):
        """Adds and removes index entries."""

    @dataclass
    class DataOverlay(BaseOperation):
        """Replaces cells."""

    @dataclass
    class DataReplacement(BaseOperation):
        """Replaces data files column by column."""

    @dataclass
    class Merge(BaseOperation):
        """Changes columns and the whole fragment list."""

    @dataclass
    class Project(BaseOperation):
        """Drops or renames columns."""

    @dataclass
    class ReserveFragments(BaseOperation):
        """Takes fragment ids."""

    @dataclass
    class Rewrite(BaseOperation):
        """Moves rows to other fragments without changing them."""

    @dataclass
    class Unknown(BaseOperation):
        """An operation that this release has not heard of."""

    @dataclass
    class Update(BaseOperation):
        """Changes, adds and deletes rows."""

    @dataclass
    class UpdateBases(BaseOperation):
        """Adds roots."""

    @dataclass
    class UpdateConfig(BaseOperation):
        """Changes config and metadata."""

    @dataclass
    class UpdateMemWalState(BaseOperation):
        """Changes the state of in-memory logs."""


@dataclass
class Transaction:
    """One commit, as its writer asked for it.

    Attributes
    ----------
    read_version
        The version its writer looked at; 0 when it created the table.
    operation
        The change, one of [LanceOperation][pennon.LanceOperation]'s classes.
    uuid
        Its identity.
    transaction_properties
        What the writer noted.
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = ""
    transaction_properties: dict[str, str] = field(default_factory=dict)

    @classmethod
    def _of(cls, parts: _native.TransactionParts) -> Transaction:
        return cls(parts["read_version"], _operation(parts), parts["uuid"], parts["properties"])


def _operation(parts: _native.TransactionParts) -> LanceOperation.BaseOperation:
    fragments = [FragmentMetadata._of(fragment) for fragment in parts["fragments"] or []]
    name = parts["operation"]
    if name == "Append":
        return LanceOperation.Append(fragments)
    if name == "Delete":
        deleted = parts["deleted_fragment_ids"] or []
        return LanceOperation.Delete(fragments, deleted, parts["predicate"] or "")
    if name == "Overwrite":
        return LanceOperation.Overwrite(LanceSchema._of(parts["schema"] or []), fragments)
    if name == "Restore":
        return LanceOperation.Restore(parts["version"] or 0)
    operation: LanceOperation.BaseOperation = getattr(LanceOperation, name)()
    return operation
