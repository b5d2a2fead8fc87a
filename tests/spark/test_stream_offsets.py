"""Offsets, batches and refusals of a stream, driven as Spark drives it, but without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark_pennon.feed.changes import schema_of
from pyspark_pennon.options.feed import FeedOptions
from pyspark_pennon.streams import source as stream_source
from pyspark_pennon.streams.source import StreamReader
from support.long import LONG
from support.model import Machine, program
from support.seeds import seeds

Row = dict[str, Any]
PROGRAMS = 16 if LONG else 8
FEED = {"readChangeFeed": "true"}


class Query:
    """A query with its checkpoint: the last offset, as JSON."""

    def __init__(self, uri: str, **options: str) -> None:
        self.options = {"path": uri, **options}
        self.schema = schema_of(self.options)
        self.offset: Any = None
        # Spark keeps one reader for offsets and plans; tasks have their own.
        self.driver = self.reader()
        self.driver.prepareForTriggerAvailableNow()

    def reader(self) -> StreamReader:
        return StreamReader(FeedOptions.parse(self.options, stream=True), self.schema)

    def restart(self, **options: str) -> Query:
        """The same checkpoint, a new start: the schema is that of now."""
        made = Query(self.options["path"], **{**self.options, **options})
        made.offset = self.offset
        return made

    def batches(self) -> Iterator[list[Row]]:
        """Batches until there is nothing new, as `availableNow` has them."""
        driver = self.driver
        driver.prepareForTriggerAvailableNow()
        if self.offset is None:
            self.offset = again(driver.initialOffset())
        while True:
            end = again(driver.latestOffset(again(self.offset), driver.getDefaultReadLimit()))
            if end == self.offset:
                return
            # A batch that is run again after a restart has the same rows.
            rows = self.rows(driver, self.offset, end)
            if self.is_current():
                assert rows == self.rows(self.reader(), self.offset, end)
            self.offset = end
            yield rows

    def is_current(self) -> bool:
        """Whether a restart would find the same columns."""
        try:
            return schema_of(self.options) == self.schema
        except pennon.InvalidInputError:
            return False

    def rows(self, reader: StreamReader, start: Any, end: Any) -> list[Row]:
        parts = reader.partitions(again(start), again(end))
        return [row for part in parts for batch in self.reader().read(part) for row in batch.to_pylist()]

    def read(self) -> list[Row]:
        return [row for batch in self.batches() for row in batch]


def again(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


def shown(rows: list[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    return pennon.write_dataset({"id": list(range(10))}, uri, max_rows_per_file=3)


@pytest.mark.parametrize("seed", seeds(PROGRAMS))
def test_feeds_of_random_programs(uri: str, seed: int) -> None:
    machine = Machine(
        lambda rows: pennon.write_dataset(rows, uri, max_rows_per_file=4),
        lambda _: pennon.dataset(uri),
        lambda: pennon.dataset(uri),
    )
    for step in program(seed, 16):
        if step[0] not in ("cleanup", "tag"):
            machine.run(step)
    newest = pennon.dataset(uri)
    names = newest.schema.names
    expected = []
    for version in range(1, newest.version + 1):
        changes = newest.changes(version - 1, version, images="both", columns_of="table")
        expected += changes.read_all().to_pylist()
    start = {"startingVersion": str(seed % 2)}
    assert shown(Query(uri, **FEED, **start).read()) == shown(expected)
    limited = Query(uri, **FEED, **start, maxVersionsPerTrigger=str(1 + seed % 3))
    assert shown(limited.read()) == shown(expected)
    by_rows = list(Query(uri, **FEED, **start, maxRowsPerTrigger="7").batches())
    assert shown([row for batch in by_rows for row in batch]) == shown(expected)
    # A batch is whole versions.
    versions = [{row["_commit_version"] for row in batch} for batch in by_rows]
    assert sum(len(found) for found in versions) == len({row["_commit_version"] for row in expected})
    # A stream of appends is the versions that only appended.
    kinds: dict[int, set[str]] = {}
    for row in expected:
        kinds.setdefault(row["_commit_version"], set()).add(row["_change_type"])
    appended = [
        {name: row[name] for name in names} for row in expected if kinds[row["_commit_version"]] == {"insert"}
    ]
    assert shown(Query(uri, **start, skipChangeCommits="true").read()) == shown(appended)


def test_a_snapshot_comes_first(table: pennon.LanceDataset) -> None:
    table.delete("id = 4")
    query = Query(table.uri, **FEED, maxRowsPerTrigger="4")
    batches = query.batches()
    first = next(batches)
    # What is committed meanwhile follows the snapshot.
    table.update({"id": "id + 100"}, where="id = 9")
    table.insert({"id": [10]})
    later = query.restart()
    found = list(later.batches())
    assert [len(batch) for batch in [first, *found]] == [5, 4, 3]
    assert {(row["_change_type"], row["_commit_version"]) for row in [*first, *found[0]]} == {("insert", 2)}
    assert sorted(row["id"] for row in [*first, *found[0]]) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert [row["_change_type"] for row in found[1]] == ["update_preimage", "update_postimage", "insert"]
    made = pennon.dataset(table.uri).changes(1, columns=[], mode="each").read_all()["_commit_timestamp"]
    assert found[1][2]["_commit_timestamp"] == made[-1].as_py()
    assert later.read() == []
    assert Query(table.uri, with_row_id="true", columns="id").read()[0] == {"id": 0, "_rowid": 0}


def test_where_a_stream_starts(table: pennon.LanceDataset) -> None:
    latest = Query(table.uri, startingVersion="latest")
    assert latest.read() == []
    table.insert({"id": [10]})
    assert latest.read() == [{"id": 10}]
    assert Query(table.uri, startingVersion="2").read() == [{"id": 10}]
    assert Query(table.uri, startingVersion="3").read() == []
    assert len(Query(table.uri, startingVersion="0").read()) == 11
    made = table.changes(1, columns=[]).read_all()["_commit_timestamp"][0].as_py()
    assert Query(table.uri, startingTimestamp=made.isoformat()).read() == [{"id": 10}]
    with pytest.raises(pennon.InvalidInputError, match="starts at version 9, but the newest version is 2"):
        Query(table.uri, startingVersion="9").read()
    # `latest` is fixed by the first, empty batch, and not again after a restart.
    query = Query(table.uri, startingVersion="latest")
    reader = query.reader()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    table.insert({"id": [11]})
    assert query.reader().partitions(query.reader().initialOffset(), end) == []
    query.offset = end
    assert query.read() == [{"id": 11}]


def test_appends_and_other_changes(table: pennon.LanceDataset) -> None:
    query = Query(table.uri, columns="id")
    assert len(query.read()) == 10
    table.insert({"id": [10]})
    table.optimize.compact_files()
    table.update_config({"a": "b"})
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.table({"id": [11]}))
    table = pennon.dataset(table.uri)
    table.add_columns({"more": "id * 2"})
    # A merge that only inserted is an append; columns that were added do not concern the query.
    assert query.read() == [{"id": 10}, {"id": 11}]
    changes = {
        "a Delete": lambda table: table.delete("id = 0"),
        "an Update": lambda table: table.update({"id": "id"}, where="id = 1"),
        "an Overwrite": lambda table: pennon.write_dataset({"id": [50]}, table, mode="overwrite"),
        "a Restore": lambda table: table.checkout_version(1).restore(),
    }
    for operation, change in changes.items():
        change(pennon.dataset(table.uri))
        newest = pennon.dataset(table.uri).version
        with pytest.raises(pennon.InvalidInputError) as caught:
            query.read()
        assert f"Version {newest} of {table.uri}, made by {operation}, deleted or updated rows" in str(caught.value)
        assert "Set skipChangeCommits to pass over such versions" in str(caught.value)
        pennon.dataset(table.uri).insert(pa.table({"id": [newest]}))
        query = query.restart(skipChangeCommits="true")
        assert [row["id"] for row in query.read()] == [newest]
        query = query.restart(skipChangeCommits="false")


def test_columns_that_change(table: pennon.LanceDataset) -> None:
    table.add_columns({"text": "cast(id as string)", "n": "cast(id as int)"})
    query = Query(table.uri, **FEED, startingVersion="3", columns="text,n")
    # Added: not seen before a restart. Renamed: the query goes on under the old name.
    table.add_columns({"more": "id"})
    table.alter_columns({"path": "text", "name": "word"})
    table.insert(pa.table({"id": [10], "word": ["ten"], "n": pa.array([10], pa.int32()), "more": [0]}))
    found = query.read()
    assert (found[-1]["text"], found[-1]["n"]) == ("ten", 10)
    assert {row["_change_type"] for row in found[:-1]} == {"update_preimage", "update_postimage"}
    quiet = Query(table.uri, **FEED, startingVersion="4", columns="word,n", dropUnchanged="true")
    assert [row["word"] for row in quiet.read()] == ["ten"]
    # Dropped, or of another type: the query ends, and goes on with the columns of then.
    table = pennon.dataset(table.uri)
    table.drop_columns(["word"])
    with pytest.raises(pennon.InvalidInputError, match="Column 'text' of the stream was dropped, in version 6"):
        query.read()
    with pytest.raises(pennon.InvalidInputError, match="no column 'text'; its columns are id, n, more"):
        query.restart()
    query = query.restart(columns="n,more")
    table.alter_columns({"path": "n", "data_type": pa.int64()})
    with pytest.raises(pennon.InvalidInputError, match="Column 'n' of the stream is another one now, of another"):
        query.read()
    query = query.restart()
    table.insert(pa.table({"id": [11], "n": [1 << 40], "more": [7]}))
    (*_, last) = query.read()
    assert (last["n"], last["more"], last["_change_type"]) == (1 << 40, 7, "insert")


@pytest.mark.parametrize("feed", [FEED, {}])
def test_columns_that_change_after_load(table: pennon.LanceDataset, feed: dict[str, str]) -> None:
    table.add_columns({"n": "cast(id as int)"})
    query = Query(table.uri, **feed, columns="id,n")
    table.alter_columns({"path": "n", "data_type": pa.int64()})
    again = "in version 3 of .*: load the stream again, and start the query with the same checkpoint"
    with pytest.raises(
        pennon.SchemaMismatchError, match=f"'n' was asked for as int, but the feed has bigint, {again}"
    ):
        query.reader().initialOffset()
    table.alter_columns({"path": "n", "name": "m"})
    with pytest.raises(pennon.InvalidInputError, match="no column 'n'; its columns are id, m, in version 4 of "):
        query.reader().initialOffset()
    assert len(query.restart(columns="id,m").read()) == 10


def test_an_overwrite_in_another_order(uri: str) -> None:
    """The query goes on with the columns of the same names, in versions before and after."""
    pennon.write_dataset({"a": [1], "b": [2]}, uri)
    query = Query(uri, **FEED, startingVersion="0", columns="a,b")

    def images() -> list[tuple[Any, ...]]:
        return [(row["_change_type"], row["a"], row["b"]) for row in query.read()]

    assert images() == [("insert", 1, 2)]
    pennon.write_dataset({"b": [20], "a": [10], "c": [30]}, uri, mode="overwrite")
    expected = [("delete", 1, 2), ("insert", 10, 20)]
    assert images() == expected
    query = Query(uri, **FEED, startingVersion="0", columns="a,b")
    assert images() == [("insert", 1, 2), *expected]
    # A snapshot of a version before the overwrite of the next query.
    query = Query(uri, **FEED, columns="b,a", maxRowsPerTrigger="1")
    reader = query.reader()
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    pennon.write_dataset({"a": [100], "b": [200]}, uri, mode="overwrite")
    rows = query.rows(query.reader(), reader.initialOffset(), end)
    assert [(row["a"], row["b"]) for row in rows] == [(10, 20)]


def test_a_field_id_of_another_column(uri: str) -> None:
    table = pennon.write_dataset({"id": list(range(6)), "old": [1] * 6}, uri, max_rows_per_file=2)
    table.drop_columns(["old"])
    table.delete("id = 5")
    table.optimize.compact_files()
    table.add_columns(pa.field("new", pa.int64()))
    table.alter_columns({"path": "id", "name": "key"})
    rows = Query(table.uri, **FEED, startingVersion="0").read()
    assert {row["new"] for row in rows} == {None}
    assert [row["key"] for row in rows] == [0, 1, 2, 3, 4, 5, 5]


def test_versions_that_are_gone(table: pennon.LanceDataset) -> None:
    query = Query(table.uri, **FEED)
    query.read()
    for number in range(3):
        table.insert({"id": [20 + number]})
    late = query.restart()
    assert len(query.read()) == 3
    table = pennon.dataset(table.uri)
    table.cleanup_old_versions(versions=[1, 2])
    with pytest.raises(pennon.NotFoundError) as caught:
        late.read()
    text = str(caught.value)
    assert "Version 1" in text
    assert "removed by a vacuum, and the stream has read up to it" in text
    assert "from startingVersion 4 on" in text
    assert query.read() == []
    with pytest.raises(pennon.NotFoundError, match="the stream starts at the version after it"):
        Query(table.uri, startingVersion="2").read()
    assert len(Query(table.uri, startingVersion="4").read()) == 1
    table.insert({"id": [30]})
    table.insert({"id": [31]})
    pennon.dataset(table.uri).cleanup_old_versions(versions=[5])
    with pytest.raises(pennon.NotFoundError, match=r"Version 5 .* and the stream has not read it yet"):
        query.read()


def test_a_checkpoint_of_another_table(table: pennon.LanceDataset, tmp_path: Path) -> None:
    table.insert({"id": [10]})
    query = Query(table.uri)
    assert len(query.read()) == 11
    pennon.LanceDataset.drop(table.uri)
    made = pennon.write_dataset({"id": [1]}, table.uri)
    with pytest.raises(
        pennon.InvalidInputError, match=r"of another table: it has read up to version 2, and the newest"
    ):
        query.read()
    made.insert({"id": [2]})
    with pytest.raises(pennon.InvalidInputError, match=r"of another table: version 2 of .* was made"):
        query.read()
    made.insert({"id": [3]})
    with pytest.raises(pennon.InvalidInputError, match="of another table"):
        query.read()
    # A copy of the folder is the same table.
    query = Query(table.uri)
    query.read()
    Path(table.uri).rename(tmp_path / "moved")
    moved = query.restart(path=str(tmp_path / "moved"))
    assert moved.read() == []


def test_a_table_without_stable_row_ids(uri: str) -> None:
    table = pennon.write_dataset({"id": [1]}, uri, enable_stable_row_ids=False)
    query = Query(uri)
    assert query.read() == [{"id": 1}]
    table.insert({"id": [2, 3]})
    table.optimize.compact_files()
    table.insert({"id": [4]})
    assert [row["id"] for row in query.read()] == [2, 3, 4]
    table.delete("id = 1")
    with pytest.raises(pennon.InvalidInputError, match="made by a Delete, deleted or updated rows"):
        query.read()
    query = query.restart(skipChangeCommits="true")
    assert query.read() == []
    with pytest.raises(pennon.InvalidInputError, match="A change feed needs stable row ids"):
        Query(uri, **FEED)


def test_a_table_that_gets_stable_row_ids(uri: str) -> None:
    table = pennon.write_dataset({"id": [1]}, uri, enable_stable_row_ids=False)
    query = Query(uri)
    assert query.read() == [{"id": 1}]
    table.insert({"id": [2, 3]})
    table.migrate_to_stable_row_ids()
    table.insert({"id": [4]})
    table.optimize.compact_files()
    table.insert({"id": [5]})
    assert sorted(row["id"] for row in query.read()) == [2, 3, 4, 5]
    table.update({"id": "6"}, where="id = 2")
    with pytest.raises(pennon.InvalidInputError, match="made by an Update, deleted or updated rows"):
        query.read()
    for start in ("3", "4"):
        feed = Query(uri, **FEED, startingVersion=start)
        assert sorted((row["id"], row["_change_type"]) for row in feed.read()) == [
            (2, "update_preimage"),
            (4, "insert"),
            (5, "insert"),
            (6, "update_postimage"),
        ]
    with pytest.raises(pennon.InvalidInputError, match="requires stable row ids, version 1 of"):
        Query(uri, **FEED, startingVersion="2").read()


@pytest.mark.parametrize("stable", [False, True])
def test_appends_before_and_after_names_were_swapped(uri: str, stable: bool) -> None:
    table = pennon.write_dataset({"id": [1], "a": ["a1"], "b": ["b1"]}, uri, enable_stable_row_ids=stable)
    query = Query(uri)
    assert len(query.read()) == 1
    table.insert({"id": [2], "a": ["a2"], "b": ["b2"]})
    for name, new in (("a", "tmp"), ("b", "a"), ("tmp", "b")):
        table.alter_columns({"path": name, "name": new})
        at = table.version
        table.insert({"id": [at], **{column: [column] for column in table.schema.names if column != "id"}})
    found = query.read()
    assert [(row["id"], row["a"], row["b"]) for row in found] == [
        (2, "a2", "b2"),
        *((3, "tmp", "b"), (5, "tmp", "a"), (7, "b", "a")),
    ]
    # A query that starts now has the names of now.
    later = Query(uri, startingVersion="1").read()
    assert sorted((row["id"], row["b"], row["a"]) for row in later) == [
        *((1, "a1", "b1"), (2, "a2", "b2"), (3, "tmp", "b"), (5, "tmp", "a"), (7, "b", "a")),
    ]


def merged_by_pylance(uri: str, rows: pa.Table) -> None:
    merge = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows)


def merged_by_the_wheel(uri: str, rows: pa.Table) -> None:
    pennon.dataset(uri).merge_insert("id").when_not_matched_insert_all().execute(rows)


def merged_by_a_job(uri: str, rows: pa.Table) -> None:
    """As Spark merges."""
    schema = pa.schema([pa.field("_rowaddr", pa.int64()), *rows.schema])
    plan = jobs.plan_change_rows(uri, schema, keys=["id"], tasks=1)
    plan.commit([plan.task(0).run(rows.add_column(0, "_rowaddr", pa.nulls(rows.num_rows, pa.int64())))])


@pytest.mark.parametrize("stable", [False, True])
def test_what_adds_rows_is_an_append(uri: str, stable: bool) -> None:
    pennon.write_dataset({"id": [0, 1, 2]}, uri, enable_stable_row_ids=stable)
    query = Query(uri)
    assert len(query.read()) == 3
    for at, merge in enumerate((merged_by_pylance, merged_by_the_wheel, merged_by_a_job)):
        merge(uri, pa.table({"id": [10 + at]}))
    merged_by_the_wheel(uri, pa.table({"id": [0]}))  # inserts nothing
    lance.dataset(uri).delete("id = 77")
    lance.dataset(uri).update({"id": "id"}, where="id = 77")
    assert pennon.dataset(uri).version == 7
    assert [row["id"] for row in query.read()] == [10, 11, 12]
    # One row has a new value, and one is new.
    merged_by_pylance(uri, pa.table({"id": [1, 20]}))
    with pytest.raises(pennon.InvalidInputError, match="made by an Update, deleted or updated rows"):
        query.read()
    query = query.restart(skipChangeCommits="true")
    assert query.read() == []
    new = lance.fragment.LanceFragment.create(uri, pa.table({"id": [5, 6, 7]})).files[0]
    groups = [lance.LanceOperation.DataReplacementGroup(0, new)]
    lance.LanceDataset.commit(uri, lance.LanceOperation.DataReplacement(groups), read_version=8)
    assert query.read() == []
    pennon.write_dataset({"id": [30]}, uri, mode="overwrite")
    pennon.dataset(uri).delete("true")
    # An overwrite of a table without rows changes none of them.
    pennon.write_dataset({"id": [31]}, uri, mode="overwrite")
    assert [row["id"] for row in query.read()] == [31]


def test_blobs(uri: str) -> None:
    fields = [
        pa.field("id", pa.int64()),
        pa.field("old", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
    ]
    rows = pa.table({"id": [1], "old": pa.array([b"x"], pa.large_binary())}, schema=pa.schema(fields))
    table = pennon.write_dataset(rows, uri, data_storage_version="2.1")
    query = Query(uri)
    assert query.read() == [{"id": 1, "old": b"x"}]
    table.insert(rows)
    assert query.read() == [{"id": 1, "old": b"x"}]
    fields = [pa.field("id", pa.int64()), pennon.blob_field("new")]
    rows = pa.table({"id": [1], "new": pennon.blob_array([b"y"])}, schema=pa.schema(fields))
    pennon.write_dataset(rows, f"{uri}-2", data_storage_version="2.2")
    with pytest.raises(pennon.InvalidInputError, match="Column 'new' has blobs, which change feeds and streams"):
        Query(f"{uri}-2")
    assert Query(f"{uri}-2", columns="id").read() == [{"id": 1}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": "1"}, "Unknown Pennon option 'version' in a change feed or stream"),
        ({"endingVersion": "1", "maxRowsPerTrigger": "1"}, "'maxRowsPerTrigger' in a change feed"),
        ({"maxVersionsPerTrigger": "0"}, "'maxVersionsPerTrigger' is '0': expected 1 or more"),
        ({"max_rows_pertrigger": "x"}, "'maxRowsPerTrigger' is 'x': expected a whole number"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "were both given"),
        ({**FEED, "skipChangeCommits": "true"}, "skipChangeCommits is for streams of appended rows"),
        ({"dropUnchanged": "true"}, "dropUnchanged is for change feeds"),
        ({"columns": "nope"}, "no column 'nope'"),
        ({"columns": "id,"}, "'columns' is 'id,': a name is empty"),
        ({"columns": "[1]"}, "expected a JSON list of names"),
        ({"aws_region": "x"}, r"Unknown Pennon option 'aws_region' in a change feed or stream; .*storage\.<key>"),
    ],
)
def test_options(table: pennon.LanceDataset, options: dict[str, str], message: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match=message):
        Query(table.uri, **options)


def test_versions_are_classified_once(table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    counted = StreamReader._counted

    def counting(self: StreamReader, table: Any, history: Any, version: int) -> int:
        looked_at.append(version)
        return counted(self, table, history, version)

    monkeypatch.setattr(stream_source.StreamReader, "_counted", counting)
    for number in range(6):
        table.insert({"id": [20 + number]})
    query = Query(table.uri, startingVersion="2", maxVersionsPerTrigger="2")
    driver = query.reader()
    offset = driver.initialOffset()
    for _ in range(3):
        end = driver.latestOffset(offset, driver.getDefaultReadLimit())
        driver.partitions(offset, end)
        offset = end
    assert looked_at == [2, 3, 4, 5, 6, 7]
