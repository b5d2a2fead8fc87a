"""What pylance and Pennon offer: public names with their kinds and signatures, found by `inspect.getmembers`.

A process of its own imports both packages, so that nothing a test has patched is looked at; a stand-in for PyTorch
lets the modules that need it be imported.

    python tests/surface.py            # prints both as JSON
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import types
import typing
import warnings
from pathlib import Path
from typing import Any

THEIRS, OURS = "lance", "pennon"
# What they compile: its public names stand elsewhere as well.
COMPILED = "lance.lance"
# Special methods that are called by their syntax.
PROTOCOLS = (
    *["__arrow_c_schema__", "__arrow_c_stream__", "__call__", "__contains__", "__enter__", "__getitem__"],
    *["__iter__", "__len__", "__next__"],
)
# Names of the package that its `__getattr__` finds, which `dir` does not list.
LAZY = ("DescribeTableRequest", "LanceNamespace")
# Members that come with the kind of a class.
GENERAL = ("builtins", "enum", "typing")

Described = dict[str, Any]
Names = dict[str, Described]


def stand_in_for_torch() -> None:
    sys.path.insert(0, str(Path(__file__).parent / "support"))
    sys.modules.update(importlib.import_module("torch_stand_in").modules())
    sys.modules["torch"].compile = lambda function=None, **_: function or (lambda f: f)  # type: ignore[attr-defined]


def modules(package: str) -> dict[str, types.ModuleType]:
    """The public modules by their names, without that of the package; its own is ""."""
    root = importlib.import_module(package)
    names = [info.name for info in pkgutil.walk_packages(root.__path__, f"{package}.")]
    public = sorted(name for name in names if not re.search(r"\._|\.conftest$", name) and name != COMPILED)
    for name in public:
        importlib.import_module(name)
    # `dataset` is a function, and a module.
    return {"": root} | {name.partition(".")[2]: sys.modules[name] for name in public}


def theirs() -> tuple[Names, dict[str, Any]]:
    """pylance's names and what they stand for. What has two names is an `alias` at the longer one."""
    compiled = {id(value) for value in vars(importlib.import_module(COMPILED)).values()}
    found = modules(THEIRS)
    names: Names = {}
    values: dict[str, Any] = {}
    first: dict[int, str] = {}

    def is_theirs(value: Any) -> bool:
        return (getattr(value, "__module__", None) or "").partition(".")[0] == THEIRS or id(value) in compiled

    def is_public(name: str, value: Any, listed: set[str]) -> bool:
        if isinstance(value, types.ModuleType) or (name.startswith("_") and name != "__version__"):
            return False
        if inspect.isclass(value) or inspect.isroutine(value):
            return name in listed or is_theirs(value)
        is_alias = type(value).__module__ == "typing" and not isinstance(value, typing.TypeVar)
        is_constant = name.isupper() and isinstance(value, int | str) and name != "TYPE_CHECKING"
        return name in listed or is_constant or (is_alias and not hasattr(typing, name))

    def add(path: str, value: Any, *, is_member: bool = False) -> None:
        names[path], values[path] = described(value), value
        if inspect.isclass(value) or (inspect.isroutine(value) and not is_member):
            # The name in the package itself, or where it is defined, or the first that is found.
            home = (getattr(value, "__module__", None) or "").partition(".")[2]
            is_at_home = home in found and getattr(found[home], value.__name__, None) is value
            original = first.setdefault(id(value), f"{home}.{value.__name__}" if is_at_home and home else path)
            if "." not in path and "." in original:
                original = first[id(value)] = path
            if original != path:
                names[path]["alias"] = original
                return
        if inspect.isclass(value):
            for name in members(value):
                member, owner = static(value, name)
                if is_theirs(owner):
                    add(f"{path}.{name}", member, is_member=True)

    for place, module in found.items():
        listed = {*getattr(module, "__all__", ()), *(() if place else LAZY)}
        public = dict(inspect.getmembers(module)) | {name: getattr(module, name) for name in listed}
        for name, value in sorted(public.items()):
            if is_public(name, value, listed):
                add(f"{place}.{name}" if place else name, value)
    for place, module in found.items():
        if place and place not in names:
            names[place], values[place] = {"kind": "module"}, module
    return names, values


