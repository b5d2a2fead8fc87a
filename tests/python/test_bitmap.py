"""Sets of ids, compared with those of pylance."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, MutableSet
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.bitmap import Bitmap as Theirs
from pennon.bitmap import Bitmap

NUMBERS = st.sets(st.integers(0, 40) | st.integers(2**32 - 5, 2**32 - 1), max_size=12)


@given(NUMBERS, NUMBERS, st.sampled_from([Bitmap, set, sorted]))
def test_sets_are_those_of_pylance(first: set[int], second: set[int], kind: Callable[[Any], Any]) -> None:
    ours, theirs = Bitmap(first), Theirs(first)
    other, their_other = kind(second), Theirs(second)
    for name in ("union", "intersection", "difference", "symmetric_difference"):
        found = getattr(ours, name)(other)
        assert isinstance(found, Bitmap)
        assert list(found) == list(getattr(theirs, name)(their_other)), name
    for name in ("isdisjoint", "issubset", "issuperset"):
        assert getattr(ours, name)(other) == getattr(theirs, name)(their_other), name
    assert (ours == other, ours < other, ours >= other) == (
        theirs == their_other,
        theirs < their_other,
        theirs >= their_other,
    )
    assert [list(ours | other), list(ours & other), list(ours - other), list(ours ^ other)] == [
        list(theirs | their_other),
        list(theirs & their_other),
        list(theirs - their_other),
        list(theirs ^ their_other),
    ]
    assert (repr(ours), len(ours), ours == theirs) == (repr(theirs), len(theirs), True)
    ours.update(other)
    assert list(ours) == sorted(first | second)
    assert other == kind(second)


def test_changes() -> None:
    for kind in (Bitmap, Theirs):
        ids = kind([5, 1, 2, 1])
        assert isinstance(ids, MutableSet)
        others = [kind(ids), ids.copy(), copy.copy(ids), pickle.loads(pickle.dumps(ids))]
        ids.add(9)
        ids.discard(77)
        ids.remove(2)
        assert (ids.pop(), list(ids), 5 in ids, "a" in ids) == (1, [5, 9], True, False)
        assert all(type(other) is kind and list(other) == [1, 2, 5] for other in others)
        assert ids != {5}
        assert ids != "59"
        ids.clear()
        assert not ids
        for call in (ids.pop, lambda: ids.remove(3)):  # noqa: B023
            with pytest.raises(KeyError):
                call()
        with pytest.raises(TypeError, match="unhashable"):
            hash(ids)


@pytest.mark.parametrize("wrong", [-1, 2**32, 2**70])
def test_numbers_out_of_range_are_refused(wrong: int) -> None:
    for kind in (Bitmap, Theirs):
        for call in (kind, kind().update, kind().union):
            with pytest.raises(ValueError, match=f"unsigned 32-bit integer, got {wrong}"):
                call([1, wrong])


def test_what_is_no_number_is_refused() -> None:
    for kind in (Bitmap, Theirs):
        for wrong in (["a"], [1.5], 5):
            with pytest.raises(TypeError):
                kind(wrong)
        for nulls in ([1, None], pa.array([1, None])):
            with pytest.raises(TypeError if isinstance(nulls, list) else ValueError):
                kind(nulls)


def test_long_sets_are_shown_in_part() -> None:
    for count in (0, 20, 21, 100):
        assert repr(Bitmap(range(count))) == repr(Theirs(range(count)))


def test_the_ids_of_fragments(tmp_path: Path) -> None:
    for library, kind in ((pennon, Bitmap), (lance, Theirs)):
        uri = tmp_path / library.__name__
        table = library.write_dataset({"a": list(range(10))}, uri, max_rows_per_file=3)
        table.delete("a in (3, 4, 5)")
        assert isinstance(table.fragment_ids(), kind)
        assert table.fragment_ids() == [0, 2, 3]
        assert kind is library.fragment.Bitmap
