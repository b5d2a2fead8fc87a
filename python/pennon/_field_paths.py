"""Fields of a schema by their paths, as SQL writes these: a name with a dot is quoted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pennon.schema import LanceField


def field_paths(fields: Iterable[LanceField], parent: str = "") -> Iterator[tuple[str, LanceField]]:
    """Path and field, of some fields and of all below them."""
    for field in fields:
        path = f"{parent}{quoted(field.name)}"
        yield path, field
        yield from field_paths(field.children(), f"{path}.")


def quoted(name: str) -> str:
    """A name as it is in a path."""
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name
