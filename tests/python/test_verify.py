"""`verify`: each kind of damage on disk gives exactly its finding, a sound table none; the command next to it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pennon.__main__ import main
from pennon.file import LanceFileReader
from support.files import flip, manifest
from support.long import LONG
from support.tables import numbers


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    """Three versions: ten rows in fragments of four, four more, one deleted."""
    table = pennon.write_dataset(numbers(10), uri, max_rows_per_file=4)
    table.insert(numbers(4, 10))
    table.tags.create("first", 1)
    table.delete("id = 2")
    return table


def data_file(root: Path, fragment: int) -> Path:
    return root / "data" / pennon.dataset(str(root)).get_fragments()[fragment].metadata.files[0].path


def deletion_file(root: Path) -> Path:
    (found,) = (root / "_deletions").iterdir()
    return found


def garble(path: Path) -> None:
    path.write_bytes(b"\xaa" * path.stat().st_size)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def rename_older(root: Path) -> None:
    manifest(root, 2).rename(root / "_versions" / "2.manifest")


def other_deletions(root: Path) -> None:
    """The deletion file of a table where two rows were deleted."""
    other = pennon.write_dataset(numbers(4), str(root) + "-other")
    other.delete("id < 2")
    deletion_file(root).write_bytes(deletion_file(Path(other.uri)).read_bytes())


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a manifest cut off": ("torn_manifest", lambda root: truncate(manifest(root, 2))),
    "an empty newest manifest": ("torn_manifest", lambda root: manifest(root, 3).write_bytes(b"")),
    "a byte of a manifest": ("damaged_manifest", lambda root: flip(manifest(root, 2), -18, 0xFF)),
    "the length in a newest manifest": ("damaged_manifest", lambda root: flip(manifest(root, 3), -16, 0xFF)),
    "two naming schemes": ("mixed_naming", rename_older),
    "no data file": ("missing_file", lambda root: data_file(root, 1).unlink()),
    "no deletion file": ("missing_file", lambda root: deletion_file(root).unlink()),
    "no transaction file": ("missing_file", lambda root: next((root / "_transactions").glob("2-*")).unlink()),
    "a longer data file": ("wrong_size", lambda root: data_file(root, 1).open("ab").write(b"x")),
    "a shorter data file": ("wrong_size", lambda root: truncate(data_file(root, 1))),
    "a garbled data file": ("damaged_file", lambda root: garble(data_file(root, 1))),
    "a garbled deletion file": ("wrong_deletions", lambda root: garble(deletion_file(root))),
    "another deletion file": ("wrong_deletions", other_deletions),
    "a tag without its version": ("dangling_tag", lambda root: manifest(root, 1).unlink()),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_each_damage_gives_its_finding(table: pennon.LanceDataset, name: str) -> None:
    root = Path(table.uri)
    assert pennon.verify(root).ok
    kind, damage = DAMAGE[name]
    damage(root)
    report = pennon.verify(root)
    assert [found.kind for found in report.findings] == [kind]
    assert report.leftovers == [] or kind in ("torn_manifest", "damaged_manifest", "dangling_tag")
    assert main(["verify", table.uri]) == 1
    if kind not in ("torn_manifest", "damaged_manifest", "mixed_naming", "dangling_tag"):
        # What was read before says nothing about what is there now.
        assert [found.kind for found in table.verify().findings] == [kind]


def test_wrong_numbers_in_a_manifest(uri: str) -> None:
    table = pennon.write_dataset(numbers(4), uri)
    (fragment,) = (fragment.metadata for fragment in table.get_fragments())
    fragment.physical_rows = 5
    fragment.row_id_meta = fragment.created_at_version_meta = fragment.last_updated_at_version_meta = None
    wrong = pennon.LanceOperation.Overwrite(table.schema, [fragment])
    table = pennon.LanceDataset.commit(uri, wrong, read_version=1)
    assert [(found.kind, found.fragment) for found in table.verify().findings] == [("wrong_data_file", 1)]
    with pytest.raises(pennon.CorruptError, match="4 rows, the manifest says 5"):
        table.validate()


def test_damage_of_an_older_version(table: pennon.LanceDataset) -> None:
    root = Path(table.uri)
    table.delete("id < 4")
    path = root / "data" / table.checkout_version(3).get_fragments()[0].metadata.files[0].path
    path.unlink()
    (found,) = table.verify().findings
    assert (found.kind, found.version) == ("missing_file", 3)
    table.validate()


def several_pages(uri: str, version: str) -> pennon.LanceDataset:
    rng = random.Random(1)
    rows = {
        "id": [rng.getrandbits(60) for _ in range(20_000)],
        "s": [f"{rng.getrandbits(120):030x}" for _ in range(20_000)],
        "st": [{"x": row, "y": str(rng.random())} for row in range(20_000)],
        "l": [[row] * (row % 3) for row in range(20_000)],
    }
    return pennon.write_dataset(
        pa.table(rows), uri, max_page_bytes=1 << 16, max_rows_per_file=15_000, data_storage_version=version
    )


def test_damage_in_pages(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each page that does not decode is a finding, with its file, column and number; so are changed blocks."""
    table = several_pages(uri, "2.2")
    assert table.verify(data=True).ok
    path = data_file(Path(uri), 0)
    columns = LanceFileReader(str(path)).metadata().columns
    damaged = [(0, 1), (1, 3), (1, 5), (3, 2), (4, 0)]
    for column, page in damaged:
        flip(path, columns[column].pages[page].buffers[0].position, 0xFF)
    assert table.verify().ok
    all_found = table.verify(data=True).findings
    assert {(f.kind, f.version, f.fragment, f.path) for f in all_found} == {("damaged_file", 1, 0, str(path))}
    blocks = [finding for finding in all_found if "were changed after they were written" in finding.message]
    names = ["id", "s", "st.x", "st.y", "l.item"]
    for column, page in damaged:
        pages = [(found.column, found.page) for finding in blocks for found in finding.pages]
        assert (names[column], page) in pages
    found = [finding for finding in all_found if finding not in blocks]
    for (column, page), finding in zip(damaged, found, strict=True):
        assert f"(column {column})" in finding.message, names[column]
        assert f" page {page} at " in finding.message
    assert [finding.message.partition("`")[2].partition("`")[0] for finding in found] == [
        names[column] for column, _ in damaged
    ]
    assert (main(["verify", uri]), main(["verify", "--data", uri])) == (0, 1)
    shown = capsys.readouterr().out
    assert f": {5 + len(blocks)} findings\n" in shown
    assert "mini-block page 3" in shown


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_damage_in_pages_of_older_files(uri: str, version: str) -> None:
    table = several_pages(uri, version)
    assert table.verify(data=True).ok
    path = data_file(Path(uri), 1)
    (position,) = (b.position for b in LanceFileReader(str(path)).metadata().columns[-1].pages[0].buffers[:1])
    content = bytearray(path.read_bytes())
    content[position : position + 64] = b"\xff" * 64
    path.write_bytes(content)
    found = pennon.verify(uri, data=True).findings
    assert {(f.kind, f.fragment, f.path) for f in found} == {("damaged_file", 1, str(path))}


