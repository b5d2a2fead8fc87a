"""Parameters that the table of compatibility calls refused or without effect are, and what is deprecated warns."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import compatibility
import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from pennon import _options
from pennon.blob import blob_array, blob_field
from pennon.file import LanceFileReader, LanceFileWriter
from pennon.fragment import write_fragments
from pennon.optimize import Compaction
from pennon.sampler import (
    FragmentSampler,
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFixedBatchSampler,
    ShardedFragmentSampler,
)
from pennon.vector import vec_to_table

ROWS, REASONS = compatibility.load()
DATA = pa.table({"a": [1, 2, 3]})


def noted(*, refused: bool) -> Iterator[tuple[str, str]]:
    """Names with a parameter that Pennon takes, and refuses or does nothing with."""
    for name, row in ROWS.items():
        taken = compatibility.parameters(row.get("here", row.get("takes")))
        for parameter, (status, key) in row.get("but", {}).items():
            why = REASONS.get(key, {"why": key})["why"]
            is_noted = status == "absent" if refused else why.startswith("accepted, without effect")
            # `torch` is imported in test_torch.py.
            if is_noted and parameter.isidentifier() and parameter in taken and not name.startswith("torch."):
                yield name, parameter


REFUSED, WITHOUT_EFFECT = list(noted(refused=True)), list(noted(refused=False))


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Callable[..., Any]]:
    """Calls with keywords of everything that has such a parameter."""
    folder = tmp_path_factory.mktemp("calls")
    uri, file = str(folder / "t"), str(folder / "f.lance")
    table = pennon.write_dataset(DATA, uri)
    blob = pa.table([blob_array([b"abc"])], schema=pa.schema([blob_field("b")]))
    vectors = pennon.write_dataset(vec_to_table([[1, 2], [3, 4]]), f"{uri}3")
    blobs, numbers = pennon.write_dataset(blob, f"{uri}1"), itertools.count()
    with LanceFileWriter(file, DATA.schema) as writer:
        writer.write_batch(DATA)
    append = pennon.Transaction(1, pennon.LanceOperation.Append([]))
    merge = table.merge_insert("a").when_not_matched_insert_all()
    fragment, builder = table.get_fragments()[0], pennon.ScannerBuilder(table)
    samplers: dict[type, Sampler] = {
        Sampler: FullScanSampler(),
        FragmentSampler: FullScanSampler(),
        FullScanSampler: FullScanSampler(),
        ShardedFragmentSampler: ShardedFragmentSampler(0, 1),
        ShardedBatchSampler: ShardedBatchSampler(0, 1),
        ShardedFixedBatchSampler: ShardedFixedBatchSampler(0, 1),
    }
    found: dict[str, Callable[..., Any]] = {
        "LanceDataset": lambda **given: pennon.LanceDataset(uri, **given),
        "LanceDataset.commit": lambda **given: table.commit(uri, pennon.LanceOperation.Restore(1), **given),
        "LanceDataset.commit_batch": lambda **given: table.commit_batch(uri, [append], **given),
        "LanceDataset.create_index": lambda **given: vectors.create_index(
            "vector", "IVF_FLAT", replace=True, **given
        ),
        "LanceDataset.create_index_uncommitted": lambda **given: vectors.create_index_uncommitted(
            "vector", "IVF_FLAT", "part", fragment_ids=[0], **given
        ),
        "LanceDataset.create_scalar_index": lambda **given: table.create_scalar_index("a", "BTREE", **given),
        "LanceDataset.read_blobs": lambda **given: blobs.read_blobs("b", indices=[0], **given),
        "LanceDataset.read_blob_ranges": lambda **given: blobs.read_blob_ranges(
            "b", [(0, 0, 1)], selector="indices", **given
        ),
        "LanceFragment.create": lambda **given: pennon.LanceFragment.create(uri, DATA, **given),
        "LanceDataset.create_branch": lambda **given: table.create_branch(f"b{next(numbers)}", **given),
        "LanceScanner.explain_plan": table.scanner().explain_plan,
        "LanceScanner.to_pandas": table.scanner().to_pandas,
        "MergeInsertBuilder.explain_plan": merge.explain_plan,
        "Session": pennon.Session,
        "dataset": lambda **given: pennon.dataset(uri, **given),
        "dataset.DatasetOptimizer.compact_files": table.optimize.compact_files,
        "file.LanceFileReader": lambda **given: LanceFileReader(file, **given),
        "file.LanceFileWriter": lambda **given: LanceFileWriter(f"{file}2", **given),
        "fragment.write_fragments": lambda **given: write_fragments(DATA, uri, **given),
        "optimize.CompactionOptions": lambda **given: Compaction.plan(table, given),  # type: ignore[arg-type]
        "write_dataset": lambda **given: pennon.write_dataset(DATA, f"{uri}2", mode="overwrite", **given),
    }
    for owner, one in (("LanceDataset", table), ("LanceFragment", fragment), ("dataset.ScannerBuilder", builder)):
        for name in {name for name, _ in [*REFUSED, *WITHOUT_EFFECT]} - set(found):
            if name.startswith(f"{owner}."):
                found[name] = getattr(one, name.rpartition(".")[2])
    for kind, sampler in samplers.items():
        found[f"sampler.{kind.__name__}.__call__"] = lambda sampler=sampler, **given: list(sampler(table, **given))
    return found


def test_there_are_such_parameters() -> None:
    assert ("LanceDataset.scanner", "full_text_query") in REFUSED
    assert ("dataset", "block_size") in WITHOUT_EFFECT


@pytest.mark.parametrize(("name", "parameter"), REFUSED)
def test_refused(calls: dict[str, Callable[..., Any]], name: str, parameter: str) -> None:
    with pytest.raises(pennon.UnsupportedError, match=f"'{OPTIONS.get(parameter, parameter)}' is not supported"):
        calls[name](**{parameter: [{"a": 1}]})


# What is given; in the other cases a number.
GIVEN = {
    "late_materialization": ["a"],
    "storage_options": {"a": "b"},
    "blob_mode": "bytes",
    "verbose": True,
    "filter_nan": False,
    "skip_transpose": True,
}
# What the options of a builder are called.
OPTIONS = {
    "nbatches": "batch_readahead",
    "nfragments": "fragment_readahead",
    "orderings": "order_by",
}


@pytest.mark.parametrize(("name", "parameter"), WITHOUT_EFFECT)
def test_without_effect(
    calls: dict[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch, name: str, parameter: str
) -> None:
    """It warns once, of the line of the caller."""
    monkeypatch.setattr(_options, "_warned", set())
    is_deprecated = parameter == "index_cache_size" and "create_index" not in name
    category = DeprecationWarning if is_deprecated else pennon.NoEffectWarning
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            calls[name](**{parameter: GIVEN.get(parameter, 7)})
    assert [one.category for one in caught] == [category] * (2 if is_deprecated else 1)
    for one in caught:
        assert OPTIONS.get(parameter, parameter) in str(one.message)
        assert one.filename == __file__


def test_options_of_vectors_have_no_effect_on_an_index_over_values(
    table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_options, "_warned", set())
    centroids = np.zeros((2, 2), np.float32)
    given = {"metric": "dot", "num_partitions": 2, "accelerator": "cuda", "ivf_centroids": centroids, "m": 20}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table.create_index_uncommitted("id", "BTREE", fragment_ids=[0], **given)  # type: ignore[arg-type]
    assert {str(one.message).split("'")[1] for one in caught} == set(given)


def test_defaults_do_not_warn(table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_options, "_warned", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pennon.write_dataset(table, "memory://no-warnings", mode="overwrite", max_rows_per_group=1024)
        fragment = table.get_fragments()[0]
        assert pa.Table.from_batches(fragment.to_batches(batch_readahead=16)) == fragment.to_table()
        for sampler in (FullScanSampler(), ShardedBatchSampler(0, 1)):
            assert sum(batch.num_rows for batch in sampler(table)) == table.count_rows()
        assert table.to_table(prefilter=False, fast_search=False).num_rows == table.count_rows()
        table.create_index_uncommitted("id", "BTREE", fragment_ids=[0])
        blob = pa.table([blob_array([b"abc", b"de"])], schema=pa.schema([blob_field("b")]))
        blobs = pennon.write_dataset(blob, "memory://no-warnings-of-blobs", mode="overwrite")
        for order in (None, True, False):
            found = blobs.read_blobs("b", indices=[1, 0], preserve_order=order)
            assert [value for _, value in found] == [b"de", b"abc"]
        table.optimize.compact_files()


def deprecated(library: Any, uri: str) -> dict[str, Callable[[], Any]]:
    """Calls that pylance warns of."""
    table = library.write_dataset(DATA, uri, mode="overwrite")
    metadata = table.get_fragments()[0].metadata
    old: dict[str, Any] = {"use_legacy_format": False}
    return {
        "index_cache_size": lambda: library.dataset(uri, index_cache_size=4),
        "write_dataset": lambda: library.write_dataset(DATA, f"{uri}2", **old),
        "write_fragments": lambda: library.fragment.write_fragments(DATA, f"{uri}3", mode="create", **old),
        "LanceFragment.create": lambda: library.LanceFragment.create(f"{uri}4", DATA, mode="create", **old),
        "FragmentMetadata.data_files": lambda: metadata.data_files(),
        "DataFile.field_ids": lambda: metadata.files[0].field_ids(),
        "LanceOperation.Merge": lambda: library.LanceOperation.Merge([], pa.schema([])),
        "replace_schema_metadata": lambda: table.replace_schema_metadata({"a": "b"}),
        "replace_field_metadata": lambda: table.replace_field_metadata("a", {"a": "b"}),
    }


@pytest.mark.parametrize("case", deprecated(pennon, "memory://deprecated"))
def test_deprecated(tmp_path: Path, case: str) -> None:
    for library in (lance, pennon):
        call = deprecated(library, str(tmp_path / library.__name__))[case]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [one.category for one in caught] == [DeprecationWarning], library.__name__
    assert caught[0].filename == __file__


def test_the_deprecated_format_overrules(tmp_path: Path) -> None:
    for library in (lance, pennon):
        uri = str(tmp_path / library.__name__)
        with pytest.warns(DeprecationWarning, match="use_legacy_format"):
            table = library.write_dataset(DATA, uri, use_legacy_format=False, data_storage_version="2.0")
        assert table.data_storage_version == "2.2"
    with (
        pytest.warns(DeprecationWarning, match="use_legacy_format"),
        pytest.raises(pennon.UnsupportedError, match=re.escape("version 0.1 cannot be written")),
    ):
        pennon.write_dataset(DATA, "memory://legacy", use_legacy_format=True)
