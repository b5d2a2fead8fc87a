"""Options of `nearest`: those of the wheel's search, and `fast_search`, which is one of the wheel's scans.

Names are checked on the driver: a task would name a method of the wheel that the caller never called.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pyspark_pennon.errors import invalid, suggestion, wrong_type

FAST_SEARCH = "fast_search"

_ARGUMENTS = {"q": "queries", "column": "column", "k": "k", "metric": "metric", "filter": "filter_sql"}
"""Options of the wheel that are arguments of `nearest`."""


def search_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options that a caller gave, with checked names.

    Raises
    ------
    ValueError
        One is unknown, or an argument of `nearest`.
    TypeError
        They are no dict, or `fast_search` is not a boolean.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise wrong_type(f"options must be a dict, found {type(options).__name__}")
    known = _known()
    for name in options:
        if name in _ARGUMENTS:
            raise invalid(f"'{name}' is not among the options of nearest: give the argument {_ARGUMENTS[name]}=")
        if name not in known:
            hint = suggestion(str(name), {option: option for option in known})
            raise invalid(f"Unknown option '{name}' of nearest; {hint}Options are: {', '.join(known)}")
    is_fast = options.get(FAST_SEARCH)
    if is_fast is not None and not isinstance(is_fast, bool):
        raise wrong_type(f"{FAST_SEARCH} must be a bool, found {is_fast!r}")
    return dict(options)


def _known() -> list[str]:
    import pennon

    parameters = inspect.signature(pennon.ScannerBuilder.nearest).parameters
    return sorted({*parameters, FAST_SEARCH} - {"self", *_ARGUMENTS})
