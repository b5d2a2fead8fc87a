"""Extension types for images: where they are (URIs), their files (encoded), or their pixels (tensors).

| type | extension name | storage |
|---|---|---|
| `ImageURIType` | `lance.arrow.image_uri` | text |
| `EncodedImageType` | `lance.arrow.encoded_image` | binary |
| `FixedShapeImageTensorType` | `lance.arrow.fixed_shape_image_tensor` | fixed-size lists of pixels, row by row |
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from pennon.errors import CorruptError, InvalidInputError

__all__ = [
    "EncodedImageScalar",
    "EncodedImageType",
    "FixedShapeImageTensorScalar",
    "FixedShapeImageTensorType",
    "ImageScalar",
    "ImageURIScalar",
    "ImageURIType",
    "is_binary",
    "is_text",
]


def is_text(kind: pa.DataType) -> bool:
    """Whether the type is one of texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether the type is one of bytes of any length."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


class ImageScalar(pa.ExtensionScalar):
    """One value of an array of images.

    Examples
    --------
    >>> from pennon.arrow import ImageArray, ImageScalar
    >>> isinstance(ImageArray.from_array(["s3://pictures/1.png"])[0], ImageScalar)
    True
    """

    def as_py(self, **kwargs: Any) -> Any:
        """The stored value: a text, bytes or a list of numbers; `None` for null.

        Examples
        --------
        >>> from pennon.arrow import ImageArray
        >>> [image.as_py() for image in ImageArray.from_array([b"GIF89a", None])]
        [b'GIF89a', None]
        """
        return None if self.value is None else self.value.as_py(**kwargs)


class ImageURIScalar(ImageScalar):
    """The URI of one image.

    Examples
    --------
    >>> from pennon.arrow import ImageURIArray
    >>> ImageURIArray.from_uris(["s3://pictures/1.png"])[0].as_py()
    's3://pictures/1.png'
    """


class EncodedImageScalar(ImageScalar):
    """The file of one image.

    Examples
    --------
    >>> from pennon.arrow import ImageArray
    >>> image = ImageArray.from_array([b"GIF89a"])[0]
    >>> type(image).__name__, image.as_py()
    ('EncodedImageScalar', b'GIF89a')
    """


class FixedShapeImageTensorScalar(ImageScalar):
    """The pixels of one image, row by row.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from pennon.arrow import ImageArray
    >>> pixels = np.array([[[1, 2], [3, 4]]], np.uint8)  # one grey image of 2 by 2 pixels
    >>> ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(pixels))[0].as_py()
    [1, 2, 3, 4]
    """


class _ImageType(pa.ExtensionType):
    """What the types whose storage is all that they record have in common."""

    array_class: ClassVar[Any]
    """Of their arrays, which set it."""

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> _ImageType:
        del serialized
        return cls(storage_type)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.storage_type,)

    def __hash__(self) -> int:
        return hash((self.extension_name, self.storage_type))


class ImageURIType(_ImageType):
    """URIs of images.

    Parameters
    ----------
    storage_type
        `pa.string()` or `pa.large_string()`.

    Raises
    ------
    pennon.InvalidInputError
        The storage is of another type.

    Examples
    --------
    >>> import pennon, pyarrow as pa
    >>> from pennon.arrow import ImageURIType
    >>> schema = pa.schema([("at", ImageURIType())])
    >>> table = pennon.write_dataset([], "memory://image-uris", schema=schema, mode="overwrite")
    >>> table.schema.field("at").type.extension_name, table.schema.field("at").type.storage_type
    ('lance.arrow.image_uri', DataType(string))
    """

    def __init__(self, storage_type: pa.DataType = pa.string()) -> None:  # noqa: B008
        if not is_text(storage_type):
            raise InvalidInputError(f"The storage of image URIs is {storage_type}, expected string or large_string")
        super().__init__(storage_type, "lance.arrow.image_uri")

    def __arrow_ext_class__(self) -> Any:
        return self.array_class

    def __arrow_ext_scalar_class__(self) -> type[ImageURIScalar]:
        return ImageURIScalar


