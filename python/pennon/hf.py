"""Columns of datasets of Hugging Face, whose features are in the metadata of the schema."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pennon._optional import require
from pennon.errors import UnsupportedError

__all__ = ["HuggingFaceConverter"]


class HuggingFaceConverter:
    """Makes of a column what its feature says; [LanceDataset][pennon.torch.data.LanceDataset] uses it.

    Parameters
    ----------
    ds_info
        What a schema has for the key `huggingface`, read from its JSON.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pennon.hf import HuggingFaceConverter
    >>> converter = HuggingFaceConverter({"info": {"features": {"picture": {"_type": "Image"}}}})
    >>> converter.to_pytorch("picture", pa.array([None], pa.struct([("bytes", pa.binary())])))
    [None]
    """

    def __init__(self, ds_info: Mapping[str, Any]) -> None:
        self.ds_info = ds_info

    def to_pytorch(self, col: str, array: pa.Array) -> list[Any] | None:
        """The images of a column; `None` for a column that is not among the features.

        Parameters
        ----------
        col
            The column.
        array
            Its values: structs with the bytes of an image, or the path of its file.

        Returns
        -------
        list of PIL.Image.Image
            `None` in it for null.

        Raises
        ------
        pennon.UnsupportedError
            The column is of another feature.
        pennon.MissingPackageError
            Pillow is not installed.

        Examples
        --------
        >>> import io
        >>> import PIL.Image
        >>> import pyarrow as pa
        >>> from pennon.hf import HuggingFaceConverter
        >>> PIL.Image.new("RGB", (4, 3)).save(file := io.BytesIO(), "PNG")
        >>> converter = HuggingFaceConverter({"info": {"features": {"picture": {"_type": "Image"}}}})
        >>> (image,) = converter.to_pytorch("picture", pa.array([{"bytes": file.getvalue(), "path": None}]))
        >>> image.size
        (4, 3)
        """
        feature = self.ds_info.get("info", {}).get("features", {}).get(col)
        if feature is None:
            return None
        kind = feature.get("_type") if isinstance(feature, Mapping) else None
        if kind != "Image":
            raise UnsupportedError(f"Column {col!r} has the feature {kind or feature!r}, expected Image")
        return [_image(value) for value in array.to_pylist()]


def _image(value: Mapping[str, Any] | None) -> Any:
    if value is None:
        return None
    images = require("PIL.Image", "Pillow", "A column of images")
    data = value.get("bytes")
    return images.open(value["path"] if data is None else io.BytesIO(data))
