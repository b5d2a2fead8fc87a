"""Tables on S3, and tables whose versions are in DynamoDB or SQLite: next to the reference, and interrupted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pennon
import pyarrow as pa
import pytest
from pennon.blob import blob_array, blob_field
from support.object_stores import (
    BUCKET,
    KEYS,
    MANIFESTS,
    Cloud,
    DynamoTable,
    SqliteTable,
    Table,
    stop_after,
)
from support.spread import spread

pytestmark = pytest.mark.slow


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def values(table: Any) -> list[int]:
    return sorted(table.to_table()["a"].to_pylist())


def both(uri: str, options: dict[str, str]) -> list[int]:
    """What is in the table, if both implementations say the same of it."""
    theirs = lance.dataset(uri, storage_options=options)
    ours = pennon.dataset(uri, storage_options=options)
    theirs.validate()
    ours.validate()
    assert ours.version == theirs.version
    assert values(ours) == values(theirs)
    ids = [t.to_table(with_row_id=True)["_rowid"].to_pylist() for t in (ours, theirs)]
    assert ids[0] == ids[1]
    return values(ours)


@pytest.fixture(params=["s3", "s3+ddb"])
def place(request: pytest.FixtureRequest, cloud: Cloud) -> tuple[str, dict[str, str]]:
    table = DynamoTable(cloud)
    uri = table.uri if request.param == "s3+ddb" else f"s3://{BUCKET}/{table.path}"
    return uri, cloud.storage_options


def test_both_write_in_turns(place: tuple[str, dict[str, str]]) -> None:
    uri, options = place
    table = pennon.write_dataset(rows(1, 2, 3), uri, storage_options=options)
    lance.write_dataset(rows(4), uri, mode="append", storage_options=options)
    table.checkout_latest()
    table.delete("a = 2")
    lance.dataset(uri, storage_options=options).delete("a = 4")
    table = pennon.write_dataset(rows(5), uri, mode="append", storage_options=options)
    assert both(uri, options) == [1, 3, 5]
    assert [version["version"] for version in table.versions()] == [1, 2, 3, 4, 5]
    assert values(pennon.dataset(uri, version=2, storage_options=options)) == [1, 2, 3, 4]
    table.tags.create("two", 2)
    assert values(lance.dataset(uri, version="two", storage_options=options)) == [1, 2, 3, 4]


def test_neither_overwrites_the_other(place: tuple[str, dict[str, str]]) -> None:
    uri, options = place
    lance.write_dataset(rows(-1), uri, storage_options=options, enable_stable_row_ids=True)

    def write(writer: int) -> None:
        module: Any = pennon if writer % 2 else lance
        for number in range(5):
            module.write_dataset(rows(writer * 10 + number), uri, mode="append", storage_options=options)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert both(uri, options) == [-1, *(w * 10 + n for w in range(4) for n in range(5))]
    assert pennon.dataset(uri, storage_options=options).version == 21


def test_a_dropped_table_is_forgotten(place: tuple[str, dict[str, str]]) -> None:
    uri, options = place
    for content in ([1, 2], [3]):
        pennon.write_dataset(rows(*content), uri, storage_options=options)
        assert both(uri, options) == content
        pennon.LanceDataset.drop(uri, storage_options=options)
        with pytest.raises(pennon.NotFoundError):
            pennon.dataset(uri, storage_options=options)


@pytest.fixture(params=["dynamodb", "sqlite"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    if request.param == "sqlite":
        return SqliteTable(tmp_path)
    return DynamoTable(request.getfixturevalue("cloud"))


def test_entries_are_the_references(table: Table) -> None:
    pennon.write_dataset(rows(1), table.uri, storage_options=table.storage_options)
    pennon.write_dataset(rows(2), table.uri, mode="append", storage_options=table.storage_options)
    names = {1: "18446744073709551614", 2: "18446744073709551613"}
    expected = {version: f"{table.path}/_versions/{name}.manifest" for version, name in names.items()}
    assert table.entries() == expected
    assert table.files() == sorted(expected.values())
    if isinstance(table, DynamoTable):
        lance.write_dataset(rows(3), table.uri, mode="append", storage_options=table.storage_options)
        items = table.cloud.dynamodb.scan(TableName=MANIFESTS)["Items"]
        own = sorted((i for i in items if i["base_uri"]["S"] == table.path), key=lambda i: int(i["version"]["N"]))
        theirs, ours = own[2], own[1]
        assert {k: set(v) for k, v in ours.items()} == {k: set(v) for k, v in theirs.items()}
        assert ours["size"]["N"] == str(table.cloud.s3.head_object(Bucket=BUCKET, Key=expected[2])["ContentLength"])


def test_cleanup_forgets_what_it_removes(table: Table) -> None:
    for value in range(4):
        pennon.write_dataset(rows(value), table.uri, mode="append", storage_options=table.storage_options)
    opened = pennon.dataset(table.uri, storage_options=table.storage_options)
    assert opened.cleanup_old_versions(retain_versions=2).old_versions == 2
    assert sorted(table.entries()) == [3, 4]
    assert len(table.files()) == 2
    with pytest.raises(pennon.NotFoundError):
        pennon.dataset(table.uri, version=1, storage_options=table.storage_options)
    assert values(pennon.dataset(table.uri, version=3, storage_options=table.storage_options)) == [0, 1, 2]


@spread()
@pytest.mark.parametrize("read", ["open", "version", "append", "list"])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_writer_stops_between_the_steps(table: Table, step: int, read: str) -> None:
    options = table.storage_options
    pennon.write_dataset(rows(1), table.uri, storage_options=options)
    pennon.write_dataset(rows(2), table.uri, mode="append", storage_options=options)
    stop_after(table, 2, step)
    committed = [1] if step == 1 else [1, 2]
    if read == "version" and step > 1:
        assert values(pennon.dataset(table.uri, version=2, storage_options=options)) == committed
    if read == "list":
        listed = pennon.dataset(table.uri, version=1, storage_options=options).versions()
        assert [version["version"] for version in listed] == committed
    if read == "append":
        pennon.write_dataset(rows(3), table.uri, mode="append", storage_options=options)
        committed.append(3)
    opened = pennon.dataset(table.uri, storage_options=options)
    opened.validate()
    assert values(opened) == committed
    if isinstance(table, DynamoTable):
        assert both(table.uri, options) == committed
    # What was committed has its final name; what was staged in vain stays for the cleanup.
    assert [path.endswith(".manifest") for path in table.entries().values()] == [True] * len(committed)
    assert len(table.files()) == len(committed) + (step in (1, 4))


def test_the_reference_completes_what_we_began(cloud: Cloud) -> None:
    table = DynamoTable(cloud)
    for step in (2, 3):
        before = len(table.entries()) if step == 3 else 0
        pennon.write_dataset(rows(step), table.uri, mode="append", storage_options=table.storage_options)
        stop_after(table, before + 1, step)
        assert step in values(lance.dataset(table.uri, storage_options=table.storage_options))
        assert both(table.uri, table.storage_options) == list(range(2, step + 1))


@pytest.mark.parametrize("filter", [None, "a > 1"])
def test_a_version_that_is_removed_while_it_is_read(cloud: Cloud, filter: str | None) -> None:
    uri, options = f"s3://{BUCKET}/removed/{filter is None}", cloud.storage_options
    table = pennon.write_dataset(rows(1, 2, 3), uri, storage_options=options)
    table.delete("a = 1")
    old = pennon.dataset(uri, storage_options=options, session=pennon.Session())
    table.insert(rows(4), mode="overwrite")
    table.cleanup_old_versions(timedelta(0))
    with pytest.raises(pennon.NotFoundError, match=r"Version 2 was cleaned up .* a file of it is gone"):
        old.to_table(filter=filter)


@pytest.mark.parametrize("fragments", [1, 3, 20])
def test_columns_of_nearest_rows(cloud: Cloud, fragments: int) -> None:
    """They may be read with the vectors that are compared again, before it is known whose they are."""
    vectors = np.random.default_rng(1).normal(size=(900, 8)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8)
    data = pa.table({"a": range(900), "text": [f"row {n}" for n in range(900)], "v": column})
    uri, options = f"s3://{BUCKET}/nearest/{fragments}", cloud.storage_options
    made = pennon.write_dataset(data, uri, storage_options=options, max_rows_per_file=900 // fragments)
    made.create_index("v", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    made.delete("a = 5")
    made = pennon.dataset(uri, storage_options=options)

    def check(table: pennon.LanceDataset, among: np.ndarray, **asked: Any) -> None:
        query = vectors[77] + np.float32(0.1)
        distances = {n: float(((vectors[n % 900] - query) ** 2).sum()) for n in among.tolist()}
        expected = sorted(distances, key=lambda n: (distances[n], n))[2:7]
        nearest = {"column": "v", "q": query, "k": 7, "nprobes": 4, "refine_factor": 20}
        found = table.to_table(nearest=nearest, offset=2, limit=5, **asked)
        assert found["a"].to_pylist() == expected
        assert found["_distance"].to_pylist() == pytest.approx([distances[n] for n in expected], rel=1e-4)
        for name in set(found.schema.names) & {"text", "double"}:
            assert found[name].to_pylist() == [f"row {n}" if name == "text" else 2 * n for n in expected]

    def fresh() -> pennon.LanceDataset:
        return pennon.dataset(uri, storage_options=options, session=pennon.Session())

    rows = np.array([n for n in range(900) if n != 5])
    for table in (made, fresh(), made):
        check(table, rows)
        check(table, rows, columns=["a", "text"], with_row_id=True)
        check(table, rows, columns={"a": "a", "double": "2 * a", "near": "_distance < 1"})
        check(table, rows[rows > 300], columns=["a"], filter="a > 300", prefilter=True)
    # Some of the nearest rows are not in the index.
    more = data.slice(60, 40).set_column(0, "a", pa.array(range(960, 1000)))
    made.insert(more.set_column(1, "text", pa.array([f"row {n}" for n in range(960, 1000)])))
    check(fresh(), np.concatenate([rows, np.arange(960, 1000)]), columns=["text", "a"])


def test_few_rows_of_a_local_clone(cloud: Cloud, tmp_path: Path) -> None:
    """Its files are in the bucket, so that no thread which drives others may wait for them."""
    vectors = np.random.default_rng(1).normal(size=(900, 8)).astype(np.float32)
    data = pa.table({"a": range(900), "v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8)})
    uri, options = f"s3://{BUCKET}/clones/source", cloud.storage_options
    source = pennon.write_dataset(data, uri, storage_options=options, max_rows_per_file=400)
    source.create_scalar_index("a", "BTREE")
    source.create_index("v", "IVF_FLAT", num_partitions=2)
    clone = source.shallow_clone(str(tmp_path / "clone"), source.version, storage_options=options)
    for table in (clone, pennon.dataset(clone.uri, storage_options=options, session=pennon.Session())):
        for use_index in (True, False):
            nearest = {"column": "v", "q": vectors[77], "k": 5, "nprobes": 2, "use_index": use_index}
            found = table.to_table(columns=["a"], nearest=nearest)
            distances = ((vectors - vectors[77]) ** 2).sum(axis=1)
            assert found["a"].to_pylist() == np.argsort(distances)[:5].tolist()
        assert table.to_table(filter="a in (3, 500, 899)")["a"].to_pylist() == [3, 500, 899]
        assert table.take([1, 899, 401])["a"].to_pylist() == [1, 899, 401]


def test_remote_blobs_of_few_local_rows(cloud: Cloud, tmp_path: Path) -> None:
    """Blobs may be anywhere, whatever the table is."""
    cloud.s3.put_object(Bucket=BUCKET, Key="films/one", Body=b"external bytes")
    vectors = np.random.default_rng(2).normal(size=(60, 4)).astype(np.float32)
    blobs = blob_array([pennon.Blob.from_uri(f"s3://{BUCKET}/films/one", 0, 8)] * 60)
    data = pa.table(
        {"a": range(60), "v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 4), "b": blobs},
        schema=pa.schema([pa.field("a", pa.int64()), pa.field("v", pa.list_(pa.float32(), 4)), blob_field("b")]),
    )
    table = pennon.write_dataset(
        data,
        str(tmp_path / "table"),
        storage_options=cloud.storage_options,
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )
    table.create_scalar_index("a", "BTREE")
    for _ in range(2):
        found = table.to_table(filter="a in (7, 9)", blob_handling="all_binary")
        assert found["b"].to_pylist() == [b"external"] * 2
        nearest = {"column": "v", "q": vectors[5], "k": 3}
        found = table.to_table(columns=["a", "b"], nearest=nearest, blob_handling="all_binary")
        assert found["a"][0].as_py() == 5
        assert found["b"].to_pylist() == [b"external"] * 3


@pytest.mark.parametrize("form", ["file+sqlite://{root}", "file+sqlite://{root}?db={parent}/versions.sqlite"])
def test_many_writers_through_sqlite(tmp_path: Path, form: str) -> None:
    uri = form.format(root=tmp_path / "table", parent=tmp_path)
    pennon.write_dataset(rows(-1), uri)

    def write(writer: int) -> None:
        for number in range(5):
            pennon.write_dataset(rows(writer * 10 + number), uri, mode="append")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert values(pennon.dataset(uri)) == [-1, *(w * 10 + n for w in range(4) for n in range(5))]
    # Every manifest has its final name, so whoever ignores the manifest store can read.
    assert values(lance.dataset(str(tmp_path / "table"))) == values(pennon.dataset(uri))


def test_a_table_moves_into_the_care_of_sqlite(tmp_path: Path) -> None:
    pennon.write_dataset(rows(1), tmp_path / "table")
    uri = f"file+sqlite://{tmp_path}/table"
    with pytest.raises(pennon.StoreError, match=r"_manifests\.sqlite: the manifest store of the table is missing"):
        pennon.write_dataset(rows(2), uri, mode="append")
    assert pennon.dataset(tmp_path / "table").version == 1
    (tmp_path / "table/_manifests.sqlite").touch()
    pennon.write_dataset(rows(2), uri, mode="append")
    assert values(pennon.dataset(uri)) == [1, 2]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"not a database" * 100)])
def test_a_lost_sqlite_file_is_an_error(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    table = SqliteTable(tmp_path)
    opened = pennon.write_dataset(rows(1), table.uri)
    damage(table.database)
    for attempt in (lambda: pennon.dataset(table.uri), lambda: opened.insert(rows(2))):
        with pytest.raises((pennon.StoreError, pennon.CorruptError), match="manifest store"):
            attempt()
    assert pennon.dataset(table.root).version == 1


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("s3+ddb://{bucket}/x", pennon.InvalidInputError, "'ddbTableName' is missing"),
        ("s3+ddb://{bucket}/x?ddbTableName=", pennon.InvalidInputError, "'ddbTableName' is missing"),
        ("s3+ddb://{bucket}/x?ddbTableName=a&b=c", pennon.InvalidInputError, "found the parameter 'b'"),
        ("s3+ddb://{bucket}/x?ddbTableName=nowhere", pennon.StoreError, "nowhere.*ResourceNotFound"),
        ("s3+ddb://{bucket}/x?ddbTableName=wrong", pennon.InvalidInputError, "found hash key .*'id'"),
        ("file+sqlite:///x?name=y", pennon.InvalidInputError, "found the parameter 'name'"),
    ],
)
def test_wrong_addresses(cloud: Cloud, address: str, error: type[Exception], message: str) -> None:
    if "wrong" in address:
        cloud.create_table("wrong", [("id", "HASH", "S"), KEYS[1]])
    with pytest.raises(error, match=message.replace("'", '"')):
        pennon.write_dataset(rows(1), address.format(bucket=BUCKET), storage_options=cloud.storage_options)
