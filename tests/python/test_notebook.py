"""How objects show themselves in a console and in a notebook: escaped, bounded, without reading data files."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pennon.optimize import Compaction
from pennon.types import Versions

from .conftest import numbers

EVIL = "<script>alert('x & y')</script>"
MOST_HTML, MOST_TEXT = 40_000, 8_000


class Tags(HTMLParser):
    """Names of elements; fails on one that is not closed in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def html(value: Any) -> str:
    """The HTML of an object after checks that all of it must pass."""
    found: str = value._repr_html_()
    parser = Tags()
    parser.feed(found)
    parser.close()
    assert parser.open == []
    assert parser.seen <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "p"}
    assert len(found) < MOST_HTML
    assert isinstance(value, Versions) or len(repr(value)) < MOST_TEXT, "versions have the text of a list"
    return found


def shown(table: pennon.LanceDataset) -> dict[str, Any]:
    """One of each kind of object that notebooks show."""
    return {
        "dataset": table,
        "tags": table.tags,
        "branches": table.branches,
        "versions": table.versions(),
        "stats": table.stats,
        "counters": table.counters(),
        "io": table.io_stats_snapshot(),
        "schema": table.lance_schema,
        "scanner": table.scanner(filter="id > 1"),
        "fragment": table.get_fragments()[0],
        "delta": table.delta(begin_version=0, end_version=table.version),
        "job": jobs.plan_scan(table, tasks=2),
        "compaction": Compaction.plan(table),
        "cleanup": table.explain_cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False),
        "verify": table.verify(),
    }


def test_what_is_shown(table: pennon.LanceDataset) -> None:
    table.tags.create("gold", 1)
    table.create_branch("dev")
    table.delete("id = 3")
    objects = shown(table)
    pages = {name: html(value) for name, value in objects.items()}
    where = repr(table.uri)
    assert repr(table) == f"LanceDataset({where}, version=2, rows=9)"
    assert repr(table.tags) == f"Tags({where}, ['gold'])"
    assert repr(table.branches) == f"Branches({where}, ['dev'])"
    assert repr(table.stats) == f"LanceStats({where}, num_deleted_rows=1, num_fragments=3, num_small_files=3)"
    assert repr(objects["scanner"]) == f"LanceScanner({where}, version=2, columns=['id', 'text'])"
    assert repr(objects["delta"]) == f"DatasetDelta({where}, begin=0, end=2)"
    assert repr(table.lance_schema) == "LanceSchema(['id', 'text'])"
    figures = "ok=True, version=2, versions=2, fragments=3, files=6, without_checksums=0"
    assert repr(objects["verify"]) == f"VerifyReport({where}, {figures}, findings=[], leftovers=[])"
    assert "CompactionTask(read_version=2, fragments=[0, 1, 2])" in repr(objects["compaction"])
    for name, words in {
        "dataset": ["<td>id</td><td>int64</td><td>yes</td>", "<th>rows</th><td>9</td>"],
        "tags": ["<td>gold</td><td>1</td><td>main</td>"],
        "branches": ["<td>dev</td><td>main</td><td>1</td>"],
        "versions": ["<td>2</td>", "newest first"],
        "stats": ["<th>num_deleted_rows</th><td>1</td>"],
        "counters": ["<th>rows_decoded</th>"],
        "io": ["<th>read_iops</th>"],
        "schema": ["<td>1</td><td>text</td><td>string</td>"],
        "scanner": ["filter: id &gt; 1"],
        "fragment": ["<th>deleted rows</th><td>1</td>"],
        "delta": ["<th>up to version</th><td>2</td>"],
        "job": ["<td>0</td><td>[0"],
        "compaction": ["[0, 1, 2]"],
        "cleanup": ["<td>current_version</td>"],
        "verify": ["<th>nothing is wrong</th><td>yes</td>"],
    }.items():
        for word in words:
            assert word in pages[name], (name, pages[name])


def test_results_of_upkeep(table: pennon.LanceDataset) -> None:
    done = table.optimize.compact_files()
    assert "<td>fragments</td><td>3</td><td>1</td>" in html(done)
    assert "<th>old_versions</th><td>2</td>" in html(table.cleanup_old_versions(timedelta(0)))
    report = jobs.run(jobs.plan_delete(table, "id = 1", tasks=1))
    assert "<th>rows</th><td>1</td>" in html(report)


def test_reports(table: pennon.LanceDataset, uri: str) -> None:
    table.delete("id = 3")
    path = next(Path(uri, "data").iterdir())
    path.unlink()
    reports = [pennon.verify(uri), pennon.seal(uri), pennon.scrub(uri), pennon.repair(uri)]
    for report in reports:
        name = type(report).__name__
        assert repr(report).startswith(f"{name}({uri!r}, ok=False, ")
        assert "findings=[Finding(kind='missing_file', version=" in repr(report)
        page = html(report)
        assert f"<strong>{name} of {uri}</strong>" in page
        assert "<th>nothing is wrong</th><td>no</td>" in page
        assert "<th>findings</th><th>version</th><th>fragment</th><th>path</th><th>message</th>" in page
        assert "<td>missing_file</td>" in page
        with pytest.raises(FrozenInstanceError):
            report.findings = []  # type: ignore[misc]
    assert "<th>actions</th><th>path</th>" in html(reports[-1])
    assert "<th>applied</th><td>no</td>" in html(reports[-1])


