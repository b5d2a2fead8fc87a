"""Wrong calls and damaged tables: a typed error each, and the table is as before.

Nothing here depends on which side wrote the table: the damage is done to files of both.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_same, contents
from support.spread import spread

MODULES = pytest.mark.parametrize("writer", [lance, pennon], ids=["reference-writes", "pennon-writes"])


def make(writer: object, uri: Path) -> Path:
    """Two fragments, 6,000 rows of the first deleted (bitmap), one of the second (Arrow)."""
    table = pa.table(
        {
            "id": pa.array(range(9_000), pa.int64()),
            "text": pa.array([f"row number {i}" for i in range(9_000)]),
            "list": pa.array([[i] * (i % 3) for i in range(9_000)], pa.list_(pa.int32())),
        }
    )
    writer.write_dataset(table, str(uri), max_rows_per_file=8_000, enable_stable_row_ids=True)  # type: ignore[attr-defined]
    writer.dataset(str(uri)).delete("id < 6000")  # type: ignore[attr-defined]
    writer.dataset(str(uri)).delete("id = 8500")  # type: ignore[attr-defined]
    return uri


def only(folder: Path, suffix: str) -> Path:
    """The newest file with that suffix."""
    return max(folder.glob(f"*{suffix}"), key=lambda path: path.stat().st_mtime_ns)


DAMAGE = {
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
    "cut in half": lambda data: data[: len(data) // 2],
    "tail cut off": lambda data: data[:-7],
    "garbled": lambda data: bytes(b ^ 0x5A for b in data),
    "head garbled": lambda data: b"\xff" * min(64, len(data)) + data[64:],
}


@spread()
@MODULES
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["manifest", "data", "arrow deletions", "bitmap deletions"])
def test_damaged_files(tmp_path: Path, writer: object, kind: str, damage: str) -> None:
    """Never a crash, never other rows than before: an error that names the file.

    Only values of a page may be others, unless a read compares the checksums of pages.
    """
    uri = make(writer, tmp_path / "t")
    before = pennon.dataset(str(uri)).to_table()
    target = {
        "manifest": lambda: uri / "_versions" / min(p.name for p in (uri / "_versions").glob("*.manifest")),
        "data": lambda: only(uri / "data", ".lance"),
        "arrow deletions": lambda: only(uri / "_deletions", ".arrow"),
        "bitmap deletions": lambda: only(uri / "_deletions", ".bin"),
    }[kind]()
    data = target.read_bytes()
    target.write_bytes(DAMAGE[damage](data))
    if (damage, kind) == ("head garbled", "manifest"):
        # It begins with the copy of the transaction, which a scan does not need.
        assert_same(pennon.dataset(str(uri)).to_table(), before)
    elif (damage, kind) == ("head garbled", "data"):
        after = None
        with contextlib.suppress(pennon.CorruptError):  # or it hit bytes nobody reads
            after = pennon.dataset(str(uri)).to_table()
        assert after is None or after.num_rows == before.num_rows
    elif kind == "manifest":
        # Without its end it is what a crash leaves: said loudly, and the version before is opened.
        with pytest.warns(RuntimeWarning, match=target.name):
            assert pennon.dataset(str(uri)).version == 2
        with pytest.raises(pennon.CorruptError, match=target.name):
            pennon.dataset(str(uri), version=3)
    else:
        with pytest.raises((pennon.CorruptError, pennon.UnsupportedError), match=target.name):
            pennon.dataset(str(uri)).to_table()
    target.write_bytes(data)
    assert_same(pennon.dataset(str(uri)).to_table(), before)


@MODULES
@pytest.mark.filterwarnings("ignore:.*the newest one that is whole:RuntimeWarning")
@pytest.mark.parametrize("kind", ["manifest", "arrow deletions", "bitmap deletions"])
def test_flipped_bytes(tmp_path: Path, writer: object, kind: str) -> None:
    """Any single byte may be wrong: no crash, and deletions never get fewer without an error.

    A table of Pennon's has checksums and never gives other rows. One of the reference's does, but rarely.
    """
    uri = make(writer, tmp_path / "t")
    rng = random.Random(3)
    folder, suffix = {
        "manifest": ("_versions", ".manifest"),
        "arrow deletions": ("_deletions", ".arrow"),
        "bitmap deletions": ("_deletions", ".bin"),
    }[kind]
    target = min((uri / folder).glob(f"*{suffix}"))
    data, outcomes = target.read_bytes(), Counter[str]()
    before = pennon.dataset(str(uri)).to_table(columns=["id"])
    for _ in range(150):
        at = rng.randrange(len(data))
        target.write_bytes(data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :])
        try:
            table = pennon.dataset(str(uri)).to_table(columns=["id"])
        except pennon.PennonError:
            outcomes["error"] += 1
            continue
        outcomes["same" if table.equals(before) else "other"] += 1
        if kind != "manifest":
            assert table.num_rows == 2_999
    target.write_bytes(data)
    assert outcomes["other"] <= (5 if writer is lance else 0), outcomes
    assert outcomes["error"] >= 30, outcomes
    if kind == "manifest":
        assert outcomes["same"] >= 20, outcomes
    elif writer is pennon:
        assert outcomes["error"] >= 130, outcomes


@MODULES
def test_missing_files(tmp_path: Path, writer: object) -> None:
    """A promised file that is gone is an error, never 'no deletions'."""
    for folder, suffix in (("_deletions", ".arrow"), ("_deletions", ".bin"), ("data", ".lance")):
        uri = make(writer, tmp_path / suffix[1:])
        gone = only(uri / folder, suffix)
        gone.unlink()
        with pytest.raises((pennon.NotFoundError, pennon.CorruptError), match=gone.name):
            pennon.dataset(str(uri)).to_table()


@MODULES
def test_damaged_transaction(tmp_path: Path, writer: object) -> None:
    """A transaction that cannot be read conflicts with everything committed across it; the table stays."""
    uri = make(writer, tmp_path / "t")
    stale = pennon.dataset(str(uri))
    other = pennon.dataset(str(uri))
    other.delete("id = 8600")
    manifest = min((uri / "_versions").glob("*.manifest"))
    transaction = max((uri / "_transactions").glob("*.txn"), key=lambda p: int(p.name.split("-")[0]))
    payload = transaction.read_bytes()
    assert payload in manifest.read_bytes(), "the inline copy is what a reader prefers"
    manifest.write_bytes(manifest.read_bytes().replace(payload, b"\xff" * len(payload)))
    transaction.write_bytes(b"\xff" * len(payload))
    before = contents(pennon.dataset(str(uri)))
    with pytest.raises(pennon.PennonError):
        stale.delete("id = 8700", conflict_retries=0)
    assert_same(contents(pennon.dataset(str(uri))), before)


def test_paths_that_lead_outside(tmp_path: Path) -> None:
    """A data file path with `..` is refused when the manifest is read."""
    uri = make(lance, tmp_path / "t")
    manifest = min((uri / "_versions").glob("*.manifest"))
    name = only(uri / "data", ".lance").name.encode()
    evil = b"../" + b"x" * (len(name) - 3)
    manifest.write_bytes(manifest.read_bytes().replace(name, evil))
    with pytest.raises(pennon.CorruptError, match=r"\.\./"):
        pennon.dataset(str(uri)).to_table()


def test_unknown_feature_flag(tmp_path: Path) -> None:
    """A reader flag nobody knows: refused, and the bit is named."""
    uri = make(lance, tmp_path / "t")
    manifest = min((uri / "_versions").glob("*.manifest"))
    data = manifest.read_bytes()
    # reader_feature_flags is field 9 (tag 0x48), writer_feature_flags field 10 (tag 0x50): both say 3 here.
    assert data.count(b"\x48\x03\x50\x03") == 1
    changed = data.replace(b"\x48\x03\x50\x03", b"\x48\x43\x50\x43")
    manifest.write_bytes(changed)
    with pytest.raises(pennon.UnsupportedError, match="64"):
        pennon.dataset(str(uri))
    manifest.write_bytes(data.replace(b"\x48\x03\x50\x03", b"\x48\x03\x50\x43"))
    readable = pennon.dataset(str(uri))
    assert readable.count_rows() == 2_999
    with pytest.raises(pennon.UnsupportedError, match="64"):
        readable.delete("id = 8600")
    with pytest.raises(pennon.UnsupportedError, match="64"):
        readable.insert(readable.to_table())


def test_failed_calls_leave_the_table_alone(tmp_path: Path) -> None:
    """Each wrong call is an error of a named kind, and neither a version nor a file is left behind."""
    uri = make(pennon, tmp_path / "t")
    dataset = pennon.dataset(str(uri))
    fitting = pa.table(
        {"id": pa.array([1], pa.int64()), "text": ["x"], "list": pa.array([[1]], pa.list_(pa.int32()))}
    )

    def failing() -> pa.RecordBatchReader:
        def produce():
            yield fitting.to_batches()[0]
            raise RuntimeError("the source broke")

        return pa.RecordBatchReader.from_batches(fitting.schema, produce())

    def files() -> set[str]:
        return {str(p.relative_to(uri)) for p in uri.rglob("*") if p.is_file()}

    before, version = files(), dataset.version
    wrong = [
        (pennon.AlreadyExistsError, OSError, lambda: pennon.write_dataset(fitting, str(uri)), "already exists"),
        (pennon.NotFoundError, ValueError, lambda: pennon.dataset(str(uri), version=99), "not found"),
        (pennon.NotFoundError, ValueError, lambda: pennon.dataset(str(uri), version="gold"), "gold"),
        (pennon.NotFoundError, ValueError, lambda: pennon.dataset(str(tmp_path / "none")), "was not found"),
        (pennon.NotFoundError, OSError, lambda: dataset.checkout_version(99), "was not found"),
        (pennon.InvalidInputError, ValueError, lambda: dataset.to_table(columns=["idd"]), "idd"),
        (pennon.InvalidInputError, ValueError, lambda: dataset.to_table(filter="idd = 1"), "No field named idd"),
        (pennon.InvalidInputError, OSError, lambda: dataset.delete("idd = 1"), "No field named idd"),
        (pennon.InvalidInputError, ValueError, lambda: dataset.to_table(filter="id = = 1"), "parsing"),
        (
            pennon.InvalidInputError,
            ValueError,
            lambda: dataset.to_table(filter="id + 1"),
            "does not return a boolean",
        ),
        (pennon.InvalidInputError, OSError, lambda: dataset.delete("id + 1"), "does not return a boolean"),
        (pennon.InvalidInputError, ValueError, lambda: dataset.to_table(limit=-1), "non-negative"),
        (
            pennon.SchemaMismatchError,
            OSError,
            lambda: dataset.insert(fitting.set_column(0, "id", pa.array(["a"]))),
            "id",
        ),
        (
            pennon.SchemaMismatchError,
            OSError,
            lambda: dataset.insert(fitting.append_column("extra", pa.array([1]))),
            "extra",
        ),
        (RuntimeError, Exception, lambda: dataset.insert(failing()), "the source broke"),
        (
            pennon.InvalidInputError,
            ValueError,
            lambda: pennon.write_dataset(fitting, str(uri), mode="upsert"),
            "mode",
        ),
    ]
    for kind, builtin, call, text in wrong:
        with pytest.raises(kind, match=text) as caught:
            call()
        assert isinstance(caught.value, builtin), text
        assert files() == before, text
    assert pennon.dataset(str(uri)).version == version == lance.dataset(str(uri)).version


def test_gone_while_open(tmp_path: Path) -> None:
    """A table removed under an open handle."""
    uri = make(pennon, tmp_path / "t")
    dataset = pennon.dataset(str(uri))
    shutil.rmtree(uri)
    with pytest.raises(pennon.PennonError):
        dataset.insert(pa.table({"id": pa.array([1], pa.int64())}))
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(str(uri))


@MODULES
def test_a_torn_manifest_is_passed_over_loudly(tmp_path: Path, writer: object) -> None:
    """What a power cut leaves of a version that was not synced; its number is not used again."""
    uri = tmp_path / "table"
    for start in (0, 10):
        writer.write_dataset(pa.table({"a": [start, start + 1]}), uri, mode="append")
    newest = min((uri / "_versions").glob("*.manifest"))
    newest.write_bytes(b"")
    with pytest.warns(RuntimeWarning, match=f"{newest.name}.*opened version 1, the newest one that is whole"):
        table = pennon.dataset(uri)
    assert table.to_table()["a"].to_pylist() == [0, 1]
    table.insert(pa.table({"a": [20]}))
    assert table.version == 3
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [0, 1, 20]
    lance.dataset(uri).validate()
    assert [version["version"] for version in pennon.dataset(uri).versions()] == [1, 3]
    # What it referred to is not known, so nothing may be taken for unused.
    with pytest.raises(pennon.CorruptError, match=newest.name):
        pennon.dataset(uri).cleanup_old_versions(retain_versions=1, delete_unverified=True)