class EncodedImageType(_ImageType):
    """Images as files (PNG, JPEG or any other format), whose format is found in their bytes.

    Parameters
    ----------
    storage_type
        `pa.binary()`, or `pa.large_binary()` for arrays of more than 2 GiB.

    Raises
    ------
    pennon.InvalidInputError
        The storage is of another type.

    Examples
    --------
    >>> import pennon, pyarrow as pa
    >>> from pennon.arrow import EncodedImageType
    >>> schema = pa.schema([("file", EncodedImageType(pa.large_binary()))])
    >>> table = pennon.write_dataset([], "memory://encoded-images", schema=schema, mode="overwrite")
    >>> table.schema.field("file").type.extension_name, table.schema.field("file").type.storage_type
    ('lance.arrow.encoded_image', DataType(large_binary))
    """

    def __init__(self, storage_type: pa.DataType = pa.binary()) -> None:  # noqa: B008
        if not is_binary(storage_type):
            raise InvalidInputError(
                f"The storage of encoded images is {storage_type}, expected binary or large_binary"
            )
        super().__init__(storage_type, "lance.arrow.encoded_image")

    def __arrow_ext_class__(self) -> Any:
        return self.array_class

    def __arrow_ext_scalar_class__(self) -> type[EncodedImageScalar]:
        return EncodedImageScalar


class FixedShapeImageTensorType(pa.ExtensionType):
    """Images of one shape, as pixels.

    Parameters
    ----------
    arrow_type
        Type of a sample, kept in the attribute `arrow_type`; `pa.uint8()` for most images.
    shape
        Of one image: height, width and, if there are several, the number of channels; kept as a tuple in `shape`.

    Raises
    ------
    pennon.InvalidInputError
        The shape is not a sequence of whole numbers that are not negative.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.arrow import FixedShapeImageTensorType
    >>> kind = FixedShapeImageTensorType(pa.uint8(), (480, 640, 3))
    >>> kind.shape, kind.storage_type
    ((480, 640, 3), FixedSizeListType(fixed_size_list<item: uint8>[921600]))
    """

    array_class: ClassVar[Any]

    def __init__(self, arrow_type: pa.DataType, shape: Sequence[int]) -> None:
        try:
            self.shape = tuple(int(size) for size in shape)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"The shape of an image is {shape!r}, expected whole numbers") from error
        if any(size < 0 for size in self.shape):
            raise InvalidInputError(f"The shape of an image is {self.shape}, expected no negative size")
        self.arrow_type = arrow_type
        super().__init__(pa.list_(arrow_type, math.prod(self.shape)), "lance.arrow.fixed_shape_image_tensor")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps({"shape": self.shape}).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> FixedShapeImageTensorType:
        try:
            shape = json.loads(serialized)["shape"]
        except (ValueError, KeyError, TypeError) as error:
            message = f'The metadata of image tensors is {serialized!r}, expected JSON with a "shape"'
            raise CorruptError(message) from error
        return cls(storage_type.value_type, shape)

    def __arrow_ext_class__(self) -> Any:
        return self.array_class

    def __arrow_ext_scalar_class__(self) -> type[FixedShapeImageTensorScalar]:
        return FixedShapeImageTensorScalar

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedShapeImageTensorType, (self.arrow_type, self.shape)

    def __hash__(self) -> int:
        return hash((self.extension_name, self.storage_type, self.shape))


def texts_of(uris: Iterable[Any]) -> list[str | None]:
    """The texts of URIs and paths."""
    from os import PathLike, fspath

    found: list[str | None] = []
    for position, uri in enumerate(uris):
        value = uri.as_py() if isinstance(uri, pa.Scalar) else uri
        if value is not None and not isinstance(value, str | PathLike):
            kind = type(value).__name__
            raise InvalidInputError(f"The URI of image {position} is a {kind}, expected text, a path or None")
        found.append(None if value is None else str(fspath(value)))
    return found
