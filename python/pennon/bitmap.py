"""Sets of ids of fragments and of row offsets: `Bitmap`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from operator import index
from typing import Any

from pennon._compatibility import explain_absent_names
from pennon.errors import InvalidTypeError, MissingKeyError, PositionError

__all__ = ["Bitmap"]

explain_absent_names(__name__)

_LIMIT = 2**32
_MOST_SHOWN = 20


class Bitmap(MutableSet[int]):
    """A set of whole numbers below 2**32, in ascending order.

    Every method takes any iterable of such numbers where it takes another set, and equals any that has the same.

    Examples
    --------
    >>> ids = Bitmap([5, 1, 2, 1])
    >>> ids
    Bitmap({1, 2, 5})
    >>> ids == [5, 2, 1]
    True
    >>> ids - range(2) | {7}
    Bitmap({2, 5, 7})
    """

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[int] | None = None) -> None:
        self._values = set(_checked(() if values is None else values))

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        found = _numbers(other)
        return NotImplemented if found is None else self._values == found

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(str, list(self)[:_MOST_SHOWN]))
        return f"Bitmap({{{shown}}})" if len(self) <= _MOST_SHOWN else f"Bitmap({{{shown}, ...}}, len={len(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Bitmap, (list(self),)

    def __copy__(self) -> Bitmap:
        return self.copy()

    def __and__(self, other: Iterable[Any]) -> Bitmap:
        return self.intersection(other)

    def __or__(self, other: Iterable[Any]) -> Bitmap:
        return self.union(other)

    def __sub__(self, other: Iterable[Any]) -> Bitmap:
        return self.difference(other)

    def __xor__(self, other: Iterable[Any]) -> Bitmap:
        return self.symmetric_difference(other)

    def __le__(self, other: Iterable[Any]) -> bool:
        return self.issubset(other)

    def __ge__(self, other: Iterable[Any]) -> bool:
        return self.issuperset(other)

    def __lt__(self, other: Iterable[Any]) -> bool:
        return self._values < _checked(other)

    def __gt__(self, other: Iterable[Any]) -> bool:
        return self._values > _checked(other)

    def add(self, value: int) -> None:
        """Add a number. Raises `PositionError` for one that is negative, or 2**32 or more.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> ids = Bitmap([5])
        >>> ids.add(2)
        >>> ids
        Bitmap({2, 5})
        """
        self._values |= _checked((value,))

    def discard(self, value: int) -> None:
        """Remove a number, if it is there.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> ids = Bitmap([2, 5])
        >>> ids.discard(5)
        >>> ids.discard(7)
        >>> ids
        Bitmap({2})
        """
        self._values.discard(value)

    def remove(self, value: int) -> None:
        """Remove a number. Raises `MissingKeyError` if it is not there.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> ids = Bitmap([2, 5])
        >>> ids.remove(5)
        >>> ids
        Bitmap({2})
        >>> try:
        ...     ids.remove(7)
        ... except KeyError as error:
        ...     print(error)
        7 is not in the bitmap
        """
        if value not in self._values:
            raise MissingKeyError(f"{value} is not in the bitmap")
        self._values.discard(value)

    def pop(self) -> int:
        """Remove the smallest number, and return it. Raises `MissingKeyError` if there is none.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> ids = Bitmap([5, 2])
        >>> ids.pop(), ids
        (2, Bitmap({5}))
        """
        if not self._values:
            raise MissingKeyError("pop from an empty Bitmap")
        least = min(self._values)
        self._values.discard(least)
        return least

    def clear(self) -> None:
        """Remove all numbers.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> ids = Bitmap([2, 5])
        >>> ids.clear()
        >>> len(ids)
        0
        """
        self._values.clear()

    def update(self, values: Iterable[int]) -> None:
        """Add numbers. Raises `PositionError` for one that is negative, or 2**32 or more.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> ids = Bitmap([2])
        >>> ids.update(range(4, 6))
        >>> ids
        Bitmap({2, 4, 5})
        """
        self._values |= _checked(values)

    def copy(self) -> Bitmap:
        """The same numbers, in a set of their own.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> ids = Bitmap([2])
        >>> other = ids.copy()
        >>> other.add(5)
        >>> ids, other
        (Bitmap({2}), Bitmap({2, 5}))
        """
        return _of(set(self._values))

    def union(self, other: Iterable[int]) -> Bitmap:
        """The numbers in either.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> Bitmap([1, 2]).union(Bitmap([3]))
        Bitmap({1, 2, 3})
        """
        return _of(self._values | _checked(other))

    def intersection(self, other: Iterable[int]) -> Bitmap:
        """The numbers in both.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> Bitmap([1, 2]).intersection(Bitmap([2, 3]))
        Bitmap({2})
        """
        return _of(self._values & _checked(other))

    def difference(self, other: Iterable[int]) -> Bitmap:
        """The numbers that are only here.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> Bitmap([1, 2]).difference(Bitmap([2, 3]))
        Bitmap({1})
        """
        return _of(self._values - _checked(other))

    def symmetric_difference(self, other: Iterable[int]) -> Bitmap:
        """The numbers in exactly one of both.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> Bitmap([1, 2]).symmetric_difference([2, 3])
        Bitmap({1, 3})
        """
        return _of(self._values ^ _checked(other))

    def isdisjoint(self, other: Iterable[int]) -> bool:
        """Whether no number is in both.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> Bitmap([1, 2]).isdisjoint([3]), Bitmap([1, 2]).isdisjoint([2, 3])
        (True, False)
        """
        return self._values.isdisjoint(_checked(other))

    def issubset(self, other: Iterable[int]) -> bool:
        """Whether the other has all numbers of this.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> Bitmap([1]).issubset(Bitmap([1, 2]))
        True
        """
        return self._values <= _checked(other)

    def issuperset(self, other: Iterable[int]) -> bool:
        """Whether this has all numbers of the other.

        Examples
        --------
        >>> from pennon.bitmap import Bitmap
        >>> Bitmap([1, 2, 5]).issuperset([1, 5])
        True
        """
        return self._values >= _checked(other)


def _of(values: set[int]) -> Bitmap:
    found = Bitmap()
    found._values = values
    return found


def _checked(values: Iterable[int]) -> set[int]:
    """The numbers. Raises `PositionError` for one that is negative or too large, `InvalidTypeError` for others."""
    if isinstance(values, Bitmap):
        return values._values
    try:
        found = {index(value) for value in values}
    except TypeError as error:
        raise InvalidTypeError(f"Bitmap values must be whole numbers: {error}") from None
    for value in found:
        if not 0 <= value < _LIMIT:
            raise PositionError(f"Bitmap values must fit in an unsigned 32-bit integer, got {value}")
    return found


def _numbers(other: object) -> set[int] | None:
    """The numbers of any iterable; `None` for what has none."""
    if not isinstance(other, Iterable) or isinstance(other, str | bytes):
        return None
    try:
        return {index(value) for value in other}
    except TypeError:
        return None
