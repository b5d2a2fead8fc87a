"""Arrays of images, and the ways from URIs to files and from files to pixels and back."""

from __future__ import annotations

import io
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.fs

from pennon._optional import require
from pennon.arrow._image import (
    EncodedImageType,
    FixedShapeImageTensorType,
    ImageURIType,
    is_binary,
    is_text,
    texts_of,
)
from pennon.errors import InvalidInputError, InvalidTypeError, NotFoundError, StoreError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["EncodedImageArray", "FixedShapeImageTensorArray", "ImageArray", "ImageURIArray"]

_SHOWN = 3


class ImageArray(pa.ExtensionArray):
    """Images in one of three forms; see [from_array][pennon.arrow.ImageArray.from_array].

    Examples
    --------
    >>> from pennon.arrow import ImageArray
    >>> images = ImageArray.from_array(["1.png", "2.png", None])
    >>> type(images).__name__, images.null_count
    ('ImageURIArray', 1)
    """

    def __repr__(self) -> str:
        values = [_shown(value.as_py()) for value in self[:_SHOWN]]
        more = ", ..." if len(self) > _SHOWN else ""
        return f"<pennon.arrow.{type(self).__name__} object at 0x{id(self):016x}>\n[{', '.join(values)}{more}]"

    @classmethod
    def from_array(cls, images: Any) -> ImageArray:
        """The array of images that these values are.

        Parameters
        ----------
        images
            Texts and paths are URIs, bytes are encoded images, an array of tensors is one of pixels; as an Arrow
            array or any iterable. An array of images is returned as it is.

        Returns
        -------
        ImageURIArray, EncodedImageArray or FixedShapeImageTensorArray

        Raises
        ------
        pennon.InvalidInputError
            The values are something else.

        Examples
        --------
        >>> from pennon.arrow import ImageArray
        >>> ImageArray.from_array([b"GIF89a"]).type.extension_name
        'lance.arrow.encoded_image'
        """
        if isinstance(images, ImageArray):
            return images
        if isinstance(images, pa.ChunkedArray):
            images = images.combine_chunks()
        if isinstance(images, pa.FixedShapeTensorArray):
            return _of_storage(FixedShapeImageTensorType(images.type.value_type, images.type.shape), images.storage)
        if isinstance(images, pa.Array):
            return _of_arrow(images)
        if isinstance(images, str | bytes) or not isinstance(images, Iterable):
            raise InvalidInputError(f"The images are a {type(images).__name__}, expected an array or an iterable")
        values = [value.as_py() if isinstance(value, pa.Scalar) else value for value in images]
        if any(isinstance(value, bytes) for value in values):
            try:
                return _of_storage(EncodedImageType(), pa.array(values, pa.binary()))
            except (TypeError, pa.ArrowInvalid) as error:
                raise InvalidInputError(f"Encoded images must be bytes or None: {error}") from error
        return ImageURIArray.from_uris(values)


