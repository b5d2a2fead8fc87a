"""Columns of images, next to those of pylance."""

from __future__ import annotations

import json
import pickle
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import lance
import lance.arrow as theirs
import numpy as np
import pennon
import pennon.arrow as ours
import pyarrow as pa
import pytest
from pennon import NotFoundError, StoreError
from support.calls import refused

BOTH = (ours, theirs)
SHAPE = (2, 1, 3)


def png(red: int) -> bytes:
    """A picture of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes([0, red, 2, 3])))
    return b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b"")


def tensors() -> pa.FixedShapeTensorArray:
    return pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12, dtype=np.uint8).reshape(2, *SHAPE))


def encoded(module: Any, files: list[bytes | None], kind: pa.DataType | None = None) -> Any:
    kind = kind or pa.binary()
    return pa.ExtensionArray.from_storage(module.EncodedImageType(kind), pa.array(files, kind))


TYPES: list[Callable[[Any], Any]] = [
    lambda module: module.ImageURIType(),
    lambda module: module.ImageURIType(pa.large_string()),
    lambda module: module.EncodedImageType(),
    lambda module: module.EncodedImageType(pa.large_binary()),
    lambda module: module.FixedShapeImageTensorType(pa.uint8(), SHAPE),
    lambda module: module.FixedShapeImageTensorType(pa.float32(), (0,)),
]


@pytest.mark.parametrize("make", TYPES)
def test_types(make: Callable[[Any], Any]) -> None:
    mine, other = make(ours), make(theirs)
    assert mine.extension_name == other.extension_name
    assert mine.storage_type == other.storage_type
    serialized = mine.__arrow_ext_serialize__()
    assert serialized == other.__arrow_ext_serialize__()
    assert type(mine).__arrow_ext_deserialize__(mine.storage_type, serialized) == mine
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert hash(pickle.loads(pickle.dumps(mine))) == hash(mine)
    assert str(mine) == str(other)


def test_types_have_attributes() -> None:
    for module in BOTH:
        tensor = module.FixedShapeImageTensorType(pa.uint8(), SHAPE)
        assert (tensor.shape, tensor.arrow_type) == (SHAPE, pa.uint8())


def test_wrong_storage() -> None:
    for module in BOTH:
        with pytest.raises(ValueError, match="storage"):
            module.ImageURIType(pa.int32())
        with pytest.raises(ValueError, match="storage"):
            module.EncodedImageType(pa.string())
    refused("int32, expected string", ours.ImageURIType, pa.int32())
    refused("is string, expected binary", ours.EncodedImageType, pa.string())
    refused("shape of an image is 3", ours.FixedShapeImageTensorType, pa.uint8(), 3)
    refused("no negative", ours.FixedShapeImageTensorType, pa.uint8(), (2, -1))
    with pytest.raises(pennon.CorruptError, match="shape"):
        ours.FixedShapeImageTensorType.__arrow_ext_deserialize__(pa.list_(pa.uint8(), 2), b"{}")


ARRAYS: list[Any] = [
    ["a", "b"],
    [],
    pa.array(["a"]),
    pa.array(["a"], pa.large_string()),
    pa.chunked_array([["a"], ["b"]]),
    pa.array([b"a"]),
    pa.array([b"a"], pa.large_binary()),
    tensors(),
]


@pytest.mark.parametrize("images", ARRAYS, ids=lambda images: str(getattr(images, "type", images)))
def test_from_array(images: Any) -> None:
    mine, other = ours.ImageArray.from_array(images), theirs.ImageArray.from_array(images)
    assert type(mine).__name__ == type(other).__name__
    assert mine.storage.equals(other.storage)
    assert mine.type.extension_name == other.type.extension_name
    assert type(mine[0] if len(mine) else None).__name__ == type(other[0] if len(other) else None).__name__
    assert mine.to_pylist() == other.to_pylist()
    assert ours.ImageArray.from_array(mine) is mine
    assert type(ours.ImageArray.from_array(other)) is type(mine)
    assert pickle.loads(pickle.dumps(mine)).equals(mine)


def test_uris() -> None:
    for uris in (["a", "b"], iter(["a", "b"]), pa.array(["a", "b"]), (Path("a"), "b")):
        uris = list(uris) if isinstance(uris, Iterator) else uris
        mine, other = ours.ImageURIArray.from_uris(uris), theirs.ImageURIArray.from_uris(uris)
        assert mine.to_pylist() == other.to_pylist() == ["a", "b"]
    assert "['a']" in repr(ours.ImageURIArray.from_uris(["a"]))
    assert repr(theirs.ImageURIArray.from_uris(["a"])).endswith("['a']")


def test_differences() -> None:
    # The reference writes null as the text "None", numbers as their digits, and bytes as texts.
    assert ours.ImageURIArray.from_uris(["a", None]).to_pylist() == ["a", None]
    assert theirs.ImageURIArray.from_uris(["a", None]).to_pylist() == ["a", "None"]
    refused("URI of image 1 is a int", ours.ImageURIArray.from_uris, ["a", 1])
    assert isinstance(ours.ImageArray.from_array([b"a", None]), ours.EncodedImageArray)
    # Nor can it show nulls.
    assert repr(encoded(ours, [b"abc", None])).endswith("[3 bytes, None]")


def test_other_values_are_refused() -> None:
    refused("a int, expected an array", ours.ImageArray.from_array, 5)
    refused("a str, expected an array", ours.ImageArray.from_array, "a.png")
    refused("type int64", ours.ImageArray.from_array, pa.array([1]))
    refused("URI of image 0", ours.ImageArray.from_array, [1])
    refused("must be bytes", ours.ImageArray.from_array, [b"a", 1])
    refused("a int, expected an array", ours.ImageURIArray.from_uris, 5)


def test_reading_uris(tmp_path: Path) -> None:
    path = tmp_path / "1.png"
    path.write_bytes(png(1))
    for uri in (str(path), path.as_uri()):
        for kind in (pa.binary(), pa.large_binary()):
            mine, other = (m.ImageURIArray.from_uris([uri, path]).read_uris(kind) for m in BOTH)
            assert mine.to_pylist() == other.to_pylist() == [png(1)] * 2
            assert mine.type.storage_type == other.type.storage_type == kind
    assert ours.ImageURIArray.from_uris([path, None]).read_uris().to_pylist() == [png(1), None]
    assert ours.ImageURIArray.from_uris([]).read_uris().to_pylist() == []
    missing = ours.ImageURIArray.from_uris([tmp_path / "2.png"])
    with pytest.raises(NotFoundError, match=r"2\.png"):
        missing.read_uris()
    with pytest.raises(NotFoundError, match=r"2\.png"):
        ours.ImageURIArray.from_uris([(tmp_path / "2.png").as_uri()]).read_uris()
    refused("nope://", ours.ImageURIArray.from_uris(["nope://x/y"]).read_uris)
    refused("is string", missing.read_uris, pa.string())
    with pytest.raises(StoreError, match="cannot be read"):
        ours.ImageURIArray.from_uris(["http://127.0.0.1:1/x.png"]).read_uris()


class Pictures(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/1.png" else 404)
        self.end_headers()
        self.wfile.write(png(1) if self.path == "/1.png" else b"")

    def log_message(self, *arguments: Any) -> None:
        pass


def test_reading_uris_of_a_web_server() -> None:
    server = HTTPServer(("127.0.0.1", 0), Pictures)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        root = f"http://127.0.0.1:{server.server_port}"
        for module in BOTH:
            assert module.ImageURIArray.from_uris([f"{root}/1.png"]).read_uris().to_pylist() == [png(1)]
        with pytest.raises(NotFoundError, match="404"):
            ours.ImageURIArray.from_uris([f"{root}/2.png"]).read_uris()
    finally:
        server.shutdown()
        server.server_close()


def test_pixels() -> None:
    pytest.importorskip("PIL")
    for files in ([png(1)], [png(1), png(9)]):
        mine, other = (encoded(module, files).to_tensor() for module in BOTH)
        assert np.array_equal(mine.to_numpy(), other.to_numpy())
        assert mine.type.shape == other.type.shape == (1, 1, 3)
        assert mine.storage.equals(other.storage)
        for kind in (pa.binary(), pa.large_binary()):
            again, theirs_again = (array.to_encoded(storage_type=kind) for array in (mine, other))
            assert again.storage.equals(theirs_again.storage)
            assert again.to_tensor().storage.equals(mine.storage)


def test_images_that_cannot_be_decoded() -> None:
    pytest.importorskip("PIL")
    refused("Image 1 cannot be decoded", encoded(ours, [png(1), b"nope"]).to_tensor)
    refused("Image 0 cannot be decoded", encoded(ours, [png(1)[:40]]).to_tensor)
    refused("1 of 2 images are null, number 1", encoded(ours, [png(1), None]).to_tensor)
    refused("no images to decode", encoded(ours, []).to_tensor)
    import io

    from PIL import Image

    gray = io.BytesIO()
    Image.new("L", (1, 1)).save(gray, "PNG")
    refused(r"Image 1 is uint8 of shape \(1, 1\), expected", encoded(ours, [png(1), gray.getvalue()]).to_tensor)
    floats = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((1, 2, 2, 3), np.float64))
    refused("float64 and shape", ours.ImageArray.from_array(floats).to_encoded)


def test_functions_of_the_caller() -> None:
    pixels = np.arange(12, dtype=np.float32).reshape(2, *SHAPE)
    for module in BOTH:
        files = encoded(module, [b"a", b"b"])
        tensor = files.to_tensor(lambda storage: pixels[: len(storage)])
        assert np.array_equal(tensor.to_numpy(), pixels)
        assert tensor.type.storage_type == pa.list_(pa.float32(), 6)
        assert tensor.to_encoded(lambda array: pa.array([b"x"] * len(array))).storage.to_pylist() == [b"x", b"x"]
    tensor = encoded(ours, [b"a", b"b"]).to_tensor(lambda storage: tensors())
    assert tensor.type.shape == SHAPE
    assert tensor.to_encoded(lambda array: [b"x", b"y"], pa.large_binary()).to_pylist() == [b"x", b"y"]
    files = encoded(ours, [b"a", b"b"])
    refused("returned a int", files.to_tensor, lambda storage: 5)
    refused("returned 1 images, expected 2", files.to_tensor, lambda storage: pixels[:1])
    refused("returned a bytes", tensor.to_encoded, lambda array: b"x")
    refused("returned a list", tensor.to_encoded, lambda array: [1, 2])
    refused("returned 1 files, expected 2", tensor.to_encoded, lambda array: [b"x"])


def test_numpy() -> None:
    for module in BOTH:
        assert np.array_equal(module.ImageArray.from_array(tensors()).to_numpy(), tensors().to_numpy_ndarray())
    assert np.array_equal(ours.ImageArray.from_array(tensors())[1:].to_numpy(), tensors().to_numpy_ndarray()[1:])
    kind = ours.FixedShapeImageTensorType(pa.uint8(), SHAPE)
    null = pa.ExtensionArray.from_storage(kind, pa.array([None], kind.storage_type))
    refused("null", null.to_numpy)


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "PIL.Image", raising=False)
    for call in (encoded(ours, [png(1)]).to_tensor, ours.ImageArray.from_array(tensors()).to_encoded):
        with pytest.raises(pennon.MissingPackageError, match="pip install pillow") as error:
            call()
        assert isinstance(error.value, ImportError)


def test_tables_of_either_are_read_by_the_other(tmp_path: Path) -> None:
    def rows(module: Any) -> pa.Table:
        uris = module.ImageURIArray.from_uris(["a", "b"])
        return pa.table(
            {"u": uris, "e": encoded(module, [b"x", b"y"]), "t": module.ImageArray.from_array(tensors())}
        )

    mine = pennon.write_dataset(rows(ours), tmp_path / "ours")
    other = lance.write_dataset(rows(theirs), tmp_path / "theirs")
    for uri in (mine.uri, other.uri):
        left, right = (module.dataset(uri).to_table() for module in (pennon, lance))
        for name in left.column_names:
            one, two = left[name].combine_chunks(), right[name].combine_chunks()
            assert one.storage.equals(two.storage)
            assert one.type == two.type
        assert list(ours.ImageArray.from_array(left["t"]).type.shape) == list(SHAPE)
    assert json.loads(left.schema.field("t").type.__arrow_ext_serialize__()) == {"shape": list(SHAPE)}
