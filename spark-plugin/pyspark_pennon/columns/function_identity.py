"""What tells a function of a user from another one, also in another process: a digest of what it computes with.

| part | is compared by |
|---|---|
| functions, lambdas and classes of the module of the function, which it names or holds | their code |
| functions, classes and modules of other modules | their names |
| other values that it names or holds: globals, defaults, closures | the values |

Values that cannot be compared, such as a connection, are refused. What is imported in the body of the function is
compared by name. Code is that of one release of Python: of another one it is another function.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import pickle
from collections.abc import Iterable, Iterator
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from pyspark_pennon.errors import invalid

_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)


def digest(function: Any) -> str:
    """Sixteen digits that another function does not have.

    Raises
    ------
    pennon.InvalidInputError
        The function names or holds a value that cannot be compared.

    Examples
    --------
    >>> digest(lambda batch: batch) == digest(lambda batch: batch)
    True
    >>> digest(lambda batch: batch) == digest(lambda batch: batch + 1)
    False
    """
    text = _Comparison(_module(function)).of(function, "itself")
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _module(function: Any) -> str:
    """The module of the code of a function, or of the class of an object."""
    while isinstance(function, functools.partial | MethodType):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    function = inspect.unwrap(function)
    if isinstance(function, FunctionType):
        return str(function.__globals__.get("__name__"))
    return type(function).__module__


class _Comparison:
    """Texts that are equal for values that are, to a function of one module."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._seen: dict[int, int] = {}

    def of(self, value: Any, name: str) -> str:
        """The text of a value, which the function has by a name."""
        kind = type(value)
        if kind in _PLAIN:
            return f"{kind.__name__} {value!r}"
        if kind in (tuple, list):
            return f"{kind.__name__}({self._all(value, name)})"
        if kind in (set, frozenset):
            return f"{kind.__name__}({', '.join(sorted(self.of(item, name) for item in value))})"
        if kind is dict:
            return f"dict({self._all((part for item in value.items() for part in item), name)})"
        if isinstance(value, CodeType):
            return self._code(value, name)
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, MemberDescriptorType):
            return f"slot {value.__name__}"
        if isinstance(value, functools.partial):
            return f"partial({self._all((value.func, value.args, value.keywords), name)})"
        if isinstance(value, MethodType):
            return f"method({self._all((value.__func__, value.__self__), name)})"
        if isinstance(value, property):
            return f"property({self._all((value.fget, value.fset), name)})"
        # Functions and objects may hold each other.
        if id(value) in self._seen:
            return f"again {self._seen[id(value)]}"
        self._seen[id(value)] = len(self._seen)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if hasattr(value, "__wrapped__"):
            return f"{kind.__qualname__}({self.of(value.__wrapped__, name)})"
        if kind.__module__ == self._module and hasattr(value, "__dict__"):
            return f"object({self._all((kind, vars(value)), name)})"
        try:
            return f"{kind.__qualname__} {hashlib.sha256(pickle.dumps(value, 4)).hexdigest()}"
        except Exception:
            raise invalid(
                f"A checkpoint cannot tell the function from others: '{name}', of the type {kind.__qualname__}, "
                "cannot be compared with that of another call. Make it in the function, or give no checkpoint"
            ) from None

    def _all(self, values: Iterable[Any], name: str) -> str:
        return ", ".join(self.of(value, name) for value in values)

    def _function(self, function: FunctionType) -> str:
        name = f"{function.__module__}.{function.__qualname__}"
        is_own = function.__globals__.get("__name__") == self._module
        if not is_own and not hasattr(function, "__wrapped__"):
            return f"function {name}"
        held = zip(function.__code__.co_freevars, map(_content, function.__closure__ or ()), strict=True)
        parts = [f"{name}: {self.of(value, name)}" for name, value in held]
        if not is_own:
            return f"function {name}({', '.join(parts)})"
        parts.append(self.of(function.__code__, name))
        parts.append(self._all((function.__defaults__, function.__kwdefaults__), name))
        used = sorted(set(_globals(function.__code__)) & set(function.__globals__))
        parts += [f"{name}: {self.of(function.__globals__[name], name)}" for name in used]
        return f"function({', '.join(parts)})"

    def _class(self, found: type) -> str:
        name = f"{found.__module__}.{found.__qualname__}"
        if found.__module__ != self._module:
            return f"class {name}"
        members = []
        for member, value in sorted(vars(found).items()):
            held = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            is_bookkeeping = member == "_abc_impl" or (
                member.startswith("__") and not isinstance(held, FunctionType)
            )
            if not is_bookkeeping:
                members.append(f"{member}: {self.of(held, f'{found.__qualname__}.{member}')}")
        return f"class({self._all(found.__bases__, name)}, {', '.join(members)})"

    def _code(self, code: CodeType, name: str) -> str:
        signature = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        handlers = getattr(code, "co_exceptiontable", b"")  # from Python 3.11 on
        return f"code({self._all((code.co_code, handlers, signature, names, code.co_consts), name)})"


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned
        return None


def _globals(code: CodeType) -> Iterator[str]:
    """The names of globals in some code and in the functions in it."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)
