"""bfloat16 columns, next to those of pylance."""

from __future__ import annotations

import importlib
import importlib.util
import math
import pickle
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import lance.arrow as theirs
import pennon
import pennon.arrow as ours
import pyarrow as pa
import pytest
from support.calls import refused

SPECIAL = [
    0.0,
    -0.0,
    1.5,
    1.00390625,
    1.01171875,
    1.00390625 + 1e-12,
    3.3961e38,
    3.4e38,
    1e300,
    -1e300,
    1e-40,
    1e-46,
]
SPECIAL += [0.1, 100.0, 1e20, 123456.0, math.inf, -math.inf, math.nan, 2.0**-133, 1.5 * 2.0**-133, 65504.0, 1e-7]


def drawn(count: int) -> list[float]:
    """Float32 numbers of all sizes."""
    bits = random.Random(7)
    found = [struct.unpack("<f", struct.pack("<I", bits.getrandbits(32)))[0] for _ in range(count)]
    return [value for value in found if not math.isnan(value)]


def same(left: list[float | None], right: list[float | None]) -> bool:
    return repr(left) == repr(right)


def test_a_number_is_that_of_the_reference() -> None:
    for value in SPECIAL + drawn(2_000):
        mine, other = ours.BFloat16(value), theirs.BFloat16(value)
        assert same([mine.as_float()], [other.as_float()]), value
        assert repr(mine) == repr(other), value
        assert str(mine) == str(other), value


def test_numbers_compare_as_those_of_the_reference() -> None:
    for kind in (ours.BFloat16, theirs.BFloat16):
        one, two, nan = kind(1.0), kind(2), kind(math.nan)
        assert one < two <= kind(2.0) >= one
        assert two > one
        assert one == kind(1.0)
        assert one != two
        assert nan != nan
        assert one != 1.0
        with pytest.raises(TypeError):
            _ = one < 2.0
    # Beyond the reference: they have a hash and are numbers to Python.
    assert len({ours.BFloat16(1), ours.BFloat16(1.0)}) == 1
    assert float(ours.BFloat16(1.5)) == 1.5
    assert pickle.loads(pickle.dumps(ours.BFloat16(1.5))) == ours.BFloat16(1.5)


def test_pickles_name_the_public_module() -> None:
    tensors = ours.FixedShapeImageTensorType(pa.uint8(), (2, 2))
    for value in (ours.BFloat16(1.5), ours.BFloat16Type(), ours.ImageURIType(), ours.EncodedImageType(), tensors):
        pickled = pickle.dumps(value)
        assert b"pennon.arrow._" not in pickled
        assert pickle.loads(pickled) == value


def test_bytes_of_a_number() -> None:
    for high in range(256):
        data = bytes([0x5A, high])
        assert repr(ours.BFloat16.from_bytes(data)) == repr(theirs.BFloat16.from_bytes(data))
    for kind in (ours.BFloat16, theirs.BFloat16):
        with pytest.raises(ValueError, match="1"):
            kind.from_bytes(b"a")
    refused("'a', expected a real number", ours.BFloat16, "a")
    refused("None, expected a real number", ours.BFloat16, None)


def test_arrays() -> None:
    values = [*SPECIAL, None, 3]
    mine, other = ours.bfloat16_array(values), theirs.bfloat16_array(values)
    assert mine.storage.equals(other.storage) or same_storage(mine, other)
    assert str(mine[:5]) == str(other[:5])
    assert repr(mine.to_pylist()) == repr(other.to_pylist())
    assert str(ours.bfloat16_array([1.5, None])) == str(theirs.bfloat16_array([1.5, None]))
    assert mine.type.extension_name == other.type.extension_name == "lance.bfloat16"
    assert mine.type.storage_type == other.type.storage_type
    assert mine.type.__arrow_ext_serialize__() == other.type.__arrow_ext_serialize__()
    assert ours.bfloat16_array(pa.array([1.0, 2.5])).to_pylist() == [ours.BFloat16(1), ours.BFloat16(2.5)]
    assert ours.bfloat16_array([]).to_pylist() == []
    assert ours.bfloat16_array([ours.BFloat16(2)])[0].as_py() == ours.BFloat16(2)
    refused("must be numbers or None", ours.bfloat16_array, ["a"])
    refused("must be numbers or None", ours.bfloat16_array, 5)


def same_storage(mine: pa.ExtensionArray, other: pa.ExtensionArray) -> bool:
    """Equal bytes, except the payload of NaN."""
    pairs = zip(mine.storage.to_pylist(), other.storage.to_pylist(), strict=True)
    nan = ours.BFloat16(math.nan)
    return all(
        a == b or str(ours.BFloat16.from_bytes(a)) == str(ours.BFloat16.from_bytes(b)) == str(nan) for a, b in pairs
    )


