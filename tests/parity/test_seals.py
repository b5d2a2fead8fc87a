"""Seals: checksums for the files that `pylance` writes."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.long import LONG
from support.seeds import SEED

FLIPS = 2_000 if LONG else 50
PAGES = {"verify_reads": "pages"}


def made_by_reference(uri: str, stable: bool, file_version: str) -> None:
    rows = pa.table({"a": range(20_000), "b": [str(n) * 3 for n in range(20_000)]})
    table = lance.write_dataset(
        rows, uri, max_rows_per_file=15_000, enable_stable_row_ids=stable, data_storage_version=file_version
    )
    table.delete("a % 7 = 0")
    table.create_scalar_index("a", "BTREE")
    lance.write_dataset(rows.slice(0, 100), uri, mode="append")
    lance.dataset(uri).update({"b": "'u'"}, where="a = 5")


def files_of(uri: str) -> list[Path]:
    return sorted(path for path in Path(uri).rglob("*") if path.is_file())


def content(uri: str, versions: list[int]) -> list[Any]:
    found = []
    for number in versions:
        table = pennon.dataset(uri, number, storage_options=PAGES, session=pennon.Session())
        found.append([table.to_table(with_row_id=True), table.to_table(filter="a = 77 or a = 6")])
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("stable", "file_version"), [(True, "2.1"), (False, "2.0"), (True, "2.2")])
def test_flipped_bits_of_sealed_tables(tmp_path: Path, stable: bool, file_version: str) -> None:
    uri = str(tmp_path / "table")
    made_by_reference(uri, stable, file_version)
    before = files_of(uri)
    report = pennon.seal(uri)
    assert report.ok
    # The hint has no seal: a wrong one makes opening slower, and not wrong.
    assert report.sealed == len([path for path in before if path.suffix != ".json"])
    assert pennon.seal(uri).sealed_before == report.sealed
    assert pennon.verify(uri, data=True).without_checksums == 0
    # Asked for before anything is damaged: the reference may fail on it.
    versions = [version["version"] for version in lance.dataset(uri).versions()]
    good = content(uri, versions)
    rng = random.Random(SEED)
    outcomes: Counter[str] = Counter()
    files = [path for path in files_of(uri) if path.suffix != ".json"]
    for _ in range(FLIPS):
        path = rng.choice(files)
        whole = path.read_bytes()
        bit = rng.randrange(8 * len(whole))
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        where = f"bit {bit} of {path.relative_to(uri)}, seed {SEED}"
        try:
            try:
                assert content(uri, versions) == good, where
                outcomes["same"] += 1
            except pennon.PennonError:
                outcomes["error"] += 1
            with contextlib.suppress(pennon.PennonError):
                assert not pennon.verify(uri, data=True).ok, where
        finally:
            path.write_bytes(whole)
    assert outcomes["error"] > FLIPS // 5, outcomes
    assert lance.dataset(uri).to_table() == pennon.dataset(uri).to_table()


def test_the_reference_goes_on(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    made_by_reference(uri, True, "2.1")
    pennon.seal(uri)
    seals = len(list(Path(uri, "_seals").rglob("*.seal")))
    lance.write_dataset(pa.table({"a": [1], "b": ["x"]}), uri, mode="append")
    report = pennon.verify(uri, data=True)
    # The manifest, the data file and the transaction of the append.
    assert report.ok
    assert report.without_checksums == 3
    assert "3 file(s) have no checksums" in str(report)
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert len(list(Path(uri, "_seals").rglob("*.seal"))) == seals
    pennon.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert list(Path(uri, "_seals").rglob("*.seal")) == []
    assert pennon.verify(uri).ok


def test_seals_go_with_their_files(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    made_by_reference(uri, True, "2.1")
    pennon.seal(uri)
    table = pennon.dataset(uri)
    table.optimize.compact_files()
    table = pennon.dataset(uri)
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    left = {path.relative_to(Path(uri, "_seals")).with_suffix("") for path in Path(uri, "_seals").rglob("*.seal")}
    assert all((Path(uri) / path).exists() for path in left)
    assert pennon.verify(uri, data=True).ok


def test_damaged_files_are_not_sealed(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    made_by_reference(uri, True, "2.1")
    damaged = min(Path(uri, "data").iterdir(), key=lambda path: path.stat().st_size)
    damaged.write_bytes(damaged.read_bytes()[:-50])
    report = pennon.seal(uri)
    assert not report.ok
    assert {finding.path for finding in report.findings} == {str(damaged)}
    assert not Path(uri, "_seals", "data", damaged.name + ".seal").exists()
    assert report.sealed > 5


def test_tags_and_branches_have_checksums(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    table = pennon.write_dataset({"a": [1]}, uri)
    pennon.write_dataset({"a": [2]}, uri, mode="append")
    table.tags.create("first", 1)
    table.create_branch("dev", 1)
    assert lance.dataset(uri, version="first").count_rows() == 1
    assert list(lance.dataset(uri).branches.list()) == ["dev"]
    [tag] = Path(uri, "_refs", "tags").iterdir()
    [branch] = Path(uri, "_refs", "branches").iterdir()
    for path, read in [
        (tag, lambda: pennon.dataset(uri, "first", session=pennon.Session()).to_table().to_pydict()),
        (branch, lambda: pennon.dataset(uri, session=pennon.Session()).branches.list()),
    ]:
        good, whole = read(), path.read_bytes()
        outcomes: Counter[str] = Counter()
        for bit in range(8 * len(whole)):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            try:
                assert read() == good, f"bit {bit} of {path.name}"
                outcomes["same"] += 1
            except pennon.PennonError:
                outcomes["error"] += 1
        path.write_bytes(whole)
        assert outcomes["error"] > 6 * len(whole), outcomes


def test_a_tag_changed_by_the_reference(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    table = pennon.write_dataset({"a": [1]}, uri)
    pennon.write_dataset({"a": [2]}, uri, mode="append")
    table.tags.create("now", 1)
    lance.dataset(uri).tags.update("now", 2)
    assert pennon.dataset(uri, "now").count_rows() == 2


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(pennon.NotFoundError, match="was not found"):
        pennon.seal(tmp_path / "nothing")
