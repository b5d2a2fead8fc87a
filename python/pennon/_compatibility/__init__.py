"""Names of pylance that Pennon does not have: errors that say why, and what to use instead.

The sentences come from the table in this folder, which has a line for each public name of pylance: `package.json`
and `dataset.json` those of the modules of these names, `modules.json` those of the others, `reasons.json` the
reasons that many lines have. `tests/compatibility.py` describes the table. It is read when a name is first missed.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from pennon.errors import AbsentImportError, AbsentNameError

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["ExplainsAbsence", "explain_absent_modules", "explain_absent_names", "raise_missing"]

if TYPE_CHECKING:
    # What is absent shall stay unknown to type checkers.
    ExplainsAbsence = object
else:

    class _ExplainsAbsence(type):
        def __getattr__(cls, name: str) -> NoReturn:
            _explain_member(cls, name)
            return type.__getattribute__(cls, name)

    class ExplainsAbsence(metaclass=_ExplainsAbsence):
        """A class that raises `AbsentNameError` for members that only pylance's class of the same name has."""

        def __getattr__(self, name: str) -> Any:
            _explain_member(type(self), name)
            # A property may have raised an AttributeError of its own.
            return object.__getattribute__(self, name)


def explain_absent_names(module: str) -> None:
    """Let a module raise `AbsentNameError` for names that only pylance's module has."""

    def __getattr__(name: str) -> NoReturn:  # noqa: N807
        raise_missing(module, name, sys._getframe(1))

    sys.modules[module].__getattr__ = __getattr__  # type: ignore[method-assign]


def raise_missing(module: str, name: str, caller: FrameType) -> NoReturn:
    """Raise the error for a name that a module does not have, and that this frame looks up."""
    prefix = module.partition(".")[2]
    sentence = None if name.startswith("_") else explanation(f"{prefix}.{name}" if prefix else name)
    if sentence is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    if _is_import(caller):
        raise AbsentImportError(sentence, name=name)
    raise AbsentNameError(sentence, name=name)


def explain_absent_modules() -> None:
    """Let the import of a module that only pylance has raise `AbsentImportError`."""
    if _AbsentModules not in sys.meta_path:
        # Asked after all others, so it costs nothing where a module is found.
        sys.meta_path.append(_AbsentModules)


def explanation(name: str) -> str | None:
    """Why pylance's name is absent, and what to use instead; `None` if it is not a name of pylance that is absent.

    Examples
    --------
    >>> print(explanation("LanceDataset.mem_wal_writer"))
    pylance's `LanceDataset.mem_wal_writer` is not offered by Pennon...
    >>> explanation("LanceDataset.to_table") is None
    True
    """
    rows, reasons = _table()
    row = rows.get(name, {})
    if row.get("is") != "absent":
        return None
    sentence = f"pylance's `{name}` is not offered by Pennon"
    original = row.get("alias")
    if original in rows and rows[original]["is"] != "absent":
        return f"{sentence} under this name. Use `pennon.{original}`"
    while original:
        # A module that is absent as a whole has one line.
        row = rows.get(original, row)
        original = original.rpartition(".")[0] if original not in rows else None
    reason = reasons.get(row.get("why", ""), {"why": row.get("why", "")})
    use = row.get("use", reason.get("use"))
    return f"{sentence}: {reason['why']}" + (f". Use {use}" if use else "")


class _AbsentModules:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Looks up nothing, and raises if pylance has a module of the name."""
        del path, target
        package, _, module = name.partition(".")
        if package == "pennon":
            sentence = explanation(module)
            if sentence is not None:
                raise AbsentImportError(sentence, name=name)


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, str]]]:
    import json
    from pathlib import Path

    parts = {path.stem: json.loads(path.read_text()) for path in Path(__file__).parent.glob("*.json")}
    reasons = parts.pop("reasons")
    return {name: row for part in parts.values() for name, row in part.items()}, reasons


@lru_cache(maxsize=1)
def _members() -> dict[str, str]:
    """Names of members with their class, as the table has them, by the class and the member alone."""
    found: dict[str, str] = {}
    for name in sorted(_table()[0], key=lambda name: name.count(".")):
        found.setdefault(".".join(name.split(".")[-2:]), name)
    return found


def _explain_member(cls: type, name: str) -> None:
    if name.startswith("_"):
        return
    for owner in cls.__mro__:
        sentence = explanation(_members().get(f"{owner.__name__}.{name}", ""))
        if sentence is not None:
            raise AbsentNameError(sentence, name=name)


def _is_import(frame: FrameType) -> bool:
    """Whether the frame is at `from ... import`: Python replaces an AttributeError by an error of its own there."""
    import opcode

    return bool(frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"])