class ImageURIArray(ImageArray):
    """URIs of images: local paths, or what a worker that reads them can reach (file, S3, GCS, HTTP).

    Examples
    --------
    >>> import pennon, pyarrow as pa
    >>> from pennon.arrow import ImageArray, ImageURIArray
    >>> pictures = pa.table({"at": ImageURIArray.from_uris(["1.png", "2.png"])})
    >>> table = pennon.write_dataset(pictures, "memory://image-uri-array", mode="overwrite")
    >>> type(ImageArray.from_array(table.to_table()["at"])).__name__
    'ImageURIArray'
    """

    @classmethod
    def from_uris(cls, uris: pa.Array | Iterable[str | PathLike[str] | None]) -> ImageURIArray:
        """An array of these URIs.

        Parameters
        ----------
        uris
            Texts, paths and, for nulls, `None`; or an Arrow array of texts.

        Raises
        ------
        pennon.InvalidInputError
            There is something else among them.

        Examples
        --------
        >>> from pennon.arrow import ImageURIArray
        >>> ImageURIArray.from_uris(["s3://pictures/1.png", None]).to_pylist()
        ['s3://pictures/1.png', None]
        """
        if isinstance(uris, ImageURIArray):
            return uris
        if isinstance(uris, pa.ChunkedArray):
            uris = uris.combine_chunks()
        if isinstance(uris, pa.Array) and is_text(uris.type):
            return cast(ImageURIArray, _of_storage(ImageURIType(uris.type), uris))
        if isinstance(uris, str | bytes) or not isinstance(uris, Iterable):
            raise InvalidInputError(f"The URIs are a {type(uris).__name__}, expected an array or an iterable")
        return cast(ImageURIArray, _of_storage(ImageURIType(), pa.array(texts_of(uris), pa.string())))

    def read_uris(self, storage_type: pa.DataType = pa.binary()) -> EncodedImageArray:  # noqa: B008
        """Read the files, one after the other; a null stays null.

        Parameters
        ----------
        storage_type
            `pa.binary()`, or `pa.large_binary()` for more than 2 GiB.

        Raises
        ------
        pennon.NotFoundError
            There is no such file.
        pennon.InvalidInputError
            The scheme of a URI is unknown, or `storage_type` is not a type of bytes.
        pennon.StoreError
            A file cannot be read.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from pennon.arrow import ImageURIArray
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "1.gif")
        >>> _ = path.write_bytes(b"GIF89a")
        >>> ImageURIArray.from_uris([path, None]).read_uris().to_pylist()
        [b'GIF89a', None]
        >>> folder.cleanup()
        """
        kind = EncodedImageType(storage_type)
        files = [None if uri is None else _read(uri) for uri in self.to_pylist()]
        return cast(EncodedImageArray, _of_storage(kind, pa.array(files, storage_type)))


class EncodedImageArray(ImageArray):
    """Images as the bytes of files of any format.

    Examples
    --------
    >>> import pennon, pyarrow as pa
    >>> from pennon.arrow import ImageArray
    >>> pictures = pa.table({"file": ImageArray.from_array([b"GIF89a", None])})
    >>> table = pennon.write_dataset(pictures, "memory://encoded-image-array", mode="overwrite")
    >>> ImageArray.from_array(table.to_table()["file"]).to_pylist()
    [b'GIF89a', None]
    """

    def to_tensor(
        self, decoder: Callable[[pa.BinaryArray], np.ndarray[Any, Any] | pa.FixedShapeTensorArray] | None = None
    ) -> FixedShapeImageTensorArray:
        """Decode the images, all of which have one shape.

        Parameters
        ----------
        decoder
            Makes a numpy array of shape (images, height, width, ...), or Arrow tensors, of an Arrow array of bytes;
            by default Pillow decodes each file.

        Raises
        ------
        pennon.InvalidInputError
            There are no images, one is null or cannot be decoded, their shapes differ, or the decoder returns
            something else.
        pennon.MissingPackageError
            There is no decoder and Pillow is not installed.

        Examples
        --------
        >>> import io
        >>> import PIL.Image
        >>> from pennon.arrow import ImageArray
        >>> PIL.Image.new("RGB", (4, 2), "red").save(file := io.BytesIO(), "PNG")
        >>> tensors = ImageArray.from_array([file.getvalue()]).to_tensor()
        >>> tensors.type.shape, tensors.to_numpy()[0, 0, 0].tolist()
        ((2, 4, 3), [255, 0, 0])
        """
        decoded = _decode(self) if decoder is None else decoder(self.storage)
        if isinstance(decoded, pa.FixedShapeTensorArray):
            tensors = decoded
        elif hasattr(decoded, "shape") and hasattr(decoded, "dtype") and len(decoded.shape) > 1:
            tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(decoded)
        else:
            kind = type(decoded).__name__
            raise InvalidInputError(f"The decoder returned a {kind}, expected a numpy array of images or tensors")
        if len(tensors) != len(self):
            raise InvalidInputError(f"The decoder returned {len(tensors)} images, expected {len(self)}")
        return cast(FixedShapeImageTensorArray, ImageArray.from_array(tensors))


