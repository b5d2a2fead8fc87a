"""Which address is that of a local path, read as the core reads it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

_SCHEMES = ("file", "file-object-store", "file+sqlite")


def local_path(uri: str) -> Path | None:
    """The path of a local address; None for one of a store, or of another host.

    A URI may be written `file:///path`, `file://localhost/path` or `file:/path`, with percent escapes. Parameters
    at its end are no part of the path. `%` in a plain path stands for itself.
    """
    scheme, _, rest = uri.partition(":")
    scheme = scheme.lower()
    if "://" not in uri and not (scheme == "file" and rest.startswith("/")):
        return Path(os.path.expanduser(uri) if uri == "~" or uri.startswith("~/") else uri)
    host, _, path = rest.removeprefix("//").partition("/")
    if scheme not in _SCHEMES or host.lower() not in ("", "localhost"):
        return None
    path = re.split("[?#]", path, maxsplit=1)[0]
    return Path(os.path.normpath("/" + unquote(path).lstrip("/")))