def test_leftovers_are_counted_and_are_no_findings(table: pennon.LanceDataset) -> None:
    root = Path(table.uri)
    (root / "data" / f"{'01' * 12}{'ab' * 13}.lance").write_bytes(b"12345")
    (root / "data" / "notes.txt").write_bytes(b"123")
    report = table.verify()
    assert report.ok
    counted = {(left.kind, left.reason): (left.files, left.size_bytes) for left in report.leftovers}
    assert counted == {("data", "unverified"): (1, 5), ("other", "foreign"): (1, 3)}


def test_the_command(table: pennon.LanceDataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        status = main(["verify", *arguments])
        return status, capsys.readouterr().out

    status, shown = run(table.uri)
    assert (status, shown) == (
        0,
        f"{table.uri}: version 3, 4 fragments, 8 files, 3 versions read: nothing is wrong\n",
    )
    data_file(Path(table.uri), 1).unlink()
    status, shown = run(table.uri, "--format", "json")
    parts = json.loads(shown)
    assert (status, parts["version"], len(parts["findings"])) == (1, 3, 1)
    assert parts["findings"][0]["kind"] == "missing_file"
    status, shown = run(table.uri, "--version", "1")
    assert status == 1
    assert "missing_file" in shown
    for wrong in ([str(tmp_path / "nowhere")], [table.uri, "--version", "9"]):
        assert run(*wrong)[0] == 3
    for version in (1, 2, 3):
        manifest(Path(table.uri), version).write_bytes(b"")
    assert run(table.uri)[0] == 3


def test_a_finding_is_printed_alike(table: pennon.LanceDataset) -> None:
    path = data_file(Path(table.uri), 1)
    path.unlink()
    reports = {
        "finding": pennon.verify(table.uri),
        "not sealed": pennon.seal(table.uri),
        "finding of a scrub": pennon.scrub(table.uri),
        "not repaired": pennon.repair(table.uri, apply=True),
    }
    for head, report in reports.items():
        lines = str(report).splitlines()
        (first,) = (at for at, line in enumerate(lines) if line.endswith("version  fragment  what"))
        assert lines[first].startswith(head.removesuffix(" of a scrub"))
        assert lines[first + 1].split()[0] == "missing_file"
        assert lines[first + 1].endswith(f"data/{path.name}: the file is not there")


@pytest.mark.parametrize("tool", [pennon.verify, pennon.seal, pennon.scrub, pennon.repair])
def test_of_a_dataset(
    table: pennon.LanceDataset, tool: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = pennon.dataset(table.uri, storage_options={"timeout": "60s"})
    assert tool(handle) == tool(table.uri)
    monkeypatch.chdir(Path(table.uri).parent)
    relative = pennon.dataset(Path(table.uri).name)
    monkeypatch.chdir(tmp_path.root)
    assert tool(relative) == tool(table.uri)
    with pytest.raises(pennon.InvalidInputError, match="no_such_option"):
        tool(handle, storage_options={"no_such_option": "1"})


def test_the_version_of_a_dataset(table: pennon.LanceDataset) -> None:
    first = table.checkout_version(1)
    assert pennon.verify(first) == pennon.verify(table.uri, 1) == first.verify()
    with pytest.raises(pennon.InvalidInputError, match="A version was given for a dataset"):
        pennon.verify(first, 2)


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (pa.array(["q", "r"]), "string"),
        (pa.array([1.5, 2.5]), "double"),
        (pa.array([1, 2], pa.int32()), "int32"),
        (pa.array([1, 2], pa.timestamp("us")), "timestamp:us:-"),
    ],
)
def test_columns_of_another_type(uri: str, tmp_path: Path, column: pa.Array, named: str) -> None:
    """A worker wrote its files with another schema than that of the table: some can be read, as other values."""
    pennon.write_dataset({"a": range(10)}, uri)
    elsewhere = tmp_path / "elsewhere"
    fragments = pennon.fragment.write_fragments(pa.table({"x": column}), elsewhere, mode="create")
    (path,) = (elsewhere / "data").iterdir()
    path.rename(Path(uri, "data", path.name))
    pennon.LanceDataset.commit(uri, pennon.LanceOperation.Append(fragments), read_version=1)
    assert pennon.verify(uri).ok
    for report in (pennon.verify(uri, data=True), pennon.verify(uri, 1, data=True)):
        (finding,) = report.findings
        assert (finding.kind, finding.version, finding.fragment) == ("wrong_type", 2, 1)
        assert finding.message == f"the column of field `a` (id 0) is of type {named}, the manifest says int64"
        assert Path(str(finding.path)).name == path.name
    assert main(["verify", "--data", uri]) == 1
    # Nobody knows whether its rows are lost.
    repaired = pennon.repair(uri, apply=True)
    assert (repaired.actions, [left.kind for left in repaired.remaining]) == ([], ["wrong_type"])
    assert pennon.dataset(uri).count_rows() == 12


