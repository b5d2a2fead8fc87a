"""Storage options that a function of the user provides, in each process that opens a table.

What travels is the name of the function, `module:function`, with the other options. It is called without arguments
whenever a table is opened: on the driver, in the processes in which Spark plans sources, and in every task. What it
returned is never pickled, and an error shows nothing of it, nor of the text of what the function raised.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from pyspark_pennon.errors import invalid, store_error

PROVIDER = "provider"
"""The storage option with the name of the function."""

_NAME = re.compile(r"\s*(?P<module>[\w.]+):(?P<function>[\w.]+)\s*")


class ProvidedOptions(Mapping[str, str]):
    """Storage options of which some are provided by a function; picklable, by the name of the function.

    Parameters
    ----------
    name
        `module:function`. The module must be importable by driver and executors.
    given
        Options that are given as they are; the function's go first.
    """

    def __init__(self, name: str, given: Mapping[str, str]) -> None:
        found = _NAME.fullmatch(name)
        if found is None:
            raise invalid(f"The provider of storage options is {name!r}: expected module:function")
        self._module, self._function = found["module"], found["function"]
        self._given = {key.lower(): value for key, value in given.items()}

    def provided(self) -> dict[str, str]:
        """Call the function.

        Raises
        ------
        pennon.InvalidInputError
            There is no such function in this process, or it returned no dictionary of strings.
        pennon.StoreError
            The function raised an error. Spark runs a task again that raises this.
        """
        found = _checked(self._name, _called(self._name, self._imported()))
        return {**self._given, **{key.lower(): value for key, value in found.items()}}

    def _imported(self) -> Callable[[], Any]:
        try:
            found: Any = importlib.import_module(self._module)
        except Exception as error:
            what = f", {_raised(error)}"
            if isinstance(error, ModuleNotFoundError) and error.name and self._has_parent(error.name):
                what = f": No module named '{error.name}'"
            raise invalid(
                f"The provider of storage options, {self._name}, cannot be imported{_where()}{what}. Driver and "
                "executors need its module"
            ) from None
        try:
            for name in self._function.split("."):
                found = getattr(found, name)
        except Exception:
            raise invalid(
                f"The provider of storage options, {self._name}, cannot be imported{_where()}: its module has no "
                f"attribute '{self._function}'"
            ) from None
        if not callable(found):
            raise invalid(
                f"The provider of storage options, {self._name}, is not a function: {type(found).__name__}"
            )
        function: Callable[[], Any] = found
        return function

    def _has_parent(self, module: str) -> bool:
        return f"{self._module}.".startswith(f"{module}.")

    @property
    def _name(self) -> str:
        return f"{self._module}:{self._function}"

    def __getitem__(self, key: str) -> str:
        return self.provided()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.provided())

    def __len__(self) -> int:
        return len(self.provided())

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProvidedOptions) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self._name, tuple(sorted(self._given.items()))))

    def __reduce__(self) -> tuple[type[ProvidedOptions], tuple[str, dict[str, str]]]:
        return type(self), (self._name, self._given)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


def with_provider(options: Mapping[str, str]) -> Mapping[str, str]:
    """Storage options as they are, or those of the provider that is named among them."""
    if isinstance(options, ProvidedOptions):
        return options
    given = {key: value for key, value in options.items() if key.lower() != PROVIDER}
    name = next((value.strip() for key, value in options.items() if key.lower() == PROVIDER), "")
    return ProvidedOptions(name, given) if name else given


def stored(options: Mapping[str, str]) -> dict[str, str] | None:
    """Storage options as the wheel takes them; calls the provider, if there is one."""
    return (options.provided() if isinstance(options, ProvidedOptions) else dict(options)) or None


def _called(name: str, function: Callable[[], Any]) -> Any:
    try:
        found = function()
        # A mapping that looks its values up may fail as well.
        return dict(found) if isinstance(found, Mapping) else found
    except Exception as error:
        raise store_error(
            f"The provider of storage options, {name}, failed{_where()}: {_raised(error)}, with a message that is "
            "left out, since it may have a credential"
        ) from None


def _checked(name: str, found: Any) -> dict[str, str]:
    text = f"The provider of storage options, {name}, returned"
    if not isinstance(found, dict):
        raise invalid(f"{text} {_article(found)} instead of a dictionary of strings")
    for key, value in found.items():
        if not isinstance(key, str):
            raise invalid(f"{text} a dictionary with a key that is {_article(key)} instead of a string")
        if not isinstance(value, str):
            raise invalid(f"{text} {_article(value)} for '{key}' instead of a string")
    return found


def _article(value: Any) -> str:
    name = type(value).__name__
    return name if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _raised(error: Exception) -> str:
    """The class of an error, and where it was raised: its text may have credentials."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    kind = type(error).__name__
    if trace is None:
        return kind
    return f"{kind} in line {trace.tb_lineno} of {PurePath(trace.tb_frame.f_code.co_filename).name}"


def _where() -> str:
    """Whether this is an executor."""
    from pyspark import TaskContext

    return "" if TaskContext.get() is None else " on an executor"