def test_names_are_escaped(tmp_path: Path) -> None:
    uri = str(tmp_path / EVIL.replace("/", "|"))
    fields = [pa.field(EVIL, pa.struct([pa.field(EVIL, pa.int64())])), pa.field("id", pa.int64())]
    rows = pa.table([[{EVIL: 1}, {EVIL: 2}], [1, 2]], schema=pa.schema(fields))
    table = pennon.write_dataset(rows, uri, commit_message=EVIL, transaction_properties={EVIL: EVIL})
    table.tags.create("gold")
    table.tags.replace_metadata("gold", {EVIL: EVIL})
    table.update_config({EVIL: EVIL})
    pages = {name: html(value) for name, value in shown(table).items()}
    for name in ("dataset", "schema", "scanner"):
        assert "&lt;script&gt;alert(&#x27;x &amp; y&#x27;)" in pages[name], name
    assert not any("script>" in re.sub("&lt;/?script&gt;", "", page) for page in pages.values())
    Path(uri, "data", "<b>.lance").write_bytes(b"x")
    explained = table.explain_cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert "&lt;b&gt;.lance" in html(explained)


def test_size_is_bounded(tmp_path: Path) -> None:
    wide = pa.table({"id": [1], **{f"{'column ' * 60}{i}": [i] for i in range(499)}})
    table = pennon.write_dataset(wide, tmp_path / "wide")
    for name in ("dataset", "schema", "scanner"):
        assert "and 480 more" in html(shown(table)[name])
    many = pennon.write_dataset(numbers(400), tmp_path / "many", max_rows_per_file=2)
    for number in range(60):
        many.tags.create(f"tag-{number}")
    pages = {name: html(value) for name, value in shown(many).items() if name != "versions"}
    assert "<th>tags</th><td>60</td>" in pages["tags"]
    assert "and 40 more" in pages["tags"]
    assert repr(many.tags).endswith("'tag-15', ... 52 more])")
    assert "and 180 more" in html(jobs.plan_scan(many, tasks=200))
    assert html(Versions({"version": i, "timestamp": None, "metadata": {"a": "b" * 999}} for i in range(99)))


def test_no_data_file_is_read(table: pennon.LanceDataset, uri: str) -> None:
    table.tags.create("gold", 1)
    table.delete("id = 3")
    objects = shown(pennon.dataset(uri))
    for file in [*Path(uri, "data").iterdir(), *Path(uri, "_deletions").iterdir()]:
        file.unlink()
    for value in objects.values():
        html(value)
    assert html(pennon.dataset(uri)) == html(objects["dataset"])


def test_an_object_that_cannot_be_read_is_shown(table: pennon.LanceDataset, uri: str) -> None:
    table.tags.create("gold", 1)
    table.create_branch("dev")
    for kind in ("tags", "branches"):
        for file in Path(uri, "_refs", kind).iterdir():
            file.write_text("{")
    assert repr(table.tags) == f"Tags({uri!r}, unreadable: CorruptError)"
    assert repr(table.branches) == f"Branches({uri!r}, unreadable: CorruptError)"
    for value in (table.tags, table.branches):
        assert "unreadable" in html(value)


def test_versions_are_a_list(table: pennon.LanceDataset, uri: str) -> None:
    found = table.versions()
    assert isinstance(found, list)
    assert found == list(found)
    assert repr(found) == repr(list(found))
    theirs = lance.dataset(uri).versions()
    assert [sorted(version) for version in found] == [sorted(version) for version in theirs]
    # The reference rounds through a float.
    assert abs(found[0]["timestamp"] - theirs[0]["timestamp"]) < timedelta(milliseconds=1)


def test_collections(table: pennon.LanceDataset) -> None:
    for collection in (table.tags, table.branches):
        assert (len(collection), list(collection), "dev" in collection) == (0, [], False)
    table.tags.create("gold")
    table.tags.create("dev")
    table.create_branch("dev")
    assert (len(table.tags), sorted(table.tags), "gold" in table.tags) == (2, ["dev", "gold"], True)
    assert (len(table.branches), list(table.branches), "gold" in table.branches) == (1, ["dev"], False)
    assert 1 not in table.tags


def test_length_is_the_number_of_rows(table: pennon.LanceDataset, uri: str) -> None:
    table.delete("id < 3")
    theirs = lance.dataset(uri)
    assert len(table) == len(theirs) == 7
    assert table
    table.truncate_table()
    theirs = lance.dataset(uri)
    assert len(table) == len(theirs) == 0
    assert bool(table) == bool(theirs) == False  # noqa: E712
    for dataset in (table, theirs):
        with pytest.raises(TypeError, match="not iterable"):
            iter(dataset)


def test_an_empty_table_is_a_table(table: pennon.LanceDataset) -> None:
    """Where a dataset may be given or not, an empty one is one that is given."""
    table.truncate_table()
    version = table.version
    pennon.write_dataset(numbers(2), table, mode="append")
    table.checkout_latest()
    assert (len(table), table.version) == (2, version + 1)
    table.truncate_table()
    plan = jobs.plan_append(table, tasks=1)
    for _ in range(2):  # the second from the handles that tasks keep
        result = plan.tasks[0].run(numbers(3))
    assert plan.commit([result]).dataset.count_rows() == 3


@pytest.mark.parametrize("rows", [0, 1, 5, 100])
def test_head(table: pennon.LanceDataset, uri: str, rows: int) -> None:
    theirs = lance.dataset(uri)
    for mine, other in (
        (table, theirs),
        (table.scanner(), theirs.scanner()),
        (table.get_fragments()[0], theirs.get_fragments()[0]),
    ):
        assert mine.head(rows) == other.head(rows)
        assert mine.head() == mine.head(5)
        with pytest.raises(pennon.InvalidInputError, match=r"num_rows is -1|non-negative"):
            mine.head(-1)