def test_two_naming_schemes(uri: str) -> None:
    """As left behind by an interrupted migration: an error that names both, and a way on."""
    table = pennon.write_dataset(numbers(3), uri, enable_v2_manifest_paths=False)
    table.insert(numbers(3, 10))
    versions = Path(uri) / "_versions"
    (versions / "2.manifest").rename(manifest(Path(uri), 2))
    for attempt in (lambda: pennon.dataset(uri), lambda: pennon.write_dataset(numbers(1), uri, mode="append")):
        with pytest.raises(
            pennon.InvalidInputError, match=r"V1 such as 1\.manifest and V2 such as 1844.*version 2"
        ):
            attempt()
    with pytest.raises(pennon.InvalidInputError, match="naming schemes"):
        table.insert(numbers(1))
    assert len(list(versions.glob("*.manifest"))) == 2
    assert [found.kind for found in pennon.verify(uri).findings] == ["mixed_naming"]
    pennon.dataset(uri, version=2).migrate_manifest_paths_v2()
    assert pennon.dataset(uri).count_rows() == 6
    assert pennon.verify(uri).ok


def test_a_blob_of_no_kind(uri: str) -> None:
    """Every flipped bit, or every seventh, of the first pages and descriptors is a finding that names the file."""
    table = pennon.write_dataset({"b": pennon.blob_array([b"abc", b"de"])}, uri, data_storage_version="2.2")
    (path,) = (Path(uri) / "data").glob("*.lance")
    written = path.read_bytes()
    for bit in range(0, 8 * 200, 1 if LONG else 7):
        damaged = bytearray(written)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        report = table.verify(data=True)
        assert str(path) in {found.path for found in report.findings}, bit
