"""The extension type `lance.bfloat16`: two bytes a value, little-endian, the upper half of a float32.

Conversions to bfloat16 round to the nearest value, ties to even, and go through float32.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from pennon._optional import require
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["BFloat16", "BFloat16Array", "BFloat16Scalar", "BFloat16Type", "bfloat16_array", "is_bfloat16"]

NAME = "lance.bfloat16"
_SHOWN = 10
_DIGITS_OF_FLOAT32 = 9


class BFloat16:
    """One bfloat16 number; immutable.

    It compares with its own kind only; `float(...)` makes a Python number of it.

    Parameters
    ----------
    value
        A real number, rounded to the nearest bfloat16; what is too large becomes infinite.

    Raises
    ------
    pennon.InvalidInputError
        The value is not a number.

    Examples
    --------
    >>> from pennon.arrow import BFloat16
    >>> BFloat16(3.14159)
    3.140625
    >>> BFloat16(1.5) < BFloat16(2)
    True
    >>> BFloat16.from_bytes(bytes([0x80, 0x3F])).as_float()
    1.0
    """

    __slots__ = ("_value",)

    def __init__(self, value: float) -> None:
        if not hasattr(value, "__float__"):
            raise InvalidInputError(f"The value of a BFloat16 is {value!r}, expected a real number")
        self._value: float = _round(float(value))

    @classmethod
    def from_bytes(cls, bytes: bytes) -> BFloat16:
        """The number that two bytes, little-endian, stand for.

        Raises
        ------
        pennon.InvalidInputError
            There are not two bytes.

        Examples
        --------
        >>> from pennon.arrow import BFloat16
        >>> BFloat16.from_bytes(bytes([0xC0, 0x3F]))
        1.5
        """
        if len(bytes) != 2:
            raise InvalidInputError(f"Found {len(bytes)} bytes, a bfloat16 is expected to have 2")
        return cls(struct.unpack("<f", b"\0\0" + bytes)[0])

    def as_float(self) -> float:
        """The number as a Python float, exactly.

        Examples
        --------
        >>> from pennon.arrow import BFloat16
        >>> BFloat16(0.1), BFloat16(0.1).as_float()
        (0.100097656, 0.10009765625)
        """
        return self._value

    def __float__(self) -> float:
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return BFloat16, (self._value,)

    def __repr__(self) -> str:
        if math.isnan(self._value):
            return "NaN"
        if math.isinf(self._value):
            return str(self._value)
        # The fewest digits that tell this float32 from its neighbours, without an exponent.
        for digits in range(1, _DIGITS_OF_FLOAT32 + 1):
            shortened = Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(self._value)
            if struct.pack("<f", shortened) == struct.pack("<f", self._value):
                break
        return format(shortened, "f")

    def __hash__(self) -> int:
        return hash((BFloat16, self._value))

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, BFloat16) else NotImplemented

    def __lt__(self, other: BFloat16) -> bool:
        return self._value < other._value if isinstance(other, BFloat16) else NotImplemented

    def __le__(self, other: BFloat16) -> bool:
        return self._value <= other._value if isinstance(other, BFloat16) else NotImplemented

    def __gt__(self, other: BFloat16) -> bool:
        return self._value > other._value if isinstance(other, BFloat16) else NotImplemented

    def __ge__(self, other: BFloat16) -> bool:
        return self._value >= other._value if isinstance(other, BFloat16) else NotImplemented


class BFloat16Scalar(pa.ExtensionScalar):
    """One value of a [BFloat16Array][pennon.arrow.BFloat16Array].

    Examples
    --------
    >>> from pennon.arrow import BFloat16, bfloat16_array
    >>> numbers = bfloat16_array([1.5, None])
    >>> numbers[0] == BFloat16(1.5), numbers[1].is_valid
    (True, False)
    """

    def as_py(self, **kwargs: Any) -> BFloat16 | None:
        """The value as a [BFloat16][pennon.arrow.BFloat16]; `None` for null.

        Examples
        --------
        >>> from pennon.arrow import bfloat16_array
        >>> float(bfloat16_array([1.5, None])[0].as_py())
        1.5
        """
        return None if self.value is None else BFloat16.from_bytes(self.value.as_py(**kwargs))

    def __eq__(self, other: object) -> bool:
        value = self.as_py()
        if isinstance(other, BFloat16Scalar):
            return value == other.as_py()
        if type(other).__module__.partition(".")[0] == "ml_dtypes":
            return value is not None and float(value) == float(other)  # type: ignore[arg-type]
        return value is not None and value == other

    def __hash__(self) -> int:
        return hash(self.as_py())


class BFloat16Array(pa.ExtensionArray):
    """An Arrow array of bfloat16 numbers, which may be null; made by `bfloat16_array`, `cast` or `from_numpy`.

    Examples
    --------
    >>> from pennon.arrow import bfloat16_array, cast
    >>> numbers = bfloat16_array([1.5, None, 3.3])
    >>> numbers.null_count, numbers.type.storage_type.byte_width
    (1, 2)
    >>> cast(numbers, "float32").to_pylist()
    [1.5, None, 3.296875]
    """

    def __repr__(self) -> str:
        return f"<pennon.arrow.BFloat16Array object at 0x{id(self):016x}>\n{self}"

    def __str__(self) -> str:
        lines = [f"  {value.as_py()}" for value in self[:_SHOWN]]
        if len(self) > 2 * _SHOWN:
            lines.append("  ...")
        lines += [f"  {value.as_py()}" for value in self[max(_SHOWN, len(self) - _SHOWN) :]]
        return "[\n" + ",\n".join(lines) + "\n]"

    def to_numpy(self, zero_copy_only: bool = False) -> np.ndarray[Any, Any]:
        """A view of the values; the dtype is `bfloat16` of the package `ml_dtypes`.

        Parameters
        ----------
        zero_copy_only
            Accepted, without effect: nothing is copied.

        Returns
        -------
        numpy.ndarray of shape (len(self),)

        Raises
        ------
        pennon.InvalidInputError
            There are nulls, which numpy has no value for.
        pennon.MissingPackageError
            `ml_dtypes` is not installed.

        Examples
        --------
        >>> from pennon.arrow import bfloat16_array
        >>> numbers = bfloat16_array([1.5, 2.5]).to_numpy()
        >>> numbers.dtype, float(numbers.astype("float32").sum())
        (dtype(bfloat16), 4.0)
        """
        del zero_copy_only
        if self.null_count:
            raise InvalidInputError(f"{self.null_count} of {len(self)} values are null: expected none for numpy")
        dtype = require("ml_dtypes", "ml_dtypes", "A numpy array of bfloat16").bfloat16
        return self.storage.view(pa.uint16()).to_numpy(zero_copy_only=True).view(dtype)  # type: ignore[no-any-return]

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any]) -> BFloat16Array:
        """The values of a numpy array of dtype `ml_dtypes.bfloat16`.

        Parameters
        ----------
        array
            Of one dimension.

        Raises
        ------
        pennon.InvalidInputError
            The array has another dtype or another number of dimensions.

        Examples
        --------
        >>> import ml_dtypes, numpy as np
        >>> from pennon.arrow import BFloat16Array
        >>> BFloat16Array.from_numpy(np.array([1.5, 2.5], ml_dtypes.bfloat16)).to_pylist()
        [1.5, 2.5]
        """
        if str(getattr(array, "dtype", type(array).__name__)) != "bfloat16":
            found = getattr(array, "dtype", type(array).__name__)
            raise InvalidInputError(f"The values are {found}, expected a numpy array of dtype bfloat16")
        if array.ndim != 1:
            raise InvalidInputError(f"The array has {array.ndim} dimensions, expected one")
        return of_storage(pa.array(array.view("uint16")).view(pa.binary(2)))


class BFloat16Type(pa.ExtensionType):
    """The Arrow type of bfloat16 numbers; its extension name is `lance.bfloat16`.

    Examples
    --------
    >>> import pennon, pyarrow as pa
    >>> from pennon.arrow import BFloat16Type, bfloat16_array
    >>> table = pa.table({"weight": bfloat16_array([0.5, None])})
    >>> table.schema.field("weight").type == BFloat16Type()
    True
    >>> stored = pennon.write_dataset(table, "memory://bfloat16", mode="overwrite")
    >>> stored.to_table()["weight"].to_pylist()
    [0.5, None]
    """

    pandas_type: ClassVar[Any]
    """Makes the pandas dtype; set by the package, which imports pandas for it."""

    def __init__(self) -> None:
        super().__init__(pa.binary(2), NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> BFloat16Type:
        del storage_type, serialized
        return cls()

    def __arrow_ext_class__(self) -> type[BFloat16Array]:
        return BFloat16Array

    def __arrow_ext_scalar_class__(self) -> type[BFloat16Scalar]:
        return BFloat16Scalar

    def __reduce__(self) -> tuple[Any, ...]:
        return BFloat16Type, ()

    def __hash__(self) -> int:
        return hash(NAME)

    def to_pandas_dtype(self) -> Any:
        """The pandas dtype, `lance.bfloat16`; what `to_pandas` makes of columns of this type.

        Raises
        ------
        pennon.MissingPackageError
            Pandas is not installed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from pennon.arrow import BFloat16Type, bfloat16_array
        >>> frame = pa.table({"weight": bfloat16_array([0.5, None])}).to_pandas()
        >>> frame["weight"].dtype == BFloat16Type().to_pandas_dtype()
        True
        """
        require("pandas", "pandas", "A column of pandas")
        return self.pandas_type()


def bfloat16_array(values: Iterable[float | BFloat16 | None]) -> BFloat16Array:
    """An array of numbers, each rounded to the nearest bfloat16.

    Parameters
    ----------
    values
        Numbers and, for nulls, `None`; or an Arrow array of numbers.

    Raises
    ------
    pennon.InvalidInputError
        A value is not a number.

    Examples
    --------
    >>> from pennon.arrow import bfloat16_array
    >>> print(bfloat16_array([1.5, None, 3.3]))
    [
      1.5,
      None,
      3.296875
    ]
    """
    try:
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            values = [value.as_float() if isinstance(value, BFloat16) else value for value in values]
            values = pa.array(values, pa.float64())
        return from_floats(pc.cast(combined(values), pa.float32(), safe=False))
    except (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"The values of a bfloat16 array must be numbers or None: {error}") from error


def is_bfloat16(kind: pa.DataType) -> bool:
    """Whether the type is `lance.bfloat16`, by whichever package it is registered."""
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == NAME


def of_storage(storage: pa.FixedSizeBinaryArray) -> BFloat16Array:
    """The array of these bytes."""
    return cast(BFloat16Array, pa.ExtensionArray.from_storage(BFloat16Type(), storage))


def combined(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array of all chunks."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def to_floats(array: pa.ExtensionArray) -> pa.FloatArray:
    """The same values as float32; no value changes."""
    bits = array.storage.view(pa.uint16()).cast(pa.uint32())
    return pc.shift_left(bits, pa.scalar(16, pa.uint32())).view(pa.float32())


def from_floats(array: pa.FloatArray) -> BFloat16Array:
    """The nearest bfloat16 of each float32."""
    bits = array.view(pa.uint32())
    upper = pc.shift_right(bits, pa.scalar(16, pa.uint32()))
    odd = pc.bit_wise_and(upper, pa.scalar(1, pa.uint32()))
    rounded = pc.shift_right(pc.add(pc.add(bits, pa.scalar(0x7FFF, pa.uint32())), odd), pa.scalar(16, pa.uint32()))
    # Rounding could carry a NaN into the sign, and cutting one could make it infinite.
    quiet = pc.bit_wise_or(upper, pa.scalar(0x40, pa.uint32()))
    return of_storage(pc.if_else(pc.is_nan(array), quiet, rounded).cast(pa.uint16()).view(pa.binary(2)))


def _round(value: float) -> float:
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    if math.isnan(value):
        return value
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    rounded: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return rounded
