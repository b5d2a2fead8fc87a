"""bfloat16 columns of pandas, backed by Arrow arrays; importing this module imports pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype

from pennon.arrow._bfloat16 import (
    NAME,
    BFloat16,
    BFloat16Array,
    bfloat16_array,
    is_bfloat16,
    of_storage,
    to_floats,
)
from pennon.errors import InvalidInputError, PositionError

__all__ = ["PandasBFloat16Array", "PandasBFloat16Type"]


@register_extension_dtype
class PandasBFloat16Type(ExtensionDtype):
    """The pandas dtype of bfloat16 numbers; its name is `lance.bfloat16` and its missing value `None`.

    Examples
    --------
    >>> import pandas as pd
    >>> from pennon.arrow import PandasBFloat16Type
    >>> pd.Series([1.5, None], dtype=PandasBFloat16Type()).isna().tolist()
    [False, True]
    >>> pd.Series([1.5, 2], dtype="lance.bfloat16").dtype == PandasBFloat16Type()
    True
    """

    name = NAME
    type = BFloat16
    kind = "f"
    na_value = None
    _is_numeric = True

    @classmethod
    def construct_array_type(cls) -> Any:
        """The class of its arrays, which pandas asks for.

        Examples
        --------
        >>> import pandas as pd
        >>> from pennon.arrow import PandasBFloat16Type
        >>> PandasBFloat16Type.construct_array_type() is type(pd.array([1.5], "lance.bfloat16"))
        True
        """
        return PandasBFloat16Array

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> PandasBFloat16Array:
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        return _concatenated([chunk.storage for chunk in chunks])


class PandasBFloat16Array(ExtensionArray):
    """A pandas array of bfloat16 numbers.

    Parameters
    ----------
    data
        The values as a [BFloat16Array][pennon.arrow.BFloat16Array]; kept in the attribute `data`.

    Examples
    --------
    >>> import pandas as pd
    >>> from pennon.arrow import PandasBFloat16Array
    >>> pd.Series([1.5, None], dtype="lance.bfloat16").tolist()
    [1.5, None]
    """

    dtype = PandasBFloat16Type()

    def __init__(self, data: BFloat16Array) -> None:
        if not (isinstance(data, pa.ExtensionArray) and is_bfloat16(data.type)):
            raise InvalidInputError(f"The data is a {type(data).__name__}, expected a BFloat16Array")
        # An array that pylance made is taken as well.
        self.data = of_storage(data.storage)

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> PandasBFloat16Array:
        del dtype, copy
        if isinstance(scalars, PandasBFloat16Array):
            return cls(scalars.data)
        if isinstance(scalars, pa.Array) and is_bfloat16(scalars.type):
            return cls(scalars)
        return cls(bfloat16_array([None if _is_missing(value) else value for value in scalars]))

    @classmethod
    def _from_factorized(cls, values: Any, original: PandasBFloat16Array) -> PandasBFloat16Array:
        del original
        return cls._from_sequence(values)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[PandasBFloat16Array]) -> PandasBFloat16Array:
        return _concatenated([part.data.storage for part in to_concat])

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any]) -> PandasBFloat16Array:
        """The values of a numpy array of dtype `ml_dtypes.bfloat16`; errors as for `BFloat16Array.from_numpy`.

        Examples
        --------
        >>> import ml_dtypes, numpy as np, pandas as pd
        >>> from pennon.arrow import PandasBFloat16Array
        >>> numbers = np.array([1.5, 2.5], ml_dtypes.bfloat16)
        >>> pd.Series(PandasBFloat16Array.from_numpy(numbers)).dtype.name
        'lance.bfloat16'
        """
        return cls(BFloat16Array.from_numpy(array))

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, item: Any) -> Any:
        item = pd.api.indexers.check_array_indexer(self, item)
        if isinstance(item, int | np.integer):
            return self.data[int(item)].as_py()
        if isinstance(item, slice):
            return type(self)(self.data[item])
        item = np.asarray(item)
        return self.take(np.flatnonzero(item) if item.dtype == bool else item)

    def __setitem__(self, key: Any, value: Any) -> None:
        numbers = self._floats()
        key = pd.api.indexers.check_array_indexer(self, key)
        missing = self.isna()
        if pd.api.types.is_scalar(value) or isinstance(value, BFloat16):
            missing[key] = _is_missing(value)
            numbers[key] = np.nan if _is_missing(value) else float(value)
        else:
            new = self._from_sequence(value)
            missing[key] = new.isna()
            numbers[key] = new._floats()
        self.data = bfloat16_array(pa.array(numbers, pa.float32(), mask=missing))

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, pd.Series | pd.Index | pd.DataFrame):
            return NotImplemented
        if isinstance(other, PandasBFloat16Array):
            return ~self.isna() & ~other.isna() & (self._floats() == other._floats())
        if isinstance(other, BFloat16):
            other = float(other)
        return ~self.isna() & (self._floats() == other)

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        del type
        return self.data

    @property
    def nbytes(self) -> int:
        """Bytes in memory: two for each value, and a bit that says whether it is missing.

        Examples
        --------
        >>> import pandas as pd
        >>> from pennon.arrow import PandasBFloat16Type
        >>> 200 <= pd.array(range(100), PandasBFloat16Type()).nbytes < 220
        True
        """
        return int(self.data.nbytes)

    def isna(self) -> np.ndarray[Any, Any]:
        """Which values are missing, as booleans.

        Examples
        --------
        >>> import pandas as pd
        >>> from pennon.arrow import PandasBFloat16Type
        >>> pd.array([1.5, None, float("nan")], PandasBFloat16Type()).isna().tolist()
        [False, True, False]
        """
        return self.data.storage.is_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]

    def copy(self) -> PandasBFloat16Array:
        """The same values. The Arrow data is shared: a change of a value makes other data.

        Examples
        --------
        >>> import pandas as pd
        >>> from pennon.arrow import PandasBFloat16Type
        >>> numbers = pd.array([1.5, 2.5], PandasBFloat16Type())
        >>> copy = numbers.copy()
        >>> copy[0] = 9
        >>> numbers[0], copy[0]
        (1.5, 9)
        """
        return type(self)(self.data)

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> PandasBFloat16Array:
        """The values at `indices`; with `allow_fill` -1 stands for `fill_value`, otherwise it counts from the end.

        Raises
        ------
        pennon.InvalidInputError
            An index is beyond the end; an `IndexError` as well, which pandas expects.

        Examples
        --------
        >>> import pandas as pd
        >>> from pennon.arrow import PandasBFloat16Type
        >>> numbers = pd.array([1.5, 2.5, 3.5], PandasBFloat16Type())
        >>> list(numbers.take([2, -1, 0])), list(numbers.take([2, -1], allow_fill=True))
        ([3.5, 3.5, 1.5], [3.5, None])
        """
        indices = np.asarray(indices, dtype=np.int64)
        low = -1 if allow_fill else -len(self)
        if allow_fill and (indices < low).any():
            raise InvalidInputError(f"The least index is {indices.min()}, expected -1 or more if values are filled")
        if len(indices) and not (low <= indices.min() and indices.max() < len(self)):
            raise PositionError(
                f"Indices from {indices.min()} to {indices.max()} are not in an array of {len(self)}"
            )
        mask = indices < 0 if allow_fill else None
        chosen = pa.array(indices if allow_fill else np.where(indices < 0, indices + len(self), indices), mask=mask)
        taken = type(self)(of_storage(self.data.storage.take(chosen)))
        if mask is not None and mask.any() and not _is_missing(fill_value):
            taken[mask] = fill_value
        return taken

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: Any = None) -> np.ndarray[Any, Any]:
        """The values as numpy's: of dtype `ml_dtypes.bfloat16`, or of the `dtype` that is given.

        Parameters
        ----------
        dtype
            A floating dtype, in which missing values are NaN; or `object`.
        copy, na_value
            As in pandas.

        Raises
        ------
        pennon.InvalidInputError
            No dtype is given and values are missing.
        pennon.MissingPackageError
            No dtype is given and `ml_dtypes` is not installed.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from pennon.arrow import PandasBFloat16Type
        >>> numbers = pd.array([1.5, None], PandasBFloat16Type())
        >>> numbers.to_numpy(np.float64).tolist(), numbers.to_numpy(object).tolist()
        ([1.5, nan], [1.5, None])
        """
        if dtype is None and na_value is None:
            return self.data.to_numpy()
        if dtype is None or np.dtype(dtype) == object:
            objects: np.ndarray[Any, Any] = np.array([na_value if v is None else v for v in self], dtype=object)
            return objects
        numbers = self._floats()
        if na_value is not None:
            numbers[self.isna()] = na_value
        converted: np.ndarray[Any, Any] = numbers.astype(dtype, copy=copy)
        return converted

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        del copy
        return self.to_numpy(dtype=object if dtype is None else dtype)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The values in another dtype; missing ones are NaN in a floating dtype.

        Examples
        --------
        >>> import pandas as pd
        >>> from pennon.arrow import PandasBFloat16Type
        >>> pd.Series([1.5, None], dtype=PandasBFloat16Type()).astype("float32").tolist()
        [1.5, nan]
        """
        if pd.api.types.is_float_dtype(dtype) and isinstance(np.dtype(dtype), np.dtype):
            return self._floats().astype(dtype)
        return super().astype(dtype, copy)

    def _values_for_factorize(self) -> tuple[np.ndarray[Any, Any], Any]:
        return self._floats().astype(object), np.nan

    def _values_for_argsort(self) -> np.ndarray[Any, Any]:
        return self._floats()

    def _formatter(self, boxed: bool = False) -> Any:
        del boxed
        return str

    def _floats(self) -> np.ndarray[Any, Any]:
        """As float32, with NaN for what is missing; a copy."""
        return np.array(to_floats(self.data).to_numpy(zero_copy_only=False))


def _concatenated(storages: list[pa.Array]) -> PandasBFloat16Array:
    parts = pa.concat_arrays(storages) if storages else pa.array([], pa.binary(2))
    return PandasBFloat16Array(of_storage(parts))


def _is_missing(value: Any) -> bool:
    """Whether pandas says that a value is missing. NaN is a number here."""
    return value is None or value is pd.NA or value is pd.NaT
