"""Names of a package that are imported when they are first used (PEP 562).

`import pennon` then costs tens of milliseconds instead of most of a second, and a process pays for what it uses: a
worker that only needs the errors imports neither pyarrow nor the compiled module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from pennon._compatibility import raise_missing

__all__ = ["attach"]


def attach(package: str, names: Mapping[str, Iterable[str]], modules: Iterable[str]) -> None:
    """Let a package import its modules, and names of them, when they are first used.

    Type checkers do not see it: next to the call, the same names are imported if `TYPE_CHECKING`.

    Parameters
    ----------
    package
        Its `__name__`.
    names
        For each module by its name in the package, the names that the package has of it.
    modules
        Modules that are attributes of the package before anybody imports them.
    """
    home = {name: module for module, found in names.items() for name in found}
    submodules = frozenset(modules)

    class Package(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name in submodules:
                return import_module(f"{package}.{name}")
            if name not in home:
                raise_missing(package, name, sys._getframe(1))
            value = getattr(import_module(f"{package}.{home[name]}"), name)
            # Found without this function from now on.
            ModuleType.__setattr__(self, name, value)
            return value

        def __setattr__(self, name: str, value: object) -> None:
            # An import binds a module to its name in the package, also where that is the name of a function.
            if name not in home or value is not sys.modules.get(f"{package}.{name}"):
                super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*vars(self), *home, *submodules})

        def __reduce__(self) -> tuple[Any, ...]:
            # Cloudpickle has its own way for modules only if this is exactly their type.
            return import_module, (package,)

    sys.modules[package].__class__ = Package