def test_scalars() -> None:
    has_ml_dtypes = importlib.util.find_spec("ml_dtypes") is not None
    # The reference cannot compare scalars without it.
    for module in (ours, theirs) if has_ml_dtypes else (ours,):
        array = module.bfloat16_array([1.5, None, 1.5])
        assert array[0].as_py() == module.BFloat16(1.5)
        assert array[1].as_py() is None
        assert array[0] == array[2]
        assert array[0] != array[1]
        assert array[1] == array[1]
        assert array[0] == module.BFloat16(1.5)
        assert array[0] != 1.5
        assert array[1] != None  # noqa: E711
        if has_ml_dtypes:
            assert array[0] == importlib.import_module("ml_dtypes").bfloat16(1.5)


@pytest.mark.parametrize("name", ["halffloat", "float", "double"])
def test_casts_round_as_the_reference_does(name: str) -> None:
    floats = pa.array(SPECIAL + drawn(500)).cast(pa.float32()).cast(name)
    mine = ours.cast(floats, "bfloat16")
    expected = [theirs.BFloat16(value).as_float() for value in floats.cast("double").to_pylist()]
    assert same([value.as_float() for value in mine.to_pylist()], expected)
    assert same(
        ours.cast(mine, name).cast("double").to_pylist(), pa.array(expected).cast(name).cast("double").to_pylist()
    )


def casts() -> list[tuple[pa.Array, Any]]:
    vector = pa.list_(pa.float32(), 2)
    return [
        (pa.array([1.0, 3.3]), "bf16"),
        (pa.array([1.0, 3.3], pa.float16()), "bfloat16"),
        (pa.array([], pa.float32()), "bf16"),
        (pa.chunked_array([[1.0], [2.0]]), "bf16"),
        (pa.array([1, 2]), "int32"),
        (pa.array([[1.0, 2.0], [3.3, 4.0]], vector), pa.list_(pa.float64(), 2)),
        (pa.array([[1.0, 2.0], [3.3, 4.0]], vector), pa.list_(pa.float16(), 2)),
        (pa.array([1, 2]), "bf16"),
        (pa.array(["x"]), "bf16"),
        (pa.array([1.5]), "int32"),
        (pa.array([1.5]), "nope"),
        (pa.array([[1.0, 2.0]], vector), pa.list_(pa.float64(), 3)),
        (pa.array([[1, 2]], pa.list_(pa.int32(), 2)), "bf16"),
    ]


@pytest.mark.parametrize("case", range(len(casts())))
def test_casts_are_those_of_the_reference(case: int) -> None:
    array, target = casts()[case]
    try:
        expected = theirs.cast(array, target)
    except ModuleNotFoundError:
        pytest.skip("the reference casts with ml_dtypes")
    except Exception:
        refused("expected|cast|type|No type|truncated", ours.cast, array, target)
        return
    mine = ours.cast(array, target)
    if isinstance(expected, pa.ExtensionArray):
        expected, mine = expected.storage, mine.storage
    assert mine.equals(expected)


def test_casts_keep_nulls_and_slices() -> None:
    # The reference refuses nulls.
    floats = pa.array([None, 1.0, 2.5, None])[1:]
    assert ours.cast(floats, "bf16").to_pylist() == [ours.BFloat16(1), ours.BFloat16(2.5), None]
    assert ours.cast(ours.cast(floats, "bf16")[1:], "double").to_pylist() == [2.5, None]
    vectors = pa.array([[0.0, 0.0], [1.0, None], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))[1:]
    small = ours.cast(vectors, pa.list_(ours.BFloat16Type(), 2))
    assert small.type == pa.list_(ours.BFloat16Type(), 2)
    assert ours.cast(small[1:], pa.list_(pa.float64(), 2)).to_pylist() == vectors[1:].to_pylist()
    again = ours.cast(ours.bfloat16_array([1.0, None]), "bf16")
    assert again.to_pylist() == [ours.BFloat16(1), None]


def test_casts_that_do_not_exist() -> None:
    refused("list, expected a pyarrow array", ours.cast, [1.0], "bf16")
    refused("5, expected a pyarrow type", ours.cast, pa.array([1.0]), 5)
    refused("from int64 to", ours.cast, pa.array([1]), "bf16")
    refused("floating point only", ours.cast, ours.bfloat16_array([1.0]), pa.string())
    refused(
        "have 2 items, expected 3",
        ours.cast,
        pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
        pa.list_(ours.BFloat16Type(), 3),
    )


