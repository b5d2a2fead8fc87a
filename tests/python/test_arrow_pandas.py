"""bfloat16 columns in pandas, next to those of pylance."""

from __future__ import annotations

from typing import Any

import lance.arrow as theirs
import numpy as np
import pandas as pd
import pennon.arrow as ours
import pyarrow as pa
import pytest
from pennon import InvalidInputError
from pennon.arrow import PandasBFloat16Array, PandasBFloat16Type


def series(module: Any = ours) -> pd.Series:
    return module.bfloat16_array([1.5, None, 2.0]).to_pandas()


@pytest.mark.parametrize(
    "call",
    [
        lambda s: str(s).splitlines()[:3],
        lambda s: s.dtype.name,
        lambda s: s.dtype.kind,
        lambda s: s.dtype.na_value,
        lambda s: s.isna().tolist(),
        lambda s: [str(value) for value in s.tolist()],
        lambda s: [str(value) for value in s[1:].tolist()],
        lambda s: str(s[0]),
        lambda s: s[1],
        lambda s: [str(value) for value in s.dropna().tolist()],
        lambda s: [str(value) for value in s[s.notna()].tolist()],
        lambda s: s.dtype == "lance.bfloat16",
        lambda s: s.dtype == type(s.dtype)(),
        lambda s: str(pa.array(s)),
        lambda s: len(s.array),
        lambda s: [str(value) for value in np.asarray(s)],
        lambda s: str(pa.Table.from_pandas(s.to_frame("a")).schema.field("a").type.extension_name),
        lambda s: str(pa.table({"a": pa.array(s)}).to_pandas()),
        lambda s: str(list(s.dtype.__from_arrow__(pa.chunked_array([pa.array(s), pa.array(s)])))),
        lambda s: str(type(s.array)._from_sequence([1, None], dtype=s.dtype).data),
    ],
)
def test_as_in_the_reference(call: Any) -> None:
    assert call(series()) == call(series(theirs))


def test_what_pandas_expects_of_a_column() -> None:
    # The reference has none of these.
    column = series()
    assert column.take([2, 0]).astype(float).tolist() == [2.0, 1.5]
    assert str(pd.concat([column, column]).tolist()) == "[1.5, None, 2, 1.5, None, 2]"
    assert str(column.reindex([0, 5]).tolist()) == "[1.5, None]"
    assert str(column.shift(1).tolist()) == "[None, 1.5, None]"
    assert str(column.fillna(0.5).tolist()) == "[1.5, 0.5, 2]"
    assert (column == column).tolist() == [True, False, True]
    assert (column == 1.5).tolist() == [True, False, False]
    copy = column.copy()
    copy[0], copy[2] = 4.0, None
    assert str(copy.tolist()) == "[4, None, None]"
    assert str(column.tolist()) == "[1.5, None, 2]"
    assert column.array.nbytes > 0
    assert str(column.sort_values().tolist()) == "[1.5, 2, None]"
    assert np.isnan(column.astype("float32")[1])
    assert column.array.to_numpy("float64", na_value=0.0).tolist() == [1.5, 0.0, 2.0]
    assert len(pd.concat([column, column]).unique()) == 3
    frame = pd.DataFrame({"a": column, "b": [1, 2, 3]})
    assert str(frame.merge(frame, on="b")["a_x"].tolist()) == "[1.5, None, 2]"


def test_the_dtype_by_name() -> None:
    array = pd.array([1.5, None], dtype=PandasBFloat16Type())
    assert isinstance(array, PandasBFloat16Array)
    assert str(pd.Series([1.5, None], dtype="lance.bfloat16").tolist()) == "[1.5, None]"


def test_wrong_data() -> None:
    with pytest.raises(InvalidInputError, match="list, expected a BFloat16Array"):
        PandasBFloat16Array([1.0])
    with pytest.raises(InvalidInputError, match="null"):
        series().array.to_numpy()
    with pytest.raises(InvalidInputError, match="not in an array of 3") as error:
        series().array.take([3])
    assert isinstance(error.value, IndexError)
    with pytest.raises(InvalidInputError, match="-2"):
        series().array.take([-2], allow_fill=True)


def test_numpy() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    for module in (ours, theirs):
        array = module.PandasBFloat16Array.from_numpy(np.array([1.5, 2.0], bfloat16))
        assert array.to_numpy().dtype == bfloat16
        assert array.to_numpy().tolist() == [1.5, 2.0]


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import pennon

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(pennon.MissingPackageError, match="pip install pandas"):
        ours.BFloat16Type().to_pandas_dtype()
    with pytest.raises(pennon.MissingPackageError, match="pip install pandas"):
        _ = ours.PandasBFloat16Array
    with pytest.raises(AttributeError, match="Nope"):
        _ = ours.Nope
