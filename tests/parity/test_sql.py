"""`LanceDataset.sql`: DataFusion executes queries on Pennon's tables as the reference does on its own."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import datafusion
import lance
import pennon
import pyarrow as pa
import pytest
from support.spread import spread

NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    count = 60
    floats = [None, NAN, -NAN, INF, -INF, 0.0, -0.0, 1.5, -1.5]
    texts = [None, "a", "A", "é", "it's", "aa", "%"]
    data = pa.table(
        {
            "id": range(count),
            "n": pa.array([None if i % 5 == 0 else i % 4 for i in range(count)], pa.int32()),
            "f": [floats[i % 9] for i in range(count)],
            "f32": pa.array([floats[(i + 3) % 9] for i in range(count)], pa.float32()),
            "s": [texts[i % 7] for i in range(count)],
            "Upper": range(count),
            "p": [{"x": i % 3} if i % 4 else None for i in range(count)],
            "l": [[i] * (i % 3) for i in range(count)],
            "d": pa.array([texts[i % 7] for i in range(count)]).dictionary_encode(),
            "b": [None if i % 6 == 0 else i % 2 == 0 for i in range(count)],
            "dec": pa.array(range(count), pa.int64()).cast(pa.decimal128(21, 2)),
        }
    )
    uri = str(tmp_path_factory.mktemp("sql") / "t")
    pennon.write_dataset(data, uri, max_rows_per_file=17).delete("id % 11 = 3")
    return uri


def collected(builder: Any) -> pa.Table:
    batches = builder.build().to_batch_records()
    return pa.Table.from_batches(batches) if batches else pa.table({})


QUERIES = [
    "SELECT * FROM dataset ORDER BY id",
    "SELECT id, n FROM dataset ORDER BY n DESC NULLS LAST, id LIMIT 7 OFFSET 2",
    "SELECT sum(n) total, avg(id), count(*), count(n), max(s), min(f) FROM dataset",
    "SELECT n, count(*) c, sum(id) FROM dataset GROUP BY n HAVING count(*) > 1 ORDER BY n",
    "SELECT id / 2 half, n / 2.0 FROM dataset WHERE id = 7",
    'SELECT "Upper" FROM dataset WHERE id < 4 ORDER BY id',
    "SELECT x.id, y.id FROM dataset x JOIN dataset y ON x.id = y.n ORDER BY 1, 2",
    "WITH q AS (SELECT n FROM dataset WHERE n > 1) SELECT count(*) FROM q",
    "SELECT id, row_number() OVER (PARTITION BY n ORDER BY id) FROM dataset ORDER BY id",
    "SELECT count(*) FROM dataset WHERE id > 1000",
    "SELECT id FROM dataset WHERE id > 1000",
    "SELECT p['x'], array_length(l), upper(s) FROM dataset ORDER BY id",
    "SELECT 1",
    "SELECT DISTINCT d FROM dataset ORDER BY d",
    "SELECT CASE WHEN f > 1 THEN 'big' ELSE 'small' END k, count(*) FROM dataset GROUP BY 1 ORDER BY 1",
    "SELECT id FROM Dataset ORDER BY id LIMIT 1",
]


@pytest.mark.parametrize("query", QUERIES)
def test_queries(uri: str, query: str) -> None:
    ours, theirs = (collected(m.dataset(uri).sql(query)) for m in (pennon, lance))
    assert ours.schema.equals(theirs.schema)
    # NaN is not equal to itself.
    assert repr(ours.to_pylist()) == repr(theirs.to_pylist())
    streamed = pennon.dataset(uri).sql(query).build().to_stream_reader().read_all()
    assert repr(streamed.to_pylist()) == repr(ours.to_pylist())


CONDITIONS = [
    "n > 1",
    "n = n",
    "f = f",
    "NOT (n = n)",
    "n > 1 OR NULL",
    "n <> 1",
    "NOT n = 1",
    "f > 0",
    "f >= 1.5",
    "f < 0",
    "f <> 1.5",
    "f = 0",
    "f = -0.0",
    "f = 'NaN'::double",
    "f > 'inf'::double",
    "NOT (f > 0)",
    "NOT (f > 0 OR f < -1)",
    "f32 > 0",
    "f32 > 0.1",
    "f IS NULL OR f > 1",
    "f IN (0, 1.5)",
    "f NOT IN (0, 1.5)",
    "n IN (1, 2)",
    "n IN (1, 2, 3, 4, 5, 6, 7)",
    "n NOT IN (1, 2, 3, 4, 5, 6, 7)",
    "n NOT IN (1, 2, 3, 4, 5, NULL)",
    "n IN (1, 2, 3, 4, 5, NULL)",
    "n BETWEEN 1 AND 2",
    "n NOT BETWEEN 1 AND 2",
    "s = 'a'",
    "s > 'a'",
    "s = 'it''s'",
    "s LIKE 'a%'",
    "s LIKE '\\%'",
    "s IS NOT NULL AND s <> 'a'",
    "b",
    "NOT b",
    "b IS NOT TRUE",
    "b = false",
    "d = 'a'",
    "d <> 'a'",
    "d IN ('a', 'A', 'é', '%', 'x')",
    "d IS NULL",
    "d = 'a' OR f > 1",
    "p['x'] = 1",
    "p IS NULL",
    "l IS NOT NULL",
    "dec > 30",
    "dec = 30.00",
    "dec < 10.5",
    "id + 1 > 50",
    "id = n",
    "n IS DISTINCT FROM 1",
    "id > 1.5",
    "NULL",
    "n = NULL",
    "id % 2 = 0 AND n > 0 AND f > 0",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_mean_what_sql_means(uri: str, condition: str) -> None:
    query = f"SELECT id FROM dataset WHERE {condition} ORDER BY id"
    found = collected(pennon.dataset(uri).sql(query))
    # Without a table below there is nothing to pass the condition to.
    context = datafusion.SessionContext()
    context.register_record_batches("dataset", [pennon.dataset(uri).to_table().to_batches()])
    batches = context.sql(query).collect()
    assert found.to_pylist() == (pa.Table.from_batches(batches).to_pylist() if batches else [])


def test_columns_and_filters_reach_the_scan(tmp_path: Path) -> None:
    count = 40_000
    data = pa.table({"id": range(count), "wide": [i.to_bytes(4, "big") * 25 for i in range(count)]})
    table = pennon.write_dataset(data, tmp_path / "t")
    before = table.counters()
    found = collected(table.sql("SELECT sum(id) s FROM dataset WHERE id >= 39990 AND id <> 39995"))
    spent = [new - old for new, old in zip(table.counters(), before, strict=True)]
    assert found.to_pylist() == [{"s": sum(range(39_990, 40_000)) - 39_995}]
    used = pennon.stats.Counters(*spent)
    assert 0 < used.rows_decoded <= 8192, "statistics are used"
    assert used.read_bytes < count * 8, "the wide column is not read"
    plan = collected(table.sql("EXPLAIN SELECT id FROM dataset WHERE id > 5"))["plan"].to_pylist()
    assert any("DatasetExec" in line and "FilterExec" not in line for line in plan)
    analyzed = collected(table.sql("EXPLAIN ANALYZE SELECT id FROM dataset WHERE id > 5"))["plan"].to_pylist()
    assert "metrics=[" in analyzed[0]


def test_names(uri: str) -> None:
    for name, query in (
        ("foo", "SELECT id FROM foo"),
        ("Foo", "SELECT id FROM Foo"),
        ("a b", 'SELECT id FROM "a b"'),
    ):
        ours, theirs = (collected(m.dataset(uri).sql(query).table_name(name)) for m in (pennon, lance))
        assert ours.sort_by("id").equals(theirs.sort_by("id"))
    for module in (pennon, lance):
        with pytest.raises(ValueError, match="No field named _rowid"):
            collected(module.dataset(uri).sql("SELECT _rowid FROM dataset").with_row_id(False))


WITH_ROW_COLUMNS = [
    "SELECT id FROM dataset ORDER BY id",
    "SELECT id AS x, n FROM dataset ORDER BY id",
    "SELECT id + 1, s FROM dataset ORDER BY id",
    "SELECT 1 FROM dataset ORDER BY id",
    "SELECT upper(s) AS u, CASE n WHEN 1 THEN 'x, y' ELSE 'FROM' END FROM dataset ORDER BY id",
    "SELECT id FROM dataset ORDER BY n, id DESC LIMIT 7 OFFSET 2",
    "SELECT id FROM dataset WHERE n = 1 AND _rowid > 40 ORDER BY 1",
    "SELECT id FROM dataset ORDER BY _rowid DESC",
    "SELECT d.id FROM dataset d WHERE d.id IN (SELECT n FROM dataset) ORDER BY id",
    "SELECT id, (SELECT max(n) FROM dataset) AS m FROM dataset ORDER BY id",
    "WITH w AS (SELECT 1 AS k) SELECT id FROM dataset WHERE id IN (SELECT k FROM w)",
    "SELECT id FROM (SELECT * FROM dataset) ORDER BY id",
    "SELECT id FROM (SELECT id, _rowid, _rowaddr FROM dataset) AS q ORDER BY id",
    # What looks like the end of the list, or is a form of its own.
    "SELECT id, /* c, FROM */ n -- FROM\nFROM dataset ORDER BY id",
    "SELECT 'it''s FROM' AS t, id \"a, FROM\" FROM dataset ORDER BY id",
    "SELECT $$FROM$$ AS x, E'a\\'FROM' AS y, id FROM dataset ORDER BY id",
    "SELECT id IS NOT DISTINCT FROM n AS same FROM dataset ORDER BY id",
    "SELECT length(substring(s FROM 1 FOR 1)), array_length([id, n]), p['x'], id * n FROM dataset ORDER BY id",
    "SELECT ALL id, FROM dataset ORDER BY id",
    "select\nid\nfrom\ndataset\nwhere\nid > 40\norder by id;",
    # What the query selects itself.
    "SELECT * FROM dataset WHERE id > 40 ORDER BY id",
    "SELECT d.*, n + 1 AS e FROM dataset d ORDER BY id",
    "SELECT * EXCEPT (_rowid) FROM dataset ORDER BY id",
    "SELECT id, _rowid, _rowaddr FROM dataset WHERE _rowid > 40 ORDER BY id",
    "SELECT _RowAddr FROM dataset ORDER BY id",
    'SELECT q."_rowid", id FROM dataset q ORDER BY id',
    "SELECT _rowid AS r, _rowaddr + 1 AS a FROM dataset ORDER BY id",
]
WITHOUT_ROW_COLUMNS = [
    "SELECT max(_rowaddr) FROM dataset",
    "SELECT n, count(*) FROM dataset GROUP BY n ORDER BY n",
    "SELECT n FROM dataset GROUP BY ALL ORDER BY n",
    "SELECT DISTINCT n FROM dataset ORDER BY n",
    "SELECT DISTINCT ON (n) id FROM dataset ORDER BY n, id",
    "SELECT id, row_number() OVER (ORDER BY id) FROM dataset ORDER BY id",
    "SELECT id FROM dataset QUALIFY row_number() OVER (PARTITION BY n ORDER BY id) = 1 ORDER BY id",
    "SELECT x.id FROM dataset x JOIN dataset y ON x.id = y.n ORDER BY x.id",
    "SELECT x.id FROM dataset x LEFT SEMI JOIN (SELECT n AS k FROM dataset) ON x.id = k ORDER BY x.id",
    "SELECT id FROM dataset UNION ALL SELECT n FROM dataset ORDER BY id",
    "SELECT id FROM dataset EXCEPT SELECT n FROM dataset ORDER BY id",
    "SELECT unnest([id, n]) AS u FROM dataset ORDER BY u",
    "SELECT id FROM (SELECT id, n FROM dataset) ORDER BY id",
    "SELECT k FROM (SELECT DISTINCT id % 2 AS k FROM dataset) ORDER BY k",
    "WITH w AS (SELECT id FROM dataset) SELECT id FROM w ORDER BY id",
    "(SELECT id FROM dataset ORDER BY id)",
    "SELECT 1",
    "SELECT (SELECT max(id) FROM dataset) AS m",
    "SELECT value FROM generate_series(1, 3) ORDER BY value",
    # Something else has the name.
    "SELECT id AS _rowid, id AS _rowaddr FROM dataset ORDER BY id",
    "SELECT x FROM (SELECT id AS x, n AS _rowid, n AS _rowaddr FROM dataset) ORDER BY x",
    "SELECT x FROM (SELECT id AS x, _rowid AS _rowaddr, _rowaddr AS _rowid FROM dataset) ORDER BY x",
]


@spread(of=1, times=2)
@pytest.mark.parametrize("query", [*WITH_ROW_COLUMNS, *WITHOUT_ROW_COLUMNS])
@pytest.mark.parametrize("asked", [(True, False), (False, True), (True, True)])
def test_row_ids_and_addresses(uri: str, query: str, asked: tuple[bool, bool]) -> None:
    def run(module: Any) -> pa.Table | str:
        try:
            return collected(module.dataset(uri).sql(query).with_row_id(asked[0]).with_row_addr(asked[1]))
        except ValueError as error:
            return str(error)

    ours, theirs = run(pennon), run(lance)
    if isinstance(ours, str) or isinstance(theirs, str):
        assert asked != (True, True), "each column is known"
        for message in (ours, theirs):
            assert re.search(r"No field named (q\.)?_row", str(message))
        return
    assert ours.schema.equals(theirs.schema)
    assert repr(ours.to_pylist()) == repr(theirs.to_pylist())
    if asked == (True, True):
        has_some = any(name in ours.schema.names for name in ("_rowid", "_rowaddr"))
        assert has_some == (query in WITH_ROW_COLUMNS or query == WITHOUT_ROW_COLUMNS[-3])
    streamed = pennon.dataset(uri).sql(query).with_row_id(asked[0]).with_row_addr(asked[1]).build()
    assert streamed.to_stream_reader().schema.names == ours.schema.names


def test_a_query_that_begins_with_from_is_not_changed(uri: str) -> None:
    found = collected(pennon.dataset(uri).sql("FROM dataset SELECT id").with_row_id())
    assert found.schema.names == ["id"]


def test_batches(uri: str) -> None:
    for module in (pennon, lance):
        batches = module.dataset(uri).sql("SELECT id FROM dataset").batch_size(5).build().to_batch_records()
        assert max(batch.num_rows for batch in batches) <= 5
        assert sorted(i for batch in batches for i in batch["id"].to_pylist()) == [
            i for i in range(60) if i % 11 != 3
        ]
        with pytest.raises(ValueError, match="batch_size must be between 1 and 4294967295, got 0"):
            module.dataset(uri).sql("SELECT id FROM dataset").batch_size(0).build().to_batch_records()
    small = pennon.dataset(uri).sql("SELECT id FROM dataset").batch_size_bytes(64).build()
    assert len(small.to_batch_records()) > 1


@pytest.mark.parametrize("name", ["SqlQuery", "SqlQueryBuilder"])
def test_the_same_names(name: str) -> None:
    ours, theirs = (getattr(sys.modules[f"{module}.dataset"], name) for module in ("pennon", "lance"))
    for member in vars(theirs).keys() - {"__init__", "__module__", "__doc__", "__dict__", "__weakref__"}:
        found, expected = (list(inspect.signature(getattr(cls, member)).parameters) for cls in (ours, theirs))
        assert found == expected


def test_a_query_keeps_its_version(tmp_path: Path) -> None:
    table = pennon.write_dataset({"a": [1, 2, 3]}, tmp_path / "t")
    query = table.sql("SELECT count(*) c FROM dataset").build()
    table.delete("a = 1")
    for _ in range(2):
        assert query.to_batch_records()[0].to_pylist() == [{"c": 3}]
    assert collected(table.sql("SELECT count(*) c FROM dataset")).to_pylist() == [{"c": 2}]
    assert repr(query).startswith("SqlQuery('SELECT count(*) c FROM dataset', dataset=")


def test_blobs(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2], "blob": pennon.blob_array([b"one", b"two"])}).cast(
        pa.schema([pa.field("id", pa.int64()), pennon.blob_field("blob")])
    )
    table = pennon.write_dataset(data, tmp_path / "t", data_storage_version="2.2")
    query = "SELECT blob FROM dataset WHERE id = 2"
    assert collected(table.sql(query).blob_handling("all_binary")).to_pylist() == [{"blob": b"two"}]
    (described,) = collected(table.sql(query)).to_pylist()
    assert described["blob"]["size"] == 3
    with pytest.raises(ValueError, match="blob_handling"):
        collected(table.sql(query).blob_handling("zz"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("selec", "Expected: an SQL statement"),
        ("", "No SQL statements were provided"),
        ("SELECT nope FROM dataset", "No field named nope"),
        ("SELECT id FROM other", "'datafusion.public.other' not found"),
        ("SELECT id", "No field named id"),
        ("SELECT id FROM dataset; SELECT 1", "only supports a single SQL statement"),
        ("DELETE FROM dataset", "not supported"),
        ("SELECT 1 / 0 FROM dataset", "Divide by zero"),
    ],
)
def test_bad_queries(uri: str, query: str, message: str) -> None:
    for module in (pennon, lance):
        with pytest.raises((ValueError, OSError), match=f"(?i){message}"):
            module.dataset(uri).sql(query).build().to_batch_records()
    with pytest.raises(pennon.InvalidInputError, match=f"(?i){message}"):
        pennon.dataset(uri).sql(query).build().to_stream_reader().read_all()


def test_only_queries(uri: str, tmp_path: Path) -> None:
    for query in (
        "CREATE TABLE x AS SELECT 1",
        f"COPY dataset TO '{tmp_path}/x.csv'",
        "INSERT INTO dataset SELECT * FROM dataset",
        "SET datafusion.execution.batch_size = 1",
        f"CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{tmp_path}'",
    ):
        with pytest.raises(pennon.InvalidInputError, match="not supported"):
            collected(pennon.dataset(uri).sql(query))
    assert not list(tmp_path.iterdir())


def test_errors_of_the_scan_are_its_own(uri: str, tmp_path: Path) -> None:
    table = pennon.write_dataset({"a": [1, 2, 3]}, tmp_path / "t")
    query = table.sql("SELECT sum(a) FROM dataset").build()
    for file in (tmp_path / "t" / "data").iterdir():
        file.unlink()
    with pytest.raises(pennon.CorruptError, match="data file"):
        query.to_batch_records()
    with pytest.raises(pennon.CorruptError, match="data file"):
        query.to_stream_reader().read_all()
    with pytest.raises(TypeError, match="A query is a text, not int"):
        table.sql(3)  # type: ignore[arg-type]


def test_without_datafusion(uri: str) -> None:
    program = f"""
