"""A flipped bit in a file of a table is found, or is without effect."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from support.files import flip
from support.long import LONG
from support.seeds import SEED

FLIPS = 3_000 if LONG else 90
ROWS = 3_000
PAGES = {"verify_reads": "pages"}


class Table:
    """A table with an index, deletion files of both forms and several versions, and what is in these."""

    def __init__(self, directory: Path, stable: bool, file_version: str) -> None:
        self.uri = str(directory / "table")
        rng = random.Random(7)
        keys = list(range(4 * ROWS))
        rng.shuffle(keys)
        rows = pa.table(
            {
                "key": keys,
                "word": [f"w{key % 50}" if key % 9 else None for key in keys],
                "items": [[float(key)] * (key % 3) for key in keys],
            }
        )
        table = pennon.write_dataset(
            rows,
            self.uri,
            max_rows_per_file=2 * ROWS,
            data_storage_version=file_version,
            enable_stable_row_ids=stable,
        )
        table.create_scalar_index("key", "BTREE")
        table = pennon.dataset(self.uri)
        table.delete("key < 50")
        table.update({"word": "'updated'"}, "key < 100")
        table.delete("key % 4 > 0")
        self.versions = [version["version"] for version in table.versions()]
        self.content = {version: self.read(version) for version in self.versions}
        self.files = [path for path in Path(self.uri).rglob("*") if path.is_file()]

    def read(self, version: int) -> list[Any]:
        table = pennon.dataset(self.uri, version, storage_options=PAGES, session=pennon.Session())
        found = table.to_table(filter="key = 4 or key = 77 or key = 777", with_row_id=True)
        return [table.to_table(with_row_id=True), found, table.count_rows("key > 9000")]

    def outcome(self, path: Path, bit: int) -> str:
        """`found` by a verification, an `error` of reading only, `wrong` rows, or `nothing`."""
        good = path.read_bytes()
        damaged = bytearray(good)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            return self._outcome()
        finally:
            path.write_bytes(good)

    def _outcome(self) -> str:
        outcomes = {self._outcome_of(version) for version in self.versions}
        if "wrong" in outcomes:
            return "wrong"
        try:
            if not pennon.verify(self.uri, data=True).ok:
                return "found"
        except pennon.PennonError:
            return "found"
        return "error" if "error" in outcomes else "nothing"

    def _outcome_of(self, version: int) -> str:
        try:
            return "nothing" if self.read(version) == self.content[version] else "wrong"
        except pennon.PennonError:
            return "error"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("stable", "file_version"), [(True, "2.2"), (False, "2.1"), (True, "2.0")])
def test_flipped_bits(tmp_path: Path, stable: bool, file_version: str) -> None:
    table = Table(tmp_path, stable, file_version)
    assert pennon.verify(table.uri, data=True).ok
    rng = random.Random(SEED)
    folders = sorted({path.relative_to(table.uri).parts[0] for path in table.files})
    outcomes: Counter[tuple[str, str]] = Counter()
    for number in range(FLIPS):
        folder = folders[number % len(folders)]
        path = rng.choice([path for path in table.files if path.relative_to(table.uri).parts[0] == folder])
        bit = rng.randrange(8 * path.stat().st_size)
        outcome = table.outcome(path, bit)
        assert outcome in ("found", "nothing"), (
            f"{outcome}: bit {bit} of {path.relative_to(table.uri)}, seed {SEED}"
        )
        outcomes[folder if path.suffix != ".json" else "hint", outcome] += 1
    # Padding between pages, and the magic of a checksum that nothing else needs, are without effect.
    for folder in folders:
        found = outcomes[folder, "found"]
        assert found > 0.8 * (found + outcomes[folder, "nothing"]), outcomes


def test_damaged_values(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    rows = pa.table({"a": range(100_000), "b": [n / 7 for n in range(100_000)]})
    pennon.write_dataset(rows, uri)
    [path] = Path(uri, "data").iterdir()
    flip(path, 300_000)

    def read(verify_reads: str) -> Any:
        options = {"verify_reads": verify_reads}
        return pennon.dataset(uri, storage_options=options, session=pennon.Session()).to_table()

    with pytest.raises(
        pennon.CorruptError, match=r"data file .*bytes 294912 to 303104 were changed after they were"
    ):
        read("pages")
    # Without a look at the checksums of blocks it passes for a value.
    damaged = read("metadata")
    assert damaged == read("off")
    assert damaged["a"] == rows["a"]
    assert damaged["b"] != rows["b"]
    [finding] = [finding for finding in pennon.verify(uri, data=True).findings if "were changed" in finding.message]
    assert finding.kind == "damaged_file"
    assert "page 0 of column `b`, rows 0 to 100000" in finding.message


def test_damaged_metadata(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    pennon.write_dataset({"a": list(range(1000))}, uri)
    [path] = Path(uri, "data").iterdir()
    flip(path, path.stat().st_size - 100)
    with pytest.raises(pennon.CorruptError, match="the metadata was changed after it was written"):
        pennon.dataset(uri, session=pennon.Session()).to_table()


def test_one_session_with_several_policies(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    session = pennon.Session()
    table = pennon.write_dataset({"a": list(range(100_000))}, uri, session=session)
    table.to_table()
    [path] = Path(uri, "data").iterdir()
    flip(path, 100_000)
    pennon.dataset(uri, session=session).to_table()
    with pytest.raises(pennon.CorruptError, match="were changed after"):
        pennon.dataset(uri, session=session, storage_options={"verify_reads": "pages"}).to_table()


def test_a_policy_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(
        pennon.InvalidInputError, match='verify_reads is "page"; expected "off", "metadata" or "pages"'
    ):
        pennon.write_dataset({"a": [1]}, str(tmp_path), storage_options={"verify_reads": "page"})


def test_damaged_blobs(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table(
        {"b": pa.array([bytes([n]) * 100_000 for n in range(3)], pa.large_binary())}, pa.schema([field])
    )
    pennon.write_dataset(rows, uri, data_storage_version="2.1")
    [path] = Path(uri, "data").iterdir()
    flip(path, 150_000)

    def blob(verify_reads: str) -> bytes:
        options = {"verify_reads": verify_reads}
        table = pennon.dataset(uri, storage_options=options, session=pennon.Session())
        [blob] = table.take_blobs("b", indices=[1])
        return bytes(blob.read())

    assert blob("metadata") != bytes([1]) * 100_000
    with pytest.raises(pennon.CorruptError, match="were changed after they were written"):
        blob("pages")


def test_damaged_files_of_blobs(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    blobs = [bytes([n]) * size for n, size in enumerate([10, 100_000, 200_000, 6_000_000])]
    pennon.write_dataset({"b": pennon.blob_array(blobs)}, uri, data_storage_version="2.2")
    files = sorted(Path(uri, "data").rglob("*.blob"), key=lambda path: path.stat().st_size)
    assert len(files) == 2

    def read(verify_reads: str) -> list[bytes]:
        options = {"verify_reads": verify_reads}
        table = pennon.dataset(uri, storage_options=options, session=pennon.Session())
        return [bytes(blob.read()) for blob in table.take_blobs("b", indices=range(4))]

    assert read("pages") == read("metadata") == blobs
    assert pennon.verify(uri, data=True).ok
    for path in files:
        whole = path.read_bytes()
        flip(path, 90_000)
        assert read("metadata") != blobs
        with pytest.raises(pennon.CorruptError, match="bytes 81920 to 90112 were changed after they were written"):
            read("pages")
        [finding] = pennon.verify(uri, data=True).findings
        assert finding.path == str(path)
        # A damaged seal is found as well.
        path.write_bytes(whole)
        flip(path, len(whole) - 30)
        with pytest.raises(pennon.CorruptError, match="not a seal as it was written"):
            read("pages")
        assert not pennon.verify(uri, data=True).ok
        path.write_bytes(whole)


def test_verification_looks_at_checksums_whatever_reads_do(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    pennon.write_dataset({"a": list(range(100_000))}, uri)
    [path] = Path(uri, "data").iterdir()
    flip(path, 50_000)
    for verify_reads in ("off", "metadata", "pages"):
        report = pennon.verify(uri, data=True, storage_options={"verify_reads": verify_reads})
        assert any("were changed after they were written" in finding.message for finding in report.findings)


def test_a_shorter_list_of_indices(tmp_path: Path) -> None:
    """The length in front of the list is no part of its checksum."""
    uri = str(tmp_path / "table")
    table = pennon.write_dataset({"a": list(range(1000))}, uri)
    table.create_scalar_index("a", "BTREE")
    path = min(Path(uri, "_versions").glob("*.manifest"), key=lambda path: int(path.stem))
    good = path.read_bytes()
    length = int.from_bytes(good[:4], "little")
    assert 0 < length < len(good)
    for bit in range(length.bit_length()):
        path.write_bytes((length ^ 1 << bit).to_bytes(4, "little") + good[4:])
        with pytest.raises(pennon.CorruptError):
            pennon.dataset(uri, session=pennon.Session()).list_indices()
    path.write_bytes(good)
    assert len(pennon.dataset(uri, session=pennon.Session()).list_indices()) == 1
