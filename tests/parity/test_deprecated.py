"""What pylance deprecates: it works, and warns the caller of Pennon too."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lance
import lance.fragment
import pennon
import pyarrow as pa
import pytest

DATA = pa.table({"a": [1, 2]})
MODULES = pytest.mark.parametrize("module", [pennon, lance])


def warns(call: Any, match: str) -> Any:
    """The result of a call that warns about the line that calls it."""
    with pytest.warns(DeprecationWarning, match=match) as found:
        result = call()
    assert len(found) == 1
    return result, Path(found[0].filename)


@MODULES
def test_options(module: Any, tmp_path: Path) -> None:
    uri = tmp_path / "t"
    table, _ = warns(lambda: module.write_dataset(DATA, uri, use_legacy_format=False), "use_legacy_format")
    assert table.data_storage_version in ("2.0", "2.1", "2.2")
    table, _ = warns(lambda: module.dataset(uri, index_cache_size=3), "index_cache_size")
    assert table.count_rows() == 2
    warns(lambda: module.LanceDataset(str(uri), index_cache_size=3), "index_cache_size")
    written, _ = warns(
        lambda: module.fragment.write_fragments(DATA, str(uri), use_legacy_format=False), "use_legacy_format"
    )
    assert written[0].physical_rows == 2
    made, _ = warns(
        lambda: module.LanceFragment.create(str(uri), DATA, use_legacy_format=False), "use_legacy_format"
    )
    assert made.physical_rows == 2


@MODULES
def test_members(module: Any, tmp_path: Path) -> None:
    table = module.write_dataset(DATA, tmp_path / "t")
    metadata = table.get_fragments()[0].metadata
    files, _ = warns(metadata.data_files, "FragmentMetadata.data_files")
    assert files == metadata.files
    ids, _ = warns(files[0].field_ids, "DataFile.field_ids")
    assert list(ids) == [0]
    merge, _ = warns(lambda: module.LanceOperation.Merge([metadata], DATA.schema), "pyarrow.Schema to Merge")
    assert merge.fragments == [metadata]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.LanceOperation.Merge([metadata], table.lance_schema)
    warns(lambda: table.replace_schema_metadata({"k": "v"}), "replace_schema_metadata")
    warns(lambda: table.replace_field_metadata("a", {"k": "w"}), "replace_field_metadata")
    assert table.schema.field("a").metadata == {b"k": b"w"}


def test_the_warning_names_the_line_that_calls(tmp_path: Path) -> None:
    table = pennon.write_dataset(DATA, tmp_path / "t")
    metadata = table.get_fragments()[0].metadata
    for call in (
        lambda: pennon.write_dataset(DATA, tmp_path / "u", use_legacy_format=False),
        lambda: pennon.fragment.write_fragments(DATA, tmp_path / "t", use_legacy_format=False),
        lambda: pennon.LanceFragment.create(tmp_path / "t", DATA, use_legacy_format=False),
        lambda: pennon.dataset(tmp_path / "t", index_cache_size=3),
        lambda: pennon.LanceDataset(tmp_path / "t", index_cache_size=3),
        lambda: metadata.data_files(),
        lambda: pennon.LanceOperation.Merge([metadata], DATA.schema),
        lambda: table.replace_schema_metadata({"k": "v"}),
    ):
        _, file = warns(call, "is deprecated: use")
        assert file == Path(__file__)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_oldest_files_are_refused(tmp_path: Path) -> None:
    for options in ({"use_legacy_format": True}, {"data_storage_version": "legacy"}):
        with pytest.raises(pennon.UnsupportedError, match=r"0\.1"):
            pennon.write_dataset(DATA, tmp_path / "t", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "t").exists()


@MODULES
def test_read_params(module: Any, tmp_path: Path) -> None:
    module.write_dataset(DATA, tmp_path / "t")
    for read_params in (None, {}, {"cache_repetition_index": False}, {"validate_on_decode": True}):
        assert module.dataset(tmp_path / "t", read_params=read_params).to_table().equals(DATA)


@pytest.mark.parametrize(
    ("read_params", "message"),
    [
        (
            {"cache_repetitions": True},
            "Unknown read parameter 'cache_repetitions': there are cache_repetition_index",
        ),
        ({"validate_on_decode": "yes"}, "'validate_on_decode' must be true or false, got 'yes'"),
    ],
)
def test_wrong_read_params(tmp_path: Path, read_params: dict[str, Any], message: str) -> None:
    pennon.write_dataset(DATA, tmp_path / "t")
    with pytest.raises(pennon.InvalidInputError, match=message):
        pennon.dataset(tmp_path / "t", read_params=read_params)
