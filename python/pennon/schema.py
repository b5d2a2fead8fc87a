"""The schema of a table with its field ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pennon._native import SchemaField

__all__ = ["LanceField", "LanceSchema"]


@dataclass(frozen=True)
class LanceField:
    """A field of the schema.

    Attributes
    ----------
    name
        Its name.
    id
        Its id, which it keeps when it is renamed.
    logical_type
        The name of its type in the table format.
    nullable
        Whether it may hold nulls.
    metadata
        Its metadata.
    """

    name: str
    id: int
    logical_type: str
    nullable: bool
    metadata: dict[str, str] = field(default_factory=dict)
    _children: tuple[LanceField, ...] = ()

    def children(self) -> list[LanceField]:
        """The fields inside."""
        return list(self._children)

    @classmethod
    def _of(cls, parts: SchemaField) -> LanceField:
        children = tuple(cls._of(child) for child in parts["children"])
        return cls(
            parts["name"], parts["id"], parts["logical_type"], parts["nullable"], parts["metadata"], children
        )


@dataclass(frozen=True)
class LanceSchema:
    """The fields of a table with their ids.

    Examples
    --------
    >>> import pennon
    >>> table = pennon.write_dataset({"a": [1]}, "memory://schema", mode="overwrite")
    >>> [(field.name, field.id, field.logical_type) for field in table.lance_schema.fields()]
    [('a', 0, 'int64')]
    """

    _fields: tuple[LanceField, ...]
    metadata: dict[str, str] = field(default_factory=dict)

    def fields(self) -> list[LanceField]:
        """The top-level fields."""
        return list(self._fields)

    def field(self, path: str) -> LanceField | None:
        """The field at a dotted path, None if there is none."""
        found: LanceField | None = None
        fields = self._fields
        for name in path.split("."):
            found = next((field for field in fields if field.name == name), None)
            if found is None:
                return None
            fields = found._children
        return found

    @classmethod
    def _of(cls, fields: Iterable[SchemaField], metadata: dict[str, str] | None = None) -> LanceSchema:
        return cls(tuple(LanceField._of(parts) for parts in fields), metadata or {})