def ours(their_names: Names, their_values: dict[str, Any]) -> Names:
    """Pennon's names: those that pylance has too, and those of `__all__` that stand for something else.

    Members that only one of the classes has of a third package, or that one of them overrides, are added to
    `their_names` as well.
    """
    found = modules(OURS)
    names: Names = {}
    reached: dict[int, str] = {}

    def look_up(path: str) -> Any:
        parts = path.split(".")
        place = next(".".join(parts[:end]) for end in range(len(parts), -1, -1) if ".".join(parts[:end]) in found)
        if place == path and path != "dataset":
            return found[place]
        if place == path:
            place = ""
        value: Any = found[place]
        for part in path[len(place) :].strip(".").split("."):
            value = static(value, part)[0] if inspect.isclass(value) else getattr(value, part)
        return value

    values = {}
    for path in sorted(their_names):
        try:
            values[path] = look_up(path)
        except AttributeError:
            continue
        names[path] = described(values[path])
        reached.setdefault(id(values[path]), path)
    for path, value in values.items():
        alias = their_names[path].get("alias")
        if alias in values and values[alias] is value:
            names[path]["alias"] = alias
    for path in [path for path in names if inspect.isclass(their_values.get(path))]:
        both = their_values[path], values[path]
        if "alias" in their_names[path] or not inspect.isclass(both[1]):
            continue
        for name in {*members(both[0]), *members(both[1])}:
            key = f"{path}.{name}"
            sides = [static(cls, name) if hasattr(cls, name) else None for cls in both]
            owners = [side[1].__module__.partition(".")[0] for side in sides if side]
            # Inherited by both of the same package: the same.
            if key in their_names or (len(owners) == 2 and OURS not in owners):
                continue
            for side, into in zip(sides, (their_names, names), strict=True):
                if side and not is_field(both[1], name):
                    into[key] = described(side[0])
    kept = [path for path in found if path]
    for place in ["", *kept]:
        for name in getattr(found[place], "__all__", ()):
            value = getattr(found[place], name)
            path = f"{place}.{name}" if place else name
            if not isinstance(value, types.ModuleType) and path not in names and id(value) not in reached:
                reached[id(value)] = path
                names[path] = described(value)
    return {**{path: {"kind": "module"} for path in kept}, **names}


def members(cls: type) -> list[str]:
    """The public members of a class and the special ones that have a syntax, without those that its kind brings."""
    found = {name for name, _ in inspect.getmembers(cls)}
    public = {name for name in found if name in PROTOCOLS or not name.startswith("_")}
    general = {name for name in public if static(cls, name)[1].__module__ in GENERAL or is_field(cls, name)}
    return sorted(public - general)


def is_field(cls: type, name: str) -> bool:
    """Whether it is an argument of the class that its objects keep."""
    return name in getattr(cls, "__dataclass_fields__", ()) or name in getattr(cls, "_fields", ())


def static(cls: type, name: str) -> tuple[Any, type]:
    """A member as it is in the class that defines it, and that class."""
    for owner in cls.__mro__:
        if name in vars(owner):
            return vars(owner)[name], owner
    if is_field(cls, name):
        return None, cls
    return getattr(cls, name), cls


def described(value: Any) -> Described:
    """The `kind` of a value, what it `takes` if it is called, and its `value` if it is a number or text."""
    if isinstance(value, types.ModuleType):
        return {"kind": "module"}
    if inspect.isclass(value):
        # The keys of a typed dict are given by name.
        is_typed_dict = issubclass(value, dict) and hasattr(value, "__total__")
        keys = "*, " + ", ".join(sorted(value.__annotations__)) if is_typed_dict else None
        # Of a compiled class whose objects only calls return nothing else is known.
        is_made_by_calls = keys is None and value.__init__ is object.__init__ and not signature(value)
        return {"kind": "class", "takes": None if is_made_by_calls else keys or signature(value)}
    for kind, of in (("static method", staticmethod), ("class method", classmethod)):
        if isinstance(value, of):
            return {"kind": kind, "takes": signature(value.__func__, skip=kind == "class method")}
    if inspect.isroutine(value) and not inspect.isdatadescriptor(value) and not inspect.isgetsetdescriptor(value):
        return {"kind": "function", "takes": signature(value)}
    return {"kind": "value", "value": repr(value)} if isinstance(value, int | str) else {"kind": "value"}


def signature(function: Any, *, skip: bool = False) -> str | None:
    """The parameters as Python writes them, without `self` and types; `...` for a default that has no literal."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if skip or (parameters and parameters[0].name in ("self", "cls")):
        parameters = parameters[1:]
    shown: list[str] = []
    for p in parameters:
        if p.name.startswith("_"):
            continue
        if p.kind is p.KEYWORD_ONLY and not any(part.startswith("*") for part in shown):
            shown.append("*")
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = repr(p.default)
        has_literal = not re.search(r"[<>]", default)
        shown.append(f"{star}{p.name}" + ("" if p.default is p.empty else f"={default if has_literal else '...'}"))
    return ", ".join(shown)


def surfaces() -> dict[str, Names]:
    """The names of both packages, as `described`, and with `alias` if they stand elsewhere too.

    A name of a module starts with that of the module, which is nothing for the package itself.
    """
    command = [sys.executable, "-W", "ignore", __file__]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if run.returncode:
        raise RuntimeError(f"tests/surface.py failed:\n{run.stderr[-2000:]}")
    found: dict[str, Names] = json.loads(run.stdout)
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    stand_in_for_torch()
    their_names, values = theirs()
    our_names = ours(their_names, values)
    print(json.dumps({THEIRS: their_names, OURS: our_names}))


if __name__ == "__main__":
    main()