import sys
sys.modules["datafusion"] = None
import pennon
try:
    pennon.dataset({uri!r}).sql("SELECT 1").build().to_batch_records()
except pennon.MissingPackageError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install datafusion" in found.stdout


DOCUMENTS = [
    '{"user": {"name": "ann", "age": 31}, "tags": ["a", "b"], "n": 1.5, "ok": true}',
    '{"user": {"name": "bob", "age": "7"}, "tags": [], "n": "2", "ok": "false"}',
    None,
    '{"user": null, "items": [{"k": 1}, {"k": 2}]}',
    "[1, 2]",
]
JSON_QUERIES = [
    "SELECT id, json_extract(doc, '$.user.name') AS v FROM dataset ORDER BY id",
    "SELECT id, json_extract(doc, '$.items[*].k') AS v FROM dataset ORDER BY id",
    "SELECT id, json_exists(doc, '$.user.age') AS v FROM dataset ORDER BY id",
    "SELECT id, json_array_length(doc, '$.tags') AS v FROM dataset ORDER BY id",
    "SELECT id, json_array_contains(doc, '$.tags', 'b') AS v FROM dataset ORDER BY id",
    "SELECT id, json_get_float(doc, 'n') AS f, json_get_bool(doc, 'ok') AS b FROM dataset ORDER BY id",
    "SELECT id FROM dataset WHERE json_get_string(json_get(doc, 'user'), 'name') = 'bob'",
    "SELECT id FROM dataset WHERE json_get(doc, 'user') IS NOT NULL ORDER BY id",
    "SELECT sum(json_get_int(json_get(doc, 'user'), 'age')) AS v FROM dataset WHERE id < 2",
    "SELECT json_exists(doc, '$.tags') AS t, count(*) AS c FROM dataset GROUP BY 1 ORDER BY 1",
]