class FixedShapeImageTensorArray(ImageArray):
    """Images of one shape, as pixels. Made by [from_array][pennon.arrow.ImageArray.from_array] and
    [to_tensor][pennon.arrow.EncodedImageArray.to_tensor].

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from pennon.arrow import ImageArray
    >>> pixels = np.zeros((3, 480, 640), np.uint8)  # three grey images
    >>> images = ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(pixels))
    >>> type(images).__name__, len(images), images.type.shape
    ('FixedShapeImageTensorArray', 3, (480, 640))
    """

    def to_numpy(self, zero_copy_only: bool = True) -> np.ndarray[Any, Any]:
        """The pixels, without a copy.

        Parameters
        ----------
        zero_copy_only
            Accepted, without effect: nothing is copied.

        Returns
        -------
        numpy.ndarray of shape `(len(self),) + type.shape`

        Raises
        ------
        pennon.InvalidInputError
            An image is null.

        Examples
        --------
        >>> import numpy as np, pyarrow as pa
        >>> from pennon.arrow import ImageArray
        >>> pixels = np.arange(8, dtype=np.uint8).reshape(2, 2, 2)
        >>> images = ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(pixels))
        >>> images.to_numpy()[1].tolist()
        [[4, 5], [6, 7]]
        """
        del zero_copy_only
        _refuse_nulls(self)
        require("numpy", "numpy", "An array of images")
        shape = (len(self), *self.type.shape)
        return self.storage.flatten().to_numpy().reshape(shape)  # type: ignore[no-any-return]

    def to_encoded(
        self,
        encoder: Callable[[np.ndarray[Any, Any]], pa.Array | Iterable[bytes]] | None = None,
        storage_type: pa.DataType = pa.binary(),  # noqa: B008
    ) -> EncodedImageArray:
        """Encode the images, by default as PNG.

        Parameters
        ----------
        encoder
            Makes bytes, one for each image, of a numpy array of shape (images, height, width, ...); by default
            Pillow writes PNG.
        storage_type
            `pa.binary()`, or `pa.large_binary()` for more than 2 GiB.

        Raises
        ------
        pennon.InvalidInputError
            An image is null, Pillow cannot encode images of this type and shape, or the encoder returns something
            else.
        pennon.MissingPackageError
            There is no encoder and Pillow is not installed.

        Examples
        --------
        >>> import numpy as np, pyarrow as pa
        >>> from pennon.arrow import ImageArray
        >>> pixels = np.zeros((1, 4, 4, 3), np.uint8)  # a black image
        >>> images = ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(pixels))
        >>> images.to_encoded()[0].as_py()[1:4]
        b'PNG'
        >>> images.to_encoded(lambda pixels: [image.tobytes() for image in pixels])
        <pennon.arrow.EncodedImageArray object at 0x...>
        [48 bytes]
        """
        kind = EncodedImageType(storage_type)
        pixels = self.to_numpy()
        files = _encode(pixels) if encoder is None else encoder(pixels)
        try:
            encoded = files.cast(storage_type) if isinstance(files, pa.Array) else _bytes(files, storage_type)
        except (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            kind_of = type(files).__name__
            message = f"The encoder returned a {kind_of}, expected an array of bytes or an iterable: {error}"
            raise InvalidInputError(message) from error
        if len(encoded) != len(self):
            raise InvalidInputError(f"The encoder returned {len(encoded)} files, expected {len(self)}")
        return cast(EncodedImageArray, _of_storage(kind, encoded))


def _of_arrow(array: pa.Array) -> ImageArray:
    kind = array.type
    if is_text(kind):
        return _of_storage(ImageURIType(kind), array)
    if is_binary(kind):
        return _of_storage(EncodedImageType(kind), array)
    # Arrays of images that another package has registered.
    if isinstance(kind, pa.BaseExtensionType):
        for ours in (ImageURIType, EncodedImageType):
            if kind.extension_name == ours().extension_name:
                return _of_storage(ours(kind.storage_type), array.storage)
        if kind.extension_name == "lance.arrow.fixed_shape_image_tensor":
            tensors = FixedShapeImageTensorType.__arrow_ext_deserialize__(
                kind.storage_type, kind.__arrow_ext_serialize__()
            )
            return _of_storage(tensors, array.storage)
    raise InvalidInputError(f"The array is of type {kind}, expected URIs (string), files (binary) or tensors")


def _of_storage(kind: pa.ExtensionType, storage: pa.Array) -> ImageArray:
    return cast(ImageArray, pa.ExtensionArray.from_storage(kind, storage))


def _bytes(files: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(files, str | bytes):
        raise InvalidTypeError("one value for all images")
    return pa.array(list(files), kind)


def _shown(value: Any) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)


def _refuse_nulls(array: ImageArray) -> None:
    if array.null_count:
        first = array.is_null().to_pylist().index(True)
        raise InvalidInputError(f"{array.null_count} of {len(array)} images are null, number {first} first")


def _read(uri: str) -> bytes:
    scheme, separator, _ = uri.partition("://")
    try:
        if separator and scheme in ("http", "https"):
            with urllib.request.urlopen(uri) as response:
                return cast(bytes, response.read())
        if not separator and not uri.startswith("file:"):
            with open(uri, "rb") as file:
                return file.read()
        filesystem, path = pyarrow.fs.FileSystem.from_uri(uri)
        with filesystem.open_input_stream(path) as stream:
            return cast(bytes, stream.read())
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no image at {uri}: {error}", path=uri) from error
    except urllib.error.HTTPError as error:
        kind = NotFoundError if error.code in (404, 410) else StoreError
        raise kind(f"The image at {uri} cannot be read: {error}", path=uri) from error
    except OSError as error:
        raise StoreError(f"The image at {uri} cannot be read: {error}", path=uri) from error
    except ValueError as error:
        raise InvalidInputError(f"The image has the URI {uri!r}: {error}") from error


def _decode(images: EncodedImageArray) -> np.ndarray[Any, Any]:
    pillow = require("PIL.Image", "pillow", "Decoding images without a decoder")
    require("numpy", "numpy", "An array of images")
    import numpy as np

    _refuse_nulls(images)
    decoded: list[np.ndarray[Any, Any]] = []
    for position, file in enumerate(images.to_pylist()):
        try:
            with pillow.open(io.BytesIO(file)) as image:
                pixels = np.asarray(image)
        except (OSError, SyntaxError, ValueError) as error:
            raise InvalidInputError(f"Image {position} cannot be decoded: {error}") from error
        if decoded and (pixels.shape, pixels.dtype) != (decoded[0].shape, decoded[0].dtype):
            found, first = (f"{array.dtype} of shape {array.shape}" for array in (pixels, decoded[0]))
            raise InvalidInputError(f"Image {position} is {found}, expected {first} as that of image 0")
        decoded.append(pixels)
    if not decoded:
        raise InvalidInputError("There are no images to decode, expected one at least: their shape is unknown")
    return np.stack(decoded)


def _encode(images: np.ndarray[Any, Any]) -> list[bytes]:
    pillow = require("PIL.Image", "pillow", "Encoding images without an encoder")
    files = []
    for pixels in images:
        file = io.BytesIO()
        try:
            pillow.fromarray(pixels).save(file, format="PNG")
        except (TypeError, OSError, ValueError) as error:
            message = f"Images of {pixels.dtype} and shape {pixels.shape} cannot be encoded as PNG: {error}"
            raise InvalidInputError(message) from error
        files.append(file.getvalue())
    return files


ImageURIType.array_class = ImageURIArray
EncodedImageType.array_class = EncodedImageArray
FixedShapeImageTensorType.array_class = FixedShapeImageTensorArray
