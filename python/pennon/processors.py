"""How many processors Pennon computes on.

If the environment has the number, it is set when the package is imported, which then imports the compiled module.
"""

from __future__ import annotations

import operator
import os

from pennon.errors import InvalidInputError

__all__ = ["cpu_count", "set_cpu_count"]

_MOST = 65_536


def cpu_count() -> int:
    """How many threads compute for one call at a time.

    Those the process may run on, as far as its affinity and the quota of its control group say when that is first
    asked, unless [set_cpu_count][pennon.set_cpu_count] or the environment variable `PENNON_CPU_COUNT` says another
    number.
    Threads that wait for a store are not counted: how many requests wait at a time is the storage option
    `max_requests_in_flight`.

    Examples
    --------
    >>> import pennon
    >>> before = pennon.cpu_count()
    >>> pennon.set_cpu_count(1)
    >>> pennon.cpu_count()
    1
    >>> pennon.set_cpu_count(before)
    """
    from pennon import _native

    return _native.cpu_count()


def set_cpu_count(count: int) -> None:
    """Sets [cpu_count][pennon.cpu_count] for all calls of this process that begin from now on.

    Useful where many processes share a machine, as the workers of a cluster do: one thread each is then enough.

    Raises
    ------
    pennon.InvalidInputError
        The count is not between 1 and 65,536.

    Examples
    --------
    >>> import pennon
    >>> before = pennon.cpu_count()
    >>> pennon.set_cpu_count(2)
    >>> pennon.cpu_count()
    2
    >>> pennon.set_cpu_count(before)
    """
    number = operator.index(count)
    if not 1 <= number <= _MOST:
        raise InvalidInputError(f"The number of processors is {number}, expected 1 to {_MOST}")
    from pennon import _native

    _native.set_cpu_count(number)


def set_up() -> None:
    """Takes the number that the environment names."""
    wanted = os.environ.get("PENNON_CPU_COUNT")
    if wanted is None:
        return
    if not wanted.isdecimal() or not 1 <= int(wanted) <= _MOST:
        raise InvalidInputError(f"PENNON_CPU_COUNT is {wanted!r}, expected a whole number from 1 to {_MOST}")
    set_cpu_count(int(wanted))