def test_arrays_of_the_reference_are_taken() -> None:
    other = theirs.bfloat16_array([1.5, None])
    assert ours.cast(other, "float").to_pylist() == [1.5, None]
    assert isinstance(ours.cast(other, "bf16"), ours.BFloat16Array)


def test_numpy() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    import numpy as np

    for module in (ours, theirs):
        array = module.bfloat16_array([1.5, 2.0])
        assert array.to_numpy().dtype == bfloat16
        assert array.to_numpy().tolist() == [1.5, 2.0]
        back = module.BFloat16Array.from_numpy(np.array([1.5, 2.0], bfloat16))
        assert back.to_pylist() == array.to_pylist()
        for wrong in (np.array([1.5]), np.array([[1.5]], bfloat16)):
            with pytest.raises(ValueError, match=r"array|values"):
                module.BFloat16Array.from_numpy(wrong)
        with pytest.raises(ValueError, match="null"):
            module.bfloat16_array([None]).to_numpy()
    # The reference ignores where a slice begins.
    assert ours.bfloat16_array([1.5, 2.0])[1:].to_numpy().tolist() == [2.0]


def test_numpy_without_its_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(pennon.MissingPackageError, match="pip install ml_dtypes") as error:
        ours.bfloat16_array([1.0]).to_numpy()
    assert isinstance(error.value, ImportError)
    assert error.value.name == "ml_dtypes"


def test_types() -> None:
    for module in (ours, theirs):
        assert module.BFloat16Type() == module.BFloat16Type()
        assert module.BFloat16Type() != pa.binary(2)
    assert hash(ours.BFloat16Type()) == hash(pickle.loads(pickle.dumps(ours.BFloat16Type())))


def test_tables_of_either_are_read_by_the_other(tmp_path: Path) -> None:
    values = [1.5, None, 3.3]
    mine = pennon.write_dataset(pa.table({"a": ours.bfloat16_array(values)}), tmp_path / "ours")
    other = lance.write_dataset(pa.table({"a": theirs.bfloat16_array(values)}), tmp_path / "theirs")
    for uri in (mine.uri, other.uri):
        read = [module.dataset(uri).to_table()["a"].combine_chunks() for module in (pennon, lance)]
        assert read[0].storage.equals(read[1].storage)
        assert read[0].type.extension_name == read[1].type.extension_name == "lance.bfloat16"
        assert same(ours.cast(read[0], "float").to_pylist(), [1.5, None, 3.296875])


LIVE_TOGETHER = """
import pyarrow as pa
import {first}
import {second}
import {first}.arrow
import {second}.arrow
from pathlib import Path
import lance, pennon
table = pa.table({{"a": pennon.arrow.bfloat16_array([1.5]), "b": lance.arrow.bfloat16_array([2.5])}})
table = table.append_column("u", pennon.arrow.ImageURIArray.from_uris(["x"]))
table = table.append_column("v", lance.arrow.ImageURIArray.from_uris(["x"]))
stored = pennon.write_dataset(table, {uri!r})
for read in (stored.to_table(), lance.dataset({uri!r}).to_table()):
    assert isinstance(read["a"].type, lance.arrow.BFloat16Type), read["a"].type
    assert isinstance(read["b"].type, lance.arrow.BFloat16Type), read["b"].type
    assert pennon.arrow.cast(read["b"], "float").to_pylist() == [2.5]
    uris = pennon.arrow.ImageArray.from_array(read["v"])
    assert isinstance(uris, pennon.arrow.ImageURIArray)
"""


@pytest.mark.parametrize("order", [("lance", "pennon"), ("pennon", "lance")])
def test_both_live_in_one_process(order: tuple[str, str], tmp_path: Path) -> None:
    program = LIVE_TOGETHER.format(first=order[0], second=order[1], uri=str(tmp_path / "table"))
    subprocess.run([sys.executable, "-c", program], check=True)


def test_columns_are_read_as_ours_where_pylance_is_not_imported(tmp_path: Path) -> None:
    program = f"""
import sys
import pennon
pennon.dataset
assert "pennon.arrow" not in sys.modules
before = set(sys.modules)
import pennon.arrow
assert not {{"numpy", "pandas", "PIL", "torch", "lance"}} & (set(sys.modules) - before)
import pyarrow as pa
stored = pennon.write_dataset(pa.table({{"a": pennon.arrow.bfloat16_array([1.5])}}), {str(tmp_path / "t")!r})
assert isinstance(stored.to_table()["a"].type, pennon.arrow.BFloat16Type)
assert stored.to_table()["a"][0].as_py() == pennon.arrow.BFloat16(1.5)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
