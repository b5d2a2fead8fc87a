"""What tags and branches have in common: names that can be counted, gone through and asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pennon._render import listed
from pennon.errors import PennonError


class Named:
    """Names in a table, of which `_native` has the list."""

    _native: Any
    _uri: str

    def __len__(self) -> int:
        return len(self._native.list())

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.list())

    def __contains__(self, name: object) -> bool:
        return name in self._native.list()

    def __repr__(self) -> str:
        kind = type(self).__name__
        try:
            found = self._native.list()
        except PennonError as error:  # whatever is wrong, an object can be shown
            return f"{kind}({self._uri!r}, unreadable: {type(error).__name__})"
        return f"{kind}({self._uri!r}, {listed(sorted(found), len(found))})"
