"""`pennon head`, `count`, `take`, `sql` and `schema`: what they print, in each format, of each version."""

from __future__ import annotations

import csv
import io
from datetime import datetime

import lance
import pennon
import pyarrow as pa
import pytest
from support.command import pennon as run

ROWS = pa.table(
    {
        "id": pa.array(range(5), pa.int64()),
        "text": ["plain", None, "a\tb\x1b[31m", 'x,"y"', "ü" * 300],
        "bytes": pa.array([b"\xff\x00", None, b"", b"a", b"b"], pa.binary()),
        "list": pa.array([[1, 2], None, [], [3], list(range(20))], pa.list_(pa.int32())),
        "real": [1.5, float("nan"), float("inf"), None, -0.0],
        "time": pa.array([datetime(2026, 1, 2, 3, 4, 5)] * 5, pa.timestamp("us")),
    }
)


@pytest.fixture
def table(uri: str) -> pennon.LanceDataset:
    table = pennon.write_dataset(ROWS, uri, commit_message="five rows")
    table.tags.create("first", 1)
    table.delete("id = 0")
    dev = table.create_branch("dev")
    dev.insert(ROWS.slice(0, 1))
    return table


def test_head(table: pennon.LanceDataset) -> None:
    lines = run("head", table.uri, "-n", 2, "--columns", "id,text", "--row-id").lines
    assert [line.split() for line in lines] == [
        ["id", "text", "_rowid"],
        ["1", "null", "1"],
        ["2", "a\\tb\\x1b[31m", "2"],
    ]
    assert run("head", table.uri, "-n", 0, "-c", "id").lines == ["id"]
    assert [row["id"] for row in run("head", table.uri, "--offset", 2, "--format", "json").json] == [3, 4]
    found = run("head", table.uri, "--where", "text = 'x,\"y\"'", "-c", "id", "--format", "json")
    assert found.json == [{"id": 3}]
    odd = pennon.write_dataset({"a,b": [1], "c": [2]}, "memory://cli/odd", mode="overwrite")
    assert run("head", odd.uri, "-c", "`a,b`", "--format", "json").status == 0


def test_formats(table: pennon.LanceDataset) -> None:
    found = run("head", table.uri, "--tag", "first", "--format", "json").json
    assert found[0] == {
        "id": 0,
        "text": "plain",
        "bytes": "/wA=",
        "list": [1, 2],
        "real": 1.5,
        "time": "2026-01-02T03:04:05",
    }
    assert (found[1]["real"], found[2]["real"], found[3]["real"]) == (None, None, None)
    assert found[2]["text"] == "a\tb\x1b[31m"
    text = run("head", table.uri, "--version", 1, "--format", "csv").out
    parsed = list(csv.DictReader(io.StringIO(text)))
    assert [row["id"] for row in parsed] == ["0", "1", "2", "3", "4"]
    assert (parsed[0]["bytes"], parsed[0]["list"], parsed[3]["text"]) == ("/wA=", "[1, 2]", 'x,"y"')
    raw = run("head", table.uri, "--version", 1, "--format", "arrow").raw
    expected = table.checkout_version(1).to_table()
    assert (found := pa.ipc.open_stream(raw).read_all()).schema == expected.schema
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


# A value of each type, as tables and JSON show it.
ODD = {
    pa.timestamp("ns"): (10**18 + 1, "2001-09-09 01:46:40.000000001", "2001-09-09T01:46:40.000000001"),
    pa.timestamp("ms"): (253402300800000, "10000-01-01 00:00:00", "10000-01-01T00:00:00"),
    pa.timestamp("s", "Mars/Olympus"): (0, "1970-01-01 00:00:00Z", "1970-01-01T00:00:00Z"),
    pa.timestamp("us", "Asia/Kolkata"): (1, "1970-01-01 05:30:00.000001+05:30", "1970-01-01T05:30:00.000001+05:30"),
    pa.time64("ns"): (1, "00:00:00.000000001", "00:00:00.000000001"),
    pa.date32(): (10**7, "29349-01-26", "29349-01-26"),
    pa.duration("ns"): (1, "0.000000001 s", 1),
    pa.duration("ms"): (1500, "1.5 s", 1500),
    pa.duration("s"): (10**15, "1000000000000000 s", 10**15),
}


