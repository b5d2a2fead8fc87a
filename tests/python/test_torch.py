"""Datasets of PyTorch, next to those of pylance: both over PyTorch, or over a stand-in if it is not installed."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import pickle
import sys
import warnings
from collections.abc import Iterator
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pennon.arrow
import PIL.Image
import pyarrow as pa
import pytest
from pennon import InvalidInputError, _options
from support import torch_stand_in
from support.calls import refused

ROWS = 40
HAS_TORCH = importlib.util.find_spec("torch") is not None
RELOADED = (
    *("pennon.torch.data", "pennon.torch.dist"),
    *("lance.torch.data", "lance.torch.dist", "lance.torch", "lance.dependencies"),
)


def put_in(patch: pytest.MonkeyPatch, **options: Any) -> tuple[Any, Any]:
    """The modules of both packages, imported where PyTorch is."""
    for name, module in ({} if HAS_TORCH else torch_stand_in.modules(**options)).items():
        patch.setitem(sys.modules, name, module)
    for name in RELOADED:
        patch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("pennon.torch.data"), importlib.import_module("lance.torch.data")


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Any, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        yield put_in(patch)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("torch") / "table")
    rows = pa.table({"i": pa.array(range(ROWS), pa.int64()), "f": np.arange(ROWS) / 2})
    pennon.write_dataset(rows, uri, max_rows_per_file=9)
    return uri


def shown(tensor: Any) -> Any:
    if isinstance(tensor, dict):
        return {name: shown(value) for name, value in tensor.items()}
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.tolist()


def values(dataset: Any) -> list[Any]:
    """The values of the first column, whatever the batches are."""
    batches = [batch["i"] if isinstance(batch, dict) else batch for batch in dataset]
    return [value for batch in batches for value in batch.tolist()]


COLUMNS: dict[str, pa.Array] = {
    "int64": pa.array([1, 2, 3]),
    "float": pa.array([1.0, 2.0, 3.0], pa.float32()),
    "half": pa.array([1.0, 2.0, 3.0], pa.float16()),
    "float nulls": pa.array([1.0, None, 3.0]),
    "int nulls": pa.array([1, None, 3]),
    "bool": pa.array([True, False, True]),
    "uint8": pa.array([1, 2, 3], pa.uint8()),
    "uint64": pa.array([1, 2, 3], pa.uint64()),
    "vectors": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
    "vector nulls": pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float32(), 2)),
    "int vectors": pa.array([[1, 2]] * 3, pa.list_(pa.int64(), 2)),
    "no rows": pa.array([], pa.int32()),
    "slice": pa.array([9, 1, 2, 3])[1:],
    "vector slice": pa.array([[0.0, 0.0], None, [1.0, 2.0]], pa.list_(pa.float64(), 2))[1:],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_tensors(both: Any, name: str) -> None:
    batch = pa.record_batch({"x": COLUMNS[name]})
    mine, other = both[0].to_tensor(batch), both[1]._to_tensor(batch)
    assert repr(shown(mine)) == repr(shown(other))


def test_tensors_of_several_columns(both: Any) -> None:
    batch = pa.record_batch({"a": COLUMNS["int64"], "b": COLUMNS["uint64"]})
    for options in ({}, {"uint64_as_int64": False}):
        assert shown(both[0].to_tensor(batch, **options)) == shown(both[1]._to_tensor(batch, **options))
    arrays = {"a": COLUMNS["int64"], "b": COLUMNS["float"]}
    assert shown(both[0].to_tensor(arrays)) == shown(both[1]._to_tensor(arrays))
    assert both[0].to_tensor(pa.record_batch([], names=[])) == {}


def test_tensors_of_bfloat16_and_images(both: Any) -> None:
    numbers = pennon.arrow.bfloat16_array([1.5, None, 3.0, 4.0])
    dtype, shape, found = shown(both[0].to_tensor({"x": numbers}))
    assert (dtype, shape) == ("bfloat16", (4,))
    assert repr(found) == "[1.5, nan, 3.0, 4.0]"
    vectors = pa.FixedSizeListArray.from_arrays(numbers, type=pa.list_(numbers.type, 2))
    assert repr(shown(both[0].to_tensor({"x": vectors}))) == "('bfloat16', (2, 2), [[1.5, nan], [3.0, 4.0]])"
    some = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2))[1:]
    some = pennon.arrow.cast(some, pa.list_(numbers.type, 2))
    assert repr(shown(both[0].to_tensor({"x": some}))[2]) == "[[nan, nan], [3.0, 4.0]]"
    # The reference refuses images and gives tensors without their shape.
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 1, 2, 3)
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(pixels)
    for array in (tensors, pennon.arrow.ImageArray.from_array(tensors)):
        assert shown(both[0].to_tensor({"x": array})) == ("uint8", (2, 1, 2, 3), pixels.tolist())


@pytest.mark.parametrize(
    "array",
    [pa.array(["a"]), pa.array([[1.0]]), pa.array([1], pa.date32()), pa.array([{"x": 1}]), pa.array([b"a"])],
    ids=lambda array: str(array.type),
)
def test_columns_that_are_no_tensors(both: Any, array: pa.Array) -> None:
    batch = pa.record_batch({"x": array})
    with pytest.raises(pennon.UnsupportedError, match="Column 'x' has values of type"):
        both[0].to_tensor(batch)
    with pytest.raises(ValueError, match="Only support"):
        both[1]._to_tensor(batch)
    with pytest.raises(InvalidInputError, match="1 nulls"):
        both[0].to_tensor({"x": pa.array([True, None])})


OPTIONS: list[dict[str, Any]] = [
    {},
    {"filter": "i > 20"},
    {"columns": ["i"]},
    {"with_row_id": True, "columns": ["i"]},
    {"rank": 1, "world_size": 2, "shard_granularity": "fragment"},
    {"rank": 1, "world_size": 3, "shard_granularity": "batch"},
    {"rank": 0, "world_size": 1},
    {"samples": 1_000, "columns": ["i"]},
    {"cache": True},
    {"dataset_options": {"version": 1}},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("batch_size", [5, 64])
def test_rows_are_those_of_the_reference(both: Any, uri: str, options: dict[str, Any], batch_size: int) -> None:
    mine, other = (module.LanceDataset(uri, batch_size, **options) for module in both)
    batches = list(mine)
    assert values(batches) == values(other)
    assert values(mine) == values(batches), "it can be iterated over more than once"
    if "samples" not in options:
        sizes = [len(batch["i"] if isinstance(batch, dict) else batch) for batch in batches]
        assert set(sizes[:-1]) <= {batch_size}
    first = next(iter(other), None)
    assert type(batches[0] if batches else None) is type(first)
    if isinstance(first, dict):
        assert list(batches[0]) == list(first)
        assert {name: str(t.dtype) for name, t in batches[0].items()} == {n: str(t.dtype) for n, t in first.items()}


def test_samples(both: Any, uri: str) -> None:
    # The reference fails where a filter and samples are given, and leaves row ids out.
    dataset = both[0].LanceDataset(uri, 4, samples=10, filter="i > 3", with_row_id=True, columns=["i"])
    found = values(dataset)
    assert len(set(found)) == 10
    assert min(found) > 3
    (first, *_) = dataset
    assert first["_rowid"].tolist() == first["i"].tolist()


def test_samplers_and_functions(both: Any, uri: str) -> None:
    seen: list[Any] = []

    def convert(batch: pa.RecordBatch, **options: Any) -> int:
        seen.append(options)
        return batch.num_rows

    for module, package in zip(both, (pennon, lance), strict=True):
        sampler = importlib.import_module(f"{package.__name__}.sampler").ShardedBatchSampler(1, 2, True, 5)
        dataset = module.LanceDataset(package.dataset(uri), 6, sampler=sampler, to_tensor_fn=convert)
        assert list(dataset) == [6, 6, 6] + [4] * (sum(dataset) == 22)
    assert seen[0] == seen[-1] == {"hf_converter": None, "use_blob_api": False}
    assert both[0].LanceDataset(uri, 6).schema == both[1].LanceDataset(uri, 6).schema
    assert "batch_size=6" in repr(both[0].LanceDataset(uri, 6))


def test_ranks_are_deprecated(both: Any, uri: str) -> None:
    for module in both:
        with pytest.warns(DeprecationWarning, match="rank"):
            module.LanceDataset(uri, 5, rank=0, world_size=2)


def test_a_cache_is_read_instead_of_the_table(both: Any, uri: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    table = pennon.write_dataset(pennon.dataset(uri), copy)
    for cache in (True, str(tmp_path)):
        dataset = both[0].LanceDataset(table, 7, columns=["i"], cache=cache)
        partly = iter(dataset)
        next(partly)
        del partly
        assert not list(Path(dataset._cached._directory.name).iterdir())
        assert values(dataset) == list(range(ROWS))
        reads = []
        dataset._read = lambda reads=reads: reads.append(1)
        assert values(dataset) == list(range(ROWS))
        assert not reads
    assert pickle.loads(pickle.dumps(both[0].LanceDataset(table, 7, cache=True)))._cached is None
    with pytest.raises(InvalidInputError, match="nowhere"):
        list(both[0].LanceDataset(table, 7, cache=str(tmp_path / "nowhere")))


@pytest.mark.skipif(HAS_TORCH, reason="processes and workers are made up by the stand-in")
@pytest.mark.parametrize("granularity", [None, "fragment", "batch"])
def test_shares_of_processes_and_workers(uri: str, granularity: str | None) -> None:
    found: list[int] = []
    for rank in range(2):
        for worker in range(3):
            with pytest.MonkeyPatch.context() as patch:
                mine, theirs = put_in(patch, rank=rank, world_size=2, worker=(worker, 3))
                share = values(mine.LanceDataset(uri, 4, shard_granularity=granularity))
                everything = values(mine.LanceDataset(uri, 4, auto_detect_rank=False))
                other = values(theirs.LanceDataset(uri, 4, shard_granularity=granularity))
            assert everything == list(range(ROWS))
            if granularity is not None:
                assert share == other
            found += share
    assert sorted(found) == list(range(ROWS))


def test_ranks_of_processes_and_workers() -> None:
    if HAS_TORCH:
        pytest.skip("PyTorch is installed, in which ranks and workers cannot be chosen")
    for options in (
        {},
        {"rank": 2, "world_size": 3},
        {"rank": 1, "world_size": 2, "worker": (3, 4)},
        {"worker": (1, 2)},
    ):
        with pytest.MonkeyPatch.context() as patch:
            put_in(patch, **options)
            mine, other = (importlib.import_module(f"{name}.torch.dist") for name in ("pennon", "lance"))
            names = [name for name in vars(other) if name.startswith("get_")]
            assert len(names) == 6
            found = {name: getattr(mine, name)() for name in names}
            assert found == {name: getattr(other, name)() for name in names}
            assert found["get_global_rank"] < found["get_global_world_size"]


def test_batches_and_their_columns(both: Any, uri: str) -> None:
    for module in both:
        dataset = module.LanceDataset(uri, 20, columns=["f"], to_tensor_fn=None)
        assert dataset.schema.names == ["f"]
        assert {type(batch) for batch in dataset} == {pa.RecordBatch}
    for columns, kinds in (({"double": "i * 2"}, [pa.int64()]), (["_rowid", "f"], [pa.uint64(), pa.float64()])):
        dataset = both[0].LanceDataset(uri, 20, columns=columns)
        assert dataset.schema.types == kinds
        assert sum(len(next(iter(batch.values())) if kinds[1:] else batch) for batch in dataset) == ROWS


@pytest.mark.parametrize("options", [{}, {"columns": ["video", "i"]}, {"filter": "i > 1"}, {"columns": ["i"]}])
def test_legacy_blobs_are_files(both: Any, tmp_path: Path, options: dict[str, Any]) -> None:
    video = pa.field("video", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    data = pa.table([[0, 1, 2], [b"zero", b"one", b""]], schema=pa.schema([("i", pa.int64()), video]))
    pennon.write_dataset(data, tmp_path / "t", data_storage_version="2.1", enable_stable_row_ids=False)

    def convert(batch: Any, *, hf_converter: Any, use_blob_api: bool) -> Any:
        names = batch.keys() if use_blob_api else batch.schema.names
        files = [file.readall() for file in batch["video"]] if use_blob_api else None
        return use_blob_api, set(names), batch["i"].to_pylist(), files

    mine, other = (list(module.LanceDataset(tmp_path / "t", 2, to_tensor_fn=convert, **options)) for module in both)
    assert mine == other
    assert mine[0][0] == (options != {"columns": ["i"]})
    if mine[0][0]:
        with pytest.raises(pennon.UnsupportedError, match="to_tensor_fn"):
            list(both[0].LanceDataset(tmp_path / "t", 2))
        sampled = list(both[0].LanceDataset(tmp_path / "t", 3, samples=3, to_tensor_fn=convert))
        assert sampled == [(True, {"i", "video", "_rowid"}, [0, 1, 2], [b"zero", b"one", b""])]
        shared = list(both[0].LanceDataset(tmp_path / "t", 3, shard_granularity="batch", to_tensor_fn=convert))
        assert shared == sampled
        # By themselves, rows have their bytes: descriptions without a row id lead nowhere.
        rows = both[0].SafeLanceDataset(tmp_path / "t")
        assert [rows[1], rows[-1]] == [{"i": 1, "video": b"one"}, {"i": 2, "video": b""}]


def test_images_of_hugging_face(both: Any, tmp_path: Path) -> None:
    image = BytesIO()
    PIL.Image.new("RGB", (4, 3)).save(image, "PNG")
    (tmp_path / "image.png").write_bytes(image.getvalue())
    features = {
        "info": {"features": {"image": {"_type": "Image"}, "i": {"_type": "Value"}, "text": {"_type": "Value"}}}
    }
    values = [{"bytes": image.getvalue(), "path": None}, {"bytes": None, "path": str(tmp_path / "image.png")}]
    data = pa.table({"i": [1, 2], "image": values, "text": ["a", "b"]})
    uri = str(tmp_path / "t")
    pennon.write_dataset(data.replace_schema_metadata({"huggingface": json.dumps(features)}), uri)
    for module in both:
        (batch,) = module.LanceDataset(uri, 2, columns=["i", "image"])
        assert batch["i"].tolist() == [1, 2]
        assert [image.size for image in batch["image"]] == [(4, 3), (4, 3)]
        with pytest.raises(NotImplementedError, match="Value"):
            list(module.LanceDataset(uri, 2, columns=["text"]))


def test_rows_by_position(both: Any, uri: str) -> None:
    mine, other = (module.SafeLanceDataset(uri) for module in both)
    assert len(mine) == len(other) == ROWS
    assert mine[3] == other[3] == {"i": 3, "f": 1.5}
    assert mine.__getitems__([1, 0, 1]) == other.__getitems__([1, 0, 1])
    assert mine[-1] == {"i": ROWS - 1, "f": (ROWS - 1) / 2}
    assert len(list(mine)) == ROWS
    with pytest.raises(InvalidInputError, match="position 40 in a table of 40"):
        mine[ROWS]
    with pytest.raises(InvalidInputError, match=r"position must be a whole number, found float 1\.5"):
        mine[1.5]
    loaded = pickle.loads(pickle.dumps(mine))
    assert loaded._ds is None
    assert loaded[3] == mine[3]
    assert mine.__getitems__([]) == []


def test_all_processes_read_one_version(both: Any, tmp_path: Path) -> None:
    table = pennon.write_dataset({"i": [0, 1]}, tmp_path / "t")
    dataset = both[0].SafeLanceDataset(table.uri)
    table.delete("i = 0")
    assert pickle.loads(pickle.dumps(dataset)).__getitems__([0, 1]) == [{"i": 0}, {"i": 1}]
    table.tags.create("tag", 1)
    branch = table.create_branch("branch", 1)
    named = ({"version": 1}, {"version": "tag"}, {"version": ("branch", None)}, {"asof": datetime.now()})
    datasets = [both[0].SafeLanceDataset(table.uri, dataset_options=options) for options in named]
    table.tags.update("tag", 2)
    branch.delete("i = 0")
    table.insert({"i": [2]})
    assert [len(dataset) for dataset in datasets] == [2, 2, 2, 1]
    assert [pickle.loads(pickle.dumps(dataset))[0]["i"] for dataset in datasets] == [0, 0, 0, 1]


def test_safe_loaders(both: Any, uri: str) -> None:
    for module in both:
        loader = module.get_safe_loader(module.SafeLanceDataset(uri))
        assert (loader.batch_size, loader.num_workers) == (32, 4)
        if not HAS_TORCH:
            assert loader.options["persistent_workers"] is True
            assert loader.options["multiprocessing_context"].get_start_method() == "spawn"
            other = module.get_safe_loader(module.SafeLanceDataset(uri), persistent_workers=False, shuffle=True)
            assert (other.options["persistent_workers"], other.options["shuffle"]) == (False, True)
    # PyTorch refuses persistent workers where there are none.
    loader = both[0].get_safe_loader(both[0].SafeLanceDataset(uri), batch_size=16, num_workers=0, collate_fn=list)
    if not HAS_TORCH:
        assert set(loader.options) == {"collate_fn"}
    assert [len(batch) for batch in loader] == [16, 16, 8]


def test_wrong_input(both: Any, uri: str) -> None:
    kind = both[0].LanceDataset
    refused("batch_size is 0", kind, uri, 0)
    refused("samples -1", kind, uri, 1, samples=-1)
    refused("rank is 1, world_size is None", kind, uri, 1, rank=1)
    refused("rank is 2 of 2", kind, uri, 1, rank=2, world_size=2)
    refused("shard_granularity is 'x'", kind, uri, 1, shard_granularity="x")
    refused("a int, expected a pennon", kind, 5, 1)
    refused("both samples and a sampler", kind, uri, 1, samples=1, sampler=lambda *_: iter(()))
    refused("arguments foo, expected", both[0].SafeLanceDataset, uri, foo=1)
    refused("a LanceDataset, expected text", both[0].SafeLanceDataset, pennon.dataset(uri))
    with pytest.raises(pennon.NotFoundError):
        both[0].SafeLanceDataset(uri + "-not-there")


def test_options_that_were_not_given_are_not_warned_of(
    both: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_options, "_warned", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(len(batch["i"]) for batch in both[0].LanceDataset(uri, 8)) == ROWS
    with pytest.warns(pennon.NoEffectWarning, match="batch_readahead"):
        list(both[0].LanceDataset(uri, 8, batch_readahead=4))


def test_without_pytorch(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "torch.utils.data", "torch.distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("pennon.torch.data", "pennon.torch.dist"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    data = importlib.import_module("pennon.torch.data")
    for call in (
        lambda: data.get_global_rank(),
        lambda: data.LanceDataset(uri, 8),
        lambda: data.SafeLanceDataset(uri),
        lambda: data.get_safe_loader(None),
        lambda: data.to_tensor(pa.record_batch({"a": [1]})),
    ):
        with pytest.raises(pennon.MissingPackageError, match="pip install torch"):
            call()


def test_same_parameters(both: Any) -> None:
    for name in ("LanceDataset", "SafeLanceDataset", "get_safe_loader"):
        mine, other = (inspect.signature(getattr(module, name)).parameters.values() for module in both)
        found = [(p.name, p.kind, p.default) for p in mine if p.name != "to_tensor_fn"]
        assert found == [(p.name, p.kind, p.default) for p in other if p.name != "to_tensor_fn"]
