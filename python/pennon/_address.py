"""Which address is that of a local path, read as the core reads it."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from pennon.errors import InvalidInputError

_SCHEMES = ("file", "file-object-store", "file+sqlite")


def local_path(uri: str) -> Path | None:
    """The path of a local address; None for one of a store, or of another host.

    A URI may be written `file:///path`, `file://localhost/path` or `file:/path`, with percent escapes. Parameters
    at its end are no part of the path. `%` and `#` in a plain path stand for themselves.

    Errors: InvalidInputError for `#` in a URI, and for one that is not UTF-8 when it is decoded.
    """
    scheme, _, rest = uri.partition(":")
    scheme = scheme.lower()
    if "://" not in uri and not (scheme == "file" and rest.startswith("/")):
        return Path(os.path.expanduser(uri) if uri == "~" or uri.startswith("~/") else uri)
    host, _, path = rest.removeprefix("//").partition("/")
    if scheme not in _SCHEMES or host.lower() not in ("", "localhost"):
        return None
    if "#" in path:
        raise _invalid(uri, 'found "#", expected none: in a name it is written %23')
    try:
        path = unquote(path.partition("?")[0], errors="strict")
    except UnicodeDecodeError as error:
        raise _invalid(uri, "its path is not UTF-8, expected percent-encoded UTF-8") from error
    return Path(os.path.normpath("/" + path.lstrip("/")))


def _invalid(uri: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f'Cannot understand the table address "{uri}": {reason}')