def test_values_that_python_has_no_form_for(uri: str) -> None:
    """Times with nanoseconds, and after the year 9999; text that is not UTF-8 is damage."""
    latin = pa.Array.from_buffers(pa.utf8(), 1, [None, pa.py_buffer(b"\0\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffb")])
    for kind, (number, shown, plain) in ODD.items():
        values = pa.array([number, None], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
        lists = pa.ListArray.from_arrays(pa.array([0, 2, 2]), values, mask=pa.array([False, True]))
        structs = pa.StructArray.from_arrays([values], ["x"], mask=pa.array([False, True]))
        data = pa.table({"id": [0, 1], "one": values, "list": lists, "struct": structs})
        table = pennon.write_dataset(data, uri, mode="overwrite")
        assert run("head", uri, "--format", "json").json[0] == {
            "id": 0,
            "one": plain,
            "list": [plain, None],
            "struct": {"x": plain},
        }
        text = f"one: {shown}, list: [{shown}, null], struct: {{x: {shown}}}"
        table.update({"id": "2"}, where="id = 0")
        table.delete("id = 2")
        for command in ("diff", "show"):
            assert text in run(command, uri).out
        assert run("head", uri, "--version", table.version - 2).out.count(shown) == 3
        for command in ("head", "export"):
            arguments = ["-"] if command == "export" else ["--version", table.version - 2]
            for form in ("csv", "arrow"):
                assert run(command, uri, *arguments, "--format", form).err == ""
    with pytest.raises(pennon.InvalidInputError, match="Column t"):
        pennon.write_dataset({"t": latin}, uri, mode="overwrite")
    lance.write_dataset(pa.table({"t": latin}), uri, mode="overwrite")
    done = run("head", uri)
    assert (done.status, done.out, done.err.count("\n")) == (3, "", 1)


def test_count(table: pennon.LanceDataset) -> None:
    assert run("count", table.uri).out == "4\n"
    assert run("count", table.uri, "--tag", "first").out == "5\n"
    assert run("count", table.uri, "--branch", "dev").out == "5\n"
    assert run("count", table.uri, "--branch", "dev", "--version", 2).out == "4\n"
    assert run("count", table.uri, "--where", "id > 2", "--format", "json").json == [{"rows": 2}]


def test_as_of(table: pennon.LanceDataset) -> None:
    first = table.versions()[0]["timestamp"]
    newest = table.checkout_version(("dev", 3)).get_version()["timestamp"]
    assert run("count", table.uri, "--as-of", first.isoformat()).out == "5\n"
    assert run("count", table.uri, "--as-of", f"{first.astimezone(None):%Y-%m-%dT%H:%M:%S.%f%z}").out == "5\n"
    assert run("count", table.uri, "--branch", "dev", "--as-of", newest.isoformat()).out == "5\n"
    at_fork = table.checkout_version(("dev", 2)).get_version()["timestamp"]
    assert run("count", table.uri, "--branch", "dev", "--as-of", at_fork.isoformat()).out == "4\n"
    for branch in ([], ["--branch", "dev"]):
        done = run("count", table.uri, *branch, "--as-of", "2001-01-01")
        assert (done.status, done.err.count("\n")) == (3, 1)
        assert "2001-01-01 00:00:00 is earlier than the first version" in done.err
    assert run("count", table.uri, "--as-of", "yesterday").status == 2


def test_take(table: pennon.LanceDataset) -> None:
    done = run("take", table.uri, 4, 1, 4, "-c", "id", "--format", "json")
    assert (done.status, done.json) == (
        0,
        [{"_rowid": 4, "id": 4}, {"_rowid": 1, "id": 1}, {"_rowid": 4, "id": 4}],
    )
    done = run("take", table.uri, 0, 3, "-c", "id", "--format", "json")
    assert (done.status, [row["id"] for row in done.json]) == (1, [3])
    assert done.err == "pennon: no row has the id 0\n"
    done = run("take", table.uri, 0, "--position", "-c", "id", "--format", "json")
    assert done.json == [{"id": 1}]
    done = run("take", table.uri, 99, 3, 99, 2**63, "--position", "-c", "id", "--format", "json")
    assert (done.status, done.json) == (1, [{"id": 4}])
    assert done.err == f"pennon: no row has the position 99, {2**63}\n"
    assert run("take", table.uri, -1).status == 2


def test_sql_of_types_that_duckdb_does_not_know(uri: str) -> None:
    half, wide = pa.array([1.5]).cast(pa.float16()), pa.array(["1"]).cast(pa.decimal256(50, 2))
    table = pennon.write_dataset({"id": [1], "half": half, "wide": wide}, uri)
    done = run("sql", table.uri, "SELECT id FROM dataset")
    types = "'half' (halffloat), 'wide' (decimal256(50, 2))"
    assert (done.status, done.err.count("\n")) == (3, 1)
    assert f"DuckDB does not know the types of all columns: {types}; DataFusion, which runs" in done.err
    assert table.sql("SELECT half, wide FROM dataset").build().to_stream_reader().read_all().num_rows == 1


def test_sql(table: pennon.LanceDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT count(*) AS n, max(id) AS m FROM dataset WHERE id < 4"
    assert run("sql", table.uri, query, "--format", "json").json == [{"n": 3, "m": 3}]
    assert run("sql", table.uri, query, "--tag", "first", "--format", "json").json == [{"n": 4, "m": 3}]
    for wrong in (
        "SELEC",
        "SELECT nothing FROM dataset",
        "SELECT text::INT FROM dataset",
        "SELECT * FROM '/etc/passwd'",
    ):
        done = run("sql", table.uri, wrong)
        assert (done.status, done.out, done.err.count("\n")) == (3, "", 1), wrong
    installed = {"datafusion": object()}
    monkeypatch.setattr("pennon.cli.sql.find_spec", installed.get)
    assert run("sql", table.uri, query, "--format", "json").json == [{"n": 3, "m": 3}]
    installed.clear()
    done = run("sql", table.uri, query)
    assert (done.status, "pip install 'pennon[sql]'" in done.err) == (3, True)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs(uri: str, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """They are descriptions where rows are shown, and bytes in queries: legacy blobs before file version 2.2."""
    blob = pa.field("file", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    data = pa.table([pa.array([1, 2]), pa.array([b"abc", None], blob.type)], schema=schema)
    pennon.write_dataset(data, uri, data_storage_version=version)
    for form in ("table", "json", "csv", "arrow"):
        assert run("head", uri, "--format", form).status == 0
    for shown in (run("head", uri, "--format", "json").json, run("take", uri, "0", "1", "--format", "json").json):
        assert (shown[0]["file"]["size"], shown[1]["file"]) == (3, None)
    assert run("head", uri, "--where", "file.size = 3", "--format", "json").json[0]["id"] == 1
    every = "SELECT * FROM dataset"
    assert run("sql", uri, every, "--format", "json").json == [{"id": 1, "file": "YWJj"}, {"id": 2, "file": None}]
    assert run("sql", uri, f"{every} WHERE file = 'abc'::BLOB AND id < 2", "--format", "json").json[0]["id"] == 1
    monkeypatch.setattr("pennon.cli.sql.find_spec", {"datafusion": object()}.get)
    assert run("sql", uri, every, "--format", "json").json[0] == {"id": 1, "file": "YWJj"}


def test_schema(uri: str) -> None:
    nested = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"unit": "m"}), pa.field("s", nested)])
    pennon.write_dataset(pa.table({"id": [1], "s": [{"x": 1}]}, schema=schema), uri)
    found = run("schema", uri, "--format", "json").json
    assert [(row["column"], row["nullable"], row["id"]) for row in found] == [
        ("id", True, 0),
        ("s", True, 1),
        ("s.x", False, 2),
    ]
    assert found[0]["metadata"] == [["unit", "m"]]
    assert run("schema", uri).lines[1].split() == ["id", "int64", "true", "0", "unit=m"]
