"""Branches, tags on them, and clones: each implementation opens and commits on what the other made."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from support.compare import assert_both_agree, assert_same, contents

BOTH = [lance, pennon]
PAIRS = pytest.mark.parametrize(
    ("maker", "other"), [(lance, pennon), (pennon, lance)], ids=["theirs_first", "ours_first"]
)


def rows(start: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, start + count)), "text": [f"row {i}" for i in range(count)]})


def make(uri: str, writer: Any, **options: Any) -> Any:
    writer.write_dataset(rows(0, 20), uri, max_rows_per_file=8, enable_stable_row_ids=True, **options)
    writer.dataset(uri).delete("id % 5 = 0")
    writer.write_dataset(rows(100, 5), uri, mode="append")
    return writer.dataset(uri)


def same(left: Any, right: Any) -> None:
    assert (left.version, left.count_rows()) == (right.version, right.count_rows())
    assert_same(contents(left), contents(right))


@PAIRS
def test_commits_on_a_branch_of_the_other(uri: str, maker: Any, other: Any) -> None:
    table = make(uri, maker)
    branch = table.create_branch("dev/x", 2)
    assert branch.uri == uri + "/tree/dev/x"
    theirs = other.dataset(uri).checkout_version(("dev/x", 2))
    same(theirs, branch)
    theirs.insert(rows(200, 3))
    theirs.delete("id = 1 or id = 201")
    branch.checkout_latest()
    branch.insert(rows(300, 2))
    branch.delete("id > 10 and id < 15")
    assert branch.version == 6
    for writer in BOTH:
        same(writer.dataset(uri).checkout_version(("dev/x", None)), branch)
        same(writer.dataset(uri + "/tree/dev/x"), branch)
        assert writer.dataset(uri).version == 3
        assert writer.dataset(uri).count_rows() == 21
        assert writer.dataset(uri).checkout_version(("dev/x", 4)).checkout_version((None, 1)).count_rows() == 20
        assert writer.dataset(uri + "/tree/dev/x").checkout_version(("main", None)).version == 3
        assert writer.dataset(uri + "/tree/dev/x").version_refs() == [{"version": v} for v in range(2, 7)]
    assert_both_agree(uri)
    assert_both_agree(uri + "/tree/dev/x")


def test_files_of_branches(tmp_path: Path) -> None:
    found = {}
    for writer in BOTH:
        uri = tmp_path / writer.__name__
        table = make(str(uri), writer)
        first = table.create_branch("dev/x", 2)
        first.insert(rows(200, 1))
        second = first.create_branch("dev/y")
        second.delete("id = 200")
        third = table.create_branch("other", ("dev/x", 3))
        listed = table.branches.list()
        steps = [identifier for _, identifier in listed["dev/y"]["branch_identifier"]]
        assert steps[0] == listed["dev/x"]["branch_identifier"][0][1]
        assert all(len(step) == 32 for step in steps)
        found[writer.__name__] = {
            "names": sorted(str(path.relative_to(uri)) for path in (uri / "_refs").rglob("*.json")),
            "keys": {
                path.name: [key for key in json.loads(path.read_text()) if key != "pennonChecksum"]
                for path in (uri / "_refs" / "branches").iterdir()
            },
            "branches": {
                name: (
                    b["parent_branch"],
                    b["parent_version"],
                    [v for v, _ in b["branch_identifier"]],
                    b["metadata"],
                )
                for name, b in listed.items()
            },
            "bases": [
                sorted(
                    (id, b.path.replace(str(uri), ""), b.name, b.is_dataset_root)
                    for id, b in branch.base_paths().items()
                )
                for branch in (first, second, third)
            ],
            "transactions": [
                repr(lance.dataset(branch.uri).read_transaction(version).operation).replace(str(uri), "")
                for branch, version in ((first, 2), (second, 3), (third, 3))
            ],
            "order": [name for name, _ in table.branches.list_ordered()],
        }
    assert found["pennon"] == found["lance"]


@PAIRS
def test_tags_on_branches(uri: str, maker: Any, other: Any) -> None:
    table = make(uri, maker)
    branch = table.create_branch("dev", 2)
    branch.insert(rows(200, 3))
    other.dataset(uri).tags.create("on_branch", ("dev", 3))
    other.dataset(branch.uri).tags.create("by_number", 2)
    branch.tags.create("here")
    table.tags.create("on_main", 2)
    for writer in BOTH:
        tags = writer.dataset(uri).tags.list()
        assert {name: (tag["branch"], tag["version"]) for name, tag in tags.items()} == {
            "on_branch": ("dev", 3),
            "by_number": ("dev", 2),
            "here": ("dev", 3),
            "on_main": (None, 2),
        }
        assert {tag["manifest_size"] for name, tag in tags.items() if name in ("here", "on_branch")} == {
            tags["here"]["manifest_size"]
        }
        same(writer.dataset(uri).checkout_version("on_branch"), branch)
        same(writer.dataset(uri, version="here"), branch)
        same(writer.dataset(branch.uri).checkout_version("on_main"), lance.dataset(uri, version=2))


@PAIRS
def test_deleting_branches(uri: str, maker: Any, other: Any) -> None:
    table = make(uri, maker)
    branch = table.create_branch("dev", 2)
    branch.insert(rows(200, 3))
    inner = branch.create_branch("dev/inner")
    table.tags.create("held", ("dev", 2))
    for writer in BOTH:
        with pytest.raises(OSError, match="dev"):
            writer.dataset(uri).branches.delete("dev")
    table.tags.delete("held")
    for writer in BOTH:
        with pytest.raises(OSError, match="dev"):
            writer.dataset(uri).branches.delete("dev")
        with pytest.raises(ValueError, match="nope"):
            writer.dataset(uri).branches.delete("nope")
        with pytest.raises(OSError, match="main"):
            writer.dataset(uri).branches.delete("main")
    other.dataset(uri).branches.delete("dev/inner")
    same(other.dataset(branch.uri), branch)
    assert not Path(inner.uri, "_versions").exists() or not list(Path(inner.uri, "_versions").iterdir())
    other.dataset(uri).branches.delete("dev")
    assert table.branches.list() == {}
    again = maker.dataset(uri).create_branch("dev", 3)
    assert again.count_rows() == 21
    assert_both_agree(uri)
    assert_both_agree(again.uri)


@pytest.mark.parametrize("maker", BOTH)
def test_a_deletion_that_was_cut_short(uri: str, maker: Any) -> None:
    table = make(uri, maker)
    table.create_branch("dev", 1)
    (name,) = Path(uri, "_refs", "branches").iterdir()
    name.unlink()
    before = set(Path(uri).rglob("*"))
    table = pennon.dataset(uri)
    with pytest.raises(pennon.AlreadyExistsError, match='Branch "dev" has versions from a deletion') as refused:
        table.create_branch("dev", 1)
    assert refused.value.path == f"{uri}/tree/dev"
    assert set(Path(uri).rglob("*")) == before
    table.branches.delete("dev")
    assert table.create_branch("dev", 1).count_rows() == table.checkout_version(1).count_rows()
    assert_both_agree(f"{uri}/tree/dev")


@pytest.mark.parametrize(
    "name", ["", "main", "/a", "a/", "a//b", "a b", "a\\b", "../up", "a/../b", ".a", "a.", "x.lock", "a/.b"]
)
def test_bad_names(uri: str, name: str) -> None:
    make(uri, lance)
    before = set(Path(uri).rglob("*"))
    with pytest.raises(pennon.InvalidInputError, match="Ref is invalid"):
        pennon.dataset(uri).create_branch(name)
    with pytest.raises(pennon.PennonError):
        pennon.dataset(uri).checkout_version((name, 99))
    assert set(Path(uri).rglob("*")) == before


@pytest.mark.parametrize("reference", [99, "nope", ("nope", 1), ("dev", 99)], ids=str)
def test_what_is_not_there(uri: str, tmp_path: Path, reference: Any) -> None:
    table = make(uri, pennon)
    table.create_branch("dev")
    before = set(Path(uri).rglob("*"))
    for call in (
        lambda: table.create_branch("new", reference),
        lambda: table.shallow_clone(tmp_path / "clone", reference),
        lambda: table.deep_clone(tmp_path / "clone", reference),
        lambda: table.checkout_version(reference),
        lambda: table.tags.create("tag", reference),
    ):
        with pytest.raises(pennon.NotFoundError):
            call()
    assert set(Path(uri).rglob("*")) == before
    assert not (tmp_path / "clone").exists()


def test_what_is_there_already(uri: str, tmp_path: Path) -> None:
    table = make(uri, pennon)
    table.create_branch("dev")
    with pytest.raises(pennon.AlreadyExistsError, match="dev"):
        table.create_branch("dev", 1)
    make(str(tmp_path / "other"), pennon)
    for clone in (table.shallow_clone, table.deep_clone):
        with pytest.raises(pennon.AlreadyExistsError):
            clone(tmp_path / "other", 1)
    assert_both_agree(tmp_path / "other")


@PAIRS
@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_clones(uri: str, tmp_path: Path, maker: Any, other: Any, deep: bool) -> None:
    table = make(uri, maker)
    table.tags.create("two", 2)
    verb = "deep_clone" if deep else "shallow_clone"
    clone = getattr(table, verb)(str(tmp_path / "clone"), "two")
    same(clone, table.checkout_version(2))
    other.dataset(clone.uri).insert(rows(200, 3))
    other.dataset(clone.uri).delete("id = 1 or id = 201")
    clone.checkout_latest()
    clone.delete("id > 10 and id < 15")
    assert_both_agree(clone.uri)
    again = getattr(other.dataset(clone.uri), verb)(str(tmp_path / "again"), 4)
    again.insert(rows(300, 2))
    again.delete("id = 300 or id = 2 or id = 200")
    assert_both_agree(again.uri)
    assert len(clone.base_paths()) == (0 if deep else 1)
    assert len(again.base_paths()) == (0 if deep else 2)
    assert_both_agree(uri)
    if deep:
        lance.LanceDataset.drop(uri)
        lance.LanceDataset.drop(clone.uri)
        assert_both_agree(again.uri)


def test_files_of_clones(tmp_path: Path) -> None:
    found = {}
    for writer in BOTH:
        root = tmp_path / writer.__name__
        table = make(str(root / "table"), writer)
        branch = table.create_branch("dev", 2)
        branch.insert(rows(200, 1))
        clones = {
            "shallow": table.shallow_clone(str(root / "shallow"), 3),
            "deep": table.deep_clone(str(root / "deep"), 3),
            "of_branch": branch.shallow_clone(str(root / "of_branch"), 3),
            "deep_of_branch": branch.deep_clone(str(root / "deep_of_branch"), ("dev", 3)),
        }
        clones["of_clone"] = clones["shallow"].shallow_clone(str(root / "of_clone"), 3)
        found[writer.__name__] = {
            name: (
                clone.version,
                sorted(
                    (id, b.path.replace(str(root), ""), b.name, b.is_dataset_root)
                    for id, b in clone.base_paths().items()
                ),
                repr(lance.dataset(clone.uri).read_transaction(3).operation).replace(str(root), ""),
                [
                    [file.base_id for file in fragment.metadata.files]
                    for fragment in lance.dataset(clone.uri).get_fragments()
                ],
                # Ours notes down its clones.
                sorted(
                    path.suffix
                    for path in (root / name).rglob("*")
                    if path.is_file() and path.parent.name != "clones"
                ),
            )
            for name, clone in clones.items()
        }
        for clone in clones.values():
            assert_both_agree(clone.uri)
    assert found["pennon"] == found["lance"]


def test_clones_carry_indices(uri: str, tmp_path: Path) -> None:
    make(uri, lance)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    table = pennon.dataset(uri)
    for clone in (
        table.shallow_clone(tmp_path / "shallow", 4),
        table.deep_clone(tmp_path / "deep", 4),
        table.create_branch("dev"),
    ):
        theirs = lance.dataset(clone.uri)
        assert theirs.to_table(filter="id = 7").num_rows == 1
        assert "ScalarIndexQuery" in theirs.scanner(filter="id = 7").explain_plan()


def test_cleanup_spares_branches_and_clones(uri: str, tmp_path: Path) -> None:
    table = make(uri, pennon)
    branch = table.create_branch("dev", 2)
    branch.insert(rows(200, 3))
    inner = branch.create_branch("inner", 2)
    clone = table.shallow_clone(tmp_path / "clone", 3)
    second = clone.shallow_clone(tmp_path / "second", 3)
    table.insert(rows(400, 3), mode="overwrite")
    kept = [(held, contents(held)) for held in (branch, inner, clone, second)]
    explained = {row["path"]: row for row in table.explain_cleanup_old_versions(timedelta(0)).files.to_pylist()}
    owners = {row["by"] for row in explained.values() if row["by"]}
    assert any(owner.startswith("branch dev") for owner in owners)
    assert any("clone" in owner for owner in owners)
    for cleaned in (table, branch, clone, second):
        cleaned.cleanup_old_versions(timedelta(0), delete_unverified=True)
    for held, expected in kept:
        assert_same(contents(lance.dataset(held.uri)), expected)
        assert_same(contents(pennon.dataset(held.uri)), expected)
    # Nobody needs the first files any more.
    for gone in (clone.uri, second.uri):
        pennon.LanceDataset.drop(gone)
    for name in ("inner", "dev"):
        table.branches.delete(name)
    stats = table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert stats.data_files_removed == 4
    assert len(list(Path(uri, "data").iterdir())) == 1
    assert_both_agree(uri)


def test_a_branch_with_clones_is_not_deleted(uri: str, tmp_path: Path) -> None:
    table = pennon.write_dataset({"id": [1, 2]}, uri)
    branch = table.create_branch("dev")
    branch.insert({"id": [3]})
    clone = branch.shallow_clone(tmp_path / "clone", ("dev", branch.version))
    with pytest.raises(
        pennon.AlreadyExistsError, match=r"the shallow clone .*clone was made of it \(.*_refs/clones/"
    ):
        table.branches.delete("dev")
    assert pennon.dataset(clone.uri).to_table()["id"].to_pylist() == [1, 2, 3]
    assert list(table.branches.list()) == ["dev"]
    # One that is gone does not count.
    pennon.LanceDataset.drop(clone.uri)
    table.branches.delete("dev")
    assert table.branches.list() == {}