@pytest.mark.parametrize("query", JSON_QUERIES)
def test_functions_over_json(tmp_path: Path, query: str) -> None:
    data = pa.table({"id": range(len(DOCUMENTS)), "doc": pa.array(DOCUMENTS, pa.json_())})
    uri = str(tmp_path / "t")
    pennon.write_dataset(data, uri, max_rows_per_file=2)
    ours, theirs = (collected(module.dataset(uri).sql(query)) for module in (pennon, lance))
    assert ours.schema.equals(theirs.schema)
    assert ours.num_rows > 0
    assert ours.to_pylist() == theirs.to_pylist()


def test_members_of_json_are_text(tmp_path: Path) -> None:
    table = pennon.write_dataset(pa.table({"doc": pa.array(DOCUMENTS, pa.json_())}), tmp_path / "t")
    found = collected(table.sql("SELECT json_get(doc, 'user') AS v, json_get(doc, '1') AS second FROM dataset"))
    assert found["v"].to_pylist() == ['{"age":31,"name":"ann"}', '{"age":"7","name":"bob"}', None, "null", None]
    assert found["second"].to_pylist() == [None, None, None, None, "2"]
    with pytest.raises(pennon.InvalidInputError, match="json_get_int: found an object"):
        collected(table.sql("SELECT json_get_int(doc, 'user') FROM dataset"))
    with pytest.raises(pennon.InvalidInputError, match="not a valid JSONPath"):
        collected(table.sql("SELECT json_extract(doc, 'user[') FROM dataset"))
