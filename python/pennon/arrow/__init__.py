"""Arrow extension types: bfloat16 numbers and images, under the names that Lance tables have them.

Importing this module registers the types with pyarrow, so that columns of them are read as such. If pylance is
imported in the same process its classes are registered, before or after; the functions of this module take either.

Examples
--------
>>> from pennon.arrow import bfloat16_array, cast
>>> weights = bfloat16_array([0.5, 3.14159])
>>> cast(weights, "float32").to_pylist()
[0.5, 3.140625]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon._optional import require
from pennon._registration import register as _register
from pennon.arrow._bfloat16 import BFloat16, BFloat16Array, BFloat16Scalar, BFloat16Type, bfloat16_array
from pennon.arrow._cast import cast
from pennon.arrow._image import (
    EncodedImageScalar,
    EncodedImageType,
    FixedShapeImageTensorScalar,
    FixedShapeImageTensorType,
    ImageScalar,
    ImageURIScalar,
    ImageURIType,
)
from pennon.arrow._image_array import EncodedImageArray, FixedShapeImageTensorArray, ImageArray, ImageURIArray

if TYPE_CHECKING:
    from pennon.arrow._pandas import PandasBFloat16Array, PandasBFloat16Type

__all__ = [
    "BFloat16",
    "BFloat16Array",
    "BFloat16Scalar",
    "BFloat16Type",
    "EncodedImageArray",
    "EncodedImageScalar",
    "EncodedImageType",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorScalar",
    "FixedShapeImageTensorType",
    "ImageArray",
    "ImageScalar",
    "ImageURIArray",
    "ImageURIScalar",
    "ImageURIType",
    "PandasBFloat16Array",
    "PandasBFloat16Type",
    "bfloat16_array",
    "cast",
]


def __getattr__(name: str) -> Any:
    """The classes for pandas, which is imported with them."""
    if name not in ("PandasBFloat16Array", "PandasBFloat16Type"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("pandas", "pandas", f"pennon.arrow.{name}")
    from pennon.arrow import _pandas

    return getattr(_pandas, name)


def _pandas_type() -> Any:
    return __getattr__("PandasBFloat16Type")()


# What is pickled names this module: of two threads that first import a module of it each, one waits for the other.
for _class in (BFloat16, BFloat16Type, EncodedImageType, FixedShapeImageTensorType, ImageURIType):
    _class.__module__ = __name__

BFloat16Type.pandas_type = staticmethod(_pandas_type)
_register([BFloat16Type(), ImageURIType(), EncodedImageType(), FixedShapeImageTensorType(pa.uint8(), (0,))])
