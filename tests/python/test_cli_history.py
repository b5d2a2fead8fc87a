"""`pennon log`, `show`, `diff` and `blame` against the API that they stand on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pennon
import pyarrow as pa
import pytest
from pennon.cli import _commits
from support.command import pennon as run


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    table = pennon.write_dataset({"id": [1, 2, 3], "s": ["a", "b", None]}, uri, commit_message="first\n\nof all")
    table.insert({"id": [4], "s": ["d"]})
    table.tags.create("v1", 2)
    table.delete("id = 1")
    table.update({"s": "'x'"}, where="id = 2")
    return table


def test_log(table: pennon.LanceDataset) -> None:
    lines = run("log", table.uri).lines
    assert [line for line in lines if line.startswith("version")] == [
        "version 4 (newest)",
        "version 3",
        "version 2 (tag: v1)",
        "version 1",
    ]
    assert "    first" in lines
    assert "Change:  Delete where id = 1" in lines
    found = run("log", table.uri, "--format", "json").json
    assert [(row["version"], row["operation"], row["rows"]) for row in found] == [
        (4, "Update", 3),
        (3, "Delete", 3),
        (2, "Append", 4),
        (1, "Overwrite", 3),
    ]
    assert found[3]["message"] == "first\n\nof all"
    assert found[2]["tags"] == ["v1"]
    times = pa.ipc.open_stream(run("log", table.uri, "--format", "arrow").raw).read_all()["timestamp"]
    expected = [entry["timestamp"].astimezone() for entry in reversed(table.versions())]
    assert times.to_pylist() == expected
    assert run("log", table.uri, "--tag", "v1", "--oneline").lines == [
        "version 2 (tag: v1) Append",
        "version 1 Overwrite: first",
    ]
    assert run("log", table.uri, "-n", 1, "--oneline", "--stat").lines == [
        "version 4 (newest) Update",
        "  3 rows, 3 fragments (+1), 4 files (+1), 2 deleted (+1), 1,800 B (+524 B)",
    ]


def test_log_reads_what_it_prints(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pennon.write_dataset({"id": [1]}, uri)
    for number in range(60):
        table.update_config({"n": str(number)})
    read: list[int] = []
    of_one = _commits.read

    def counted(table: pennon.LanceDataset, number: int, tags: dict[int, list[str]]) -> object:
        read.append(number)
        return of_one(table, number, tags)

    monkeypatch.setattr(_commits, "read", counted)
    assert len(run("log", uri, "-n", 3, "--oneline").lines) == 3
    assert sorted(read) == [59, 60, 61]
    lines = run("log", uri, "--oneline").lines
    assert (len(lines), lines[-1]) == (21, "older versions follow (--all shows all)")
    assert len(run("log", uri, "--oneline", "--all").lines) == 61
    assert run("log", uri, "--all", "-n", 1).status == 2


def test_log_of_a_branch(table: pennon.LanceDataset) -> None:
    dev = table.create_branch("dev", 2)
    dev.delete("id = 4")
    dev.tags.create("dev-1", ("dev", 3))
    lines = run("log", table.uri, "--branch", "dev", "--oneline").lines
    assert lines[0] == "version 3 (newest, tag: dev-1) Delete where id = 4"
    assert "version 2 (tag: v1)" not in "\n".join(lines)
    assert run("count", table.uri, "--tag", "dev-1").out == "3\n"
    assert "dev-1" not in run("log", table.uri).out


def test_log_after_a_cleanup(table: pennon.LanceDataset) -> None:
    table.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert [row["version"] for row in run("log", table.uri, "--format", "json").json] == [4, 2]
    done = run("count", table.uri, "--version", 1)
    assert (done.status, done.err) == (
        3,
        f"pennon: {table.uri} has no version 1 any more: it was removed; the oldest is 2\n",
    )


def test_show(table: pennon.LanceDataset) -> None:
    lines = run("show", table.uri, "v1").lines
    assert lines[0] == "version 2 (tag: v1)"
    assert lines[-1] == "+ 3  id: 4, s: d"
    assert run("show", table.uri).lines[-1] == "~ 1  s: b → x"
    assert run("show", table.uri, "1", "--limit", 2).lines[-1] == "and 1 more (--limit prints more)"
    assert run("show", table.uri, 3, "--stat").lines[-1].startswith("1 row changed: 0 inserted (+), 1 deleted (-)")
    assert run("show", table.uri, 3, "--format", "json").json[0]["detail"] == "where id = 1"


def test_show_and_restore_where_a_table_gets_row_ids(tmp_path: Path) -> None:
    table = pennon.write_dataset({"id": [1, 2]}, tmp_path / "t.lance", enable_stable_row_ids=False)
    table.migrate_to_stable_row_ids()
    table.delete("id = 2")
    assert run("show", table.uri, 2).lines[-1] == "no row changed"
    assert run("show", table.uri, 3).lines[-1] == "- 1  id: 2"
    assert run("restore", table.uri, 2).out.startswith("version 4 has the rows of version 2 again: 1 row")
    for options in ([], ["--dry-run"]):
        refused = run("restore", table.uri, 1, *options)
        assert refused.status == 3
        assert "version 1 is from before the table had stable row ids" in refused.err


def test_diff(table: pennon.LanceDataset) -> None:
    assert run("diff", table.uri).lines == ["~ 1  s: b → x"]
    assert sorted(run("diff", table.uri, "1..4").lines) == ["+ 3  id: 4, s: d", "- 0  id: 1, s: a", "~ 1  s: b → x"]
    assert (
        run("diff", table.uri, "v1").out == run("diff", table.uri, "2..4").out == run("diff", table.uri, "v1..").out
    )
    stat = run("diff", table.uri, "1..4", "--stat").out
    assert stat == "3 rows changed: 1 inserted (+), 1 deleted (-), 1 updated (~)\n"
    found = run("diff", table.uri, "1", "--stat", "--format", "json").json
    assert found == [{"inserted": 1, "deleted": 1, "updated": 1}]
    assert run("diff", table.uri, "1..4", "--limit", 1).lines[-1] == "and 2 more (--limit prints more)"
    each = run("diff", table.uri, "0..4", "--each").lines
    assert len([line for line in each if line.startswith("@@")]) == 4
    assert (run("diff", table.uri, "4..4").out, run("diff", table.uri, "4..4", "--exit-code").status) == (
        "no row changed\n",
        0,
    )
    assert run("diff", table.uri, "3..4", "--exit-code").status == 1
    assert run("diff", table.uri, "1..4", "-c", "id").lines.count("~ 1  (no value changed)") == 1
    assert "\x1b[32m" in run("diff", table.uri, "1..4", "--color", "always").out


def test_the_version_before_is_gone(table: pennon.LanceDataset, tmp_path: Path) -> None:
    """It was removed, or is one of what a branch or a clone was made from: no row of it was inserted."""
    first = pennon.write_dataset({"id": [1]}, tmp_path / "first")
    assert run("diff", first.uri).lines == run("show", first.uri).lines[-1:] == ["+ 0  id: 1"]
    first.shallow_clone(tmp_path / "clone", 1)
    table.create_branch("dev", 2)
    table.deep_clone(tmp_path / "copy", 3)
    of_another = "is the first of {}: it has the rows of what it was made from"
    calls = {
        (tmp_path / "clone",): f"version 1 {of_another.format(tmp_path / 'clone')}",
        (tmp_path / "copy",): f"version 3 {of_another.format(tmp_path / 'copy')}",
        (table.uri, "--branch", "dev"): f"version 2 {of_another.format(f'branch dev of {table.uri}')}",
    }
    table.tags.delete("v1")
    table.tags.create("first", 1)
    table.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    calls[(table.uri,)] = f"version 3 of {table.uri} was removed, and nothing is there to compare with"
    for arguments, says in calls.items():
        done = run("diff", *arguments)
        assert (done.status, done.out, done.err) == (3, "", f"pennon: {says}\n")
        done = run("show", *arguments)
        assert (done.status, done.lines[-1]) == (0, f"no changes are shown: {says}")
    assert run("diff", table.uri, "1..4").status == 0


def test_versions_that_never_were(table: pennon.LanceDataset, tmp_path: Path) -> None:
    table.create_branch("dev", 2)
    table.deep_clone(tmp_path / "copy", 3)
    for arguments, says in (
        ((table.uri, "--version", 0), f"{table.uri} has no version 0: its first was 1"),
        (
            (table.uri, "--branch", "dev", "--version", 1),
            f"branch dev of {table.uri} has no version 1: its first was 2",
        ),
        ((tmp_path / "copy", "--version", 2), f"{tmp_path / 'copy'} has no version 2: its first was 3"),
    ):
        done = run("count", *arguments)
        assert (done.status, done.err) == (3, f"pennon: {says}\n")


def test_diff_for_programs(table: pennon.LanceDataset) -> None:
    feed = pa.ipc.open_stream(run("diff", table.uri, "1..4", "--format", "arrow").raw).read_all()
    assert feed.equals(table.changes(1, 4, images="both").read_all())
    for most in range(5):
        found = run("diff", table.uri, "1..4", "--format", "json", "--limit", most).json
        assert sum(row["_change_type"] != "update_preimage" for row in found) == min(most, 3)
        assert found == run("diff", table.uri, "1..4", "--format", "json").json[: len(found)]


@pytest.mark.parametrize("wrong", ["a...b", "..4", "-1", "main:", ":4", "1..x:y", ""])
def test_ranges_that_are_none(table: pennon.LanceDataset, wrong: str) -> None:
    assert run("diff", table.uri, wrong).status == 2


@pytest.mark.parametrize("wrong", ["9", "1..9", "nosuch", "4..2", "dev:1", "1..dev:1"])
def test_ranges_of_versions_that_are_not_there(table: pennon.LanceDataset, wrong: str) -> None:
    done = run("diff", table.uri, wrong)
    assert (done.status, done.out, done.err.count("\n")) == (3, "", 1)


def test_blame(table: pennon.LanceDataset) -> None:
    lines = run("blame", table.uri, 1).lines
    assert lines[0] == "row 1"
    assert lines[1].startswith("version 1  ")
    assert lines[1].endswith("Overwrite: first")
    assert lines[2:5:2] == ["  + id: 2, s: b", "  ~ s: b → x"]
    assert run("blame", table.uri, 0).lines[-1] == "  - id: 1, s: a"
    found = pa.ipc.open_stream(run("blame", table.uri, 1, "--format", "arrow").raw).read_all()
    assert found.drop_columns(["_rowid"]).equals(table.history(1))
    assert run("blame", table.uri, "--where", "s = 'x'").lines[0] == "row 1"
    # The row is in an older version only.
    assert run("blame", table.uri, "--where", "id = 1").status == 1
    assert run("blame", table.uri, "--where", "id = 1", "--version", 1).lines[0] == "row 0"
    done = run("blame", table.uri, "--where", "id > 0", "--limit", 1)
    assert (done.status, done.out.count("row ")) == (0, 1)
    assert done.err == "pennon: only the first 1 row of those that fit (--limit)\n"
    assert run("blame", table.uri).status == run("blame", table.uri, 1, "--where", "id = 1").status == 2
    # As with `take` the others are shown.
    done = run("blame", table.uri, 99, 1, 98)
    assert (done.status, done.lines[0], done.err) == (1, "row 1", "pennon: no row has the id 99, 98\n")
    done = run("blame", table.uri, 99, "--format", "json")
    assert (done.status, done.out, done.err) == (1, "", "pennon: no row has the id 99\n")
    for path in Path(table.uri, "data").iterdir():
        path.unlink()
    done = run("blame", table.uri, 1)
    assert (done.status, "no row has" in done.err) == (3, False)
    table.add_columns({"_change_type": "'a column of histories'"})
    assert run("blame", table.uri, 1).status == 3


def test_rows_without_ids(tmp_path: Path) -> None:
    table = pennon.write_dataset({"id": [1]}, tmp_path / "t", enable_stable_row_ids=False)
    for arguments in (["diff", table.uri], ["blame", table.uri, 0], ["take", table.uri, 0]):
        done = run(*arguments)
        assert (done.status, "needs rows that keep their ids" in done.err) == (3, True)
    assert run("take", table.uri, 0).err.endswith("do not: name positions, with --position\n")
    assert run("take", table.uri, 0, "--position").lines == ["id", " 1"]
    assert run("show", table.uri).status == 0


def test_the_newest_of_the_branch_that_a_version_is_on(table: pennon.LanceDataset) -> None:
    dev = table.create_branch("dev", 2)
    dev.insert({"id": [5], "s": ["e"]})
    dev.insert({"id": [6], "s": ["f"]})
    table.tags.create("on-dev", ("dev", 3))
    for versions, ids in (
        ("dev:3..", [5]),
        ("dev:3", [5]),
        ("on-dev", [5]),
        ("dev:2..", [4, 5]),
        ("dev:2..dev:3", [4]),
    ):
        found = run("diff", table.uri, versions, "--format", "json")
        assert (found.status, [row["_rowid"] for row in found.json]) == (0, ids), found.err
    assert run("diff", table.uri, "on-dev", "--stat").out.startswith("1 row changed: 1 inserted")
    assert run("diff", table.uri, "3..", "--branch", "dev").out == run("diff", table.uri, "dev:3..").out


def test_the_history_of_a_row_before_its_branch(table: pennon.LanceDataset) -> None:
    table.create_branch("dev", 4).update({"s": "'y'"}, where="id = 2")
    table.checkout_version(("dev", None)).create_branch("more", ("dev", 5)).delete("id = 2")
    on_main = run("blame", table.uri, 1, "--format", "json").json
    assert [row["_operation"] for row in on_main] == ["Overwrite", "Update"]
    on_dev = run("blame", table.uri, 1, "--branch", "dev", "--format", "json").json
    assert on_dev[:2] == on_main
    assert [(row["_operation"], row["_commit_version"], row["s"]) for row in on_dev[2:]] == [("Update", 5, "y")]
    on_more = run("blame", table.uri, 1, "--branch", "more", "--format", "json").json
    assert on_more[:3] == on_dev
    assert [(row["_operation"], row["_change_type"]) for row in on_more[3:]] == [("Delete", "delete")]
    assert "removed" not in run("blame", table.uri, 0, 1, 2, 3, "--branch", "dev").out


def test_the_history_of_a_row_in_columns_of_its_branch(table: pennon.LanceDataset) -> None:
    dev = table.create_branch("dev", 4)
    dev.drop_columns(["s"])
    dev.add_columns({"n": "id * 2"})
    dev.update({"n": "0"}, where="id = 2")
    rows = run("blame", table.uri, 1, "--branch", "dev", "--format", "json").json
    assert [(row["_operation"], row["id"], row["n"], "s" in row) for row in rows][:2] == [
        ("Overwrite", 2, None, False),
        ("Update", 2, None, False),
    ]
    assert rows[-1]["n"] == 0


def test_detached_versions(table: pennon.LanceDataset) -> None:
    apart = table
    for number in (2, 3):
        delete = pennon.LanceOperation.Delete([], [0] if number == 2 else [], "x")
        read = 2 if number == 2 else apart.version
        apart = pennon.LanceDataset.commit(table.uri, delete, read_version=read, detached=True)
        table.tags.create(f"apart-{number}", apart.version)
    before = pennon.dataset(table.uri, version="apart-2").version
    expected = [
        f"version {apart.version} (tag: apart-3) Delete where x",
        f"version {before} (tag: apart-2) Delete where x",
        "version 2 (tag: v1) Append",
        "version 1 Overwrite: first",
    ]
    for options in ([], ["--all"], ["-n", 4], ["-n", 1], ["-n", 3]):
        lines = run("log", table.uri, "--tag", "apart-3", "--oneline", *options).lines
        assert lines == expected[: options[1] if "-n" in options else None]
    lines = run("show", table.uri, "apart-2").lines
    assert lines[0] == f"version {before} (tag: apart-2)"
    assert lines[-1] == (
        f"no changes are shown: version {before} is detached: it is not in the history of {table.uri}"
    )


def test_the_insert_of_a_row_that_was_cleaned_up(table: pennon.LanceDataset) -> None:
    table.tags.delete("v1")
    table.cleanup_old_versions(timedelta(0))
    _, insert, update, *values = run("blame", table.uri, 1).lines
    assert insert == "version 1  (version was removed)  insert"
    assert update.endswith("  Update")
    assert values == ["  ~ id: null → 2, s: null → x"]
