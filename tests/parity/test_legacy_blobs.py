"""Legacy blobs (`lance-encoding:blob`, file versions 2.0 and 2.1), read and carried as by the reference."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.file import LanceFileReader

LIBRARIES: dict[str, Any] = {"lance": lance, "pennon": pennon}
VALUES = [b"abc", None, b"", b"x" * 100, b"yy"]
MARK = {"lance-encoding:blob": "true"}
DESCRIPTION = pa.struct({"position": pa.uint64(), "size": pa.uint64()})

VERSIONS = pytest.mark.parametrize("version", ["2.0", "2.1"])
WRITERS = pytest.mark.parametrize("writer", LIBRARIES)


def blob(name: str, nullable: bool = True, **marks: str) -> pa.Field:
    return pa.field(name, pa.large_binary(), nullable, metadata={**MARK, **marks})


def rows(version: str, start: int = 0) -> pa.Table:
    members = pa.struct([blob("b"), pa.field("x", pa.int32())])
    structs: list[Any] = [{"b": value, "x": x} for x, value in enumerate(VALUES)]
    if version != "2.0":
        structs[3] = None
    fields = [("id", pa.int64()), blob("b"), pa.field("s", members), blob("never_null", nullable=False)]
    columns = [
        pa.array(range(start, start + 5)),
        pa.array(VALUES, pa.large_binary()),
        pa.array(structs, members),
        pa.array([value or b"" for value in reversed(VALUES)], pa.large_binary()),
    ]
    return pa.table(columns, schema=pa.schema(fields, metadata={"of": "the table"}))


def create(uri: str, version: str, writer: str, *, stable: bool = False) -> None:
    options = {"data_storage_version": version, "enable_stable_row_ids": stable}
    LIBRARIES[writer].write_dataset(rows(version), uri, **options)
    LIBRARIES[writer].write_dataset(rows(version, 5), uri, mode="append", data_storage_version=version)
    LIBRARIES[writer].dataset(uri).delete("id = 7")


def plain(value: Any) -> Any:
    """A value of the reference with its nulls of file version 2.0 as nulls."""
    if value == {"position": 1, "size": 0}:
        return None
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def equal(ours: pa.Table, theirs: pa.Table) -> None:
    assert ours.schema.remove_metadata().equals(theirs.schema.remove_metadata(), check_metadata=True)
    assert ours.to_pylist() == plain(theirs.to_pylist())
    ours.validate(full=True)


READS: dict[str, Callable[[Any], pa.Table]] = {
    "table": lambda table: table.to_table(),
    "batches": lambda table: pa.Table.from_batches(list(table.to_batches(columns=["b", "id"], batch_size=2))),
    "take": lambda table: table.take([4, 0, 1, 1, 6]),
    "take some": lambda table: table.take([2, 0], columns=["s"]),
    "take by SQL": lambda table: table.take([3, 1], columns={"q": "b", "i": "id"}),
    "take rows": lambda table: table._take_rows([1, 0]),
    "head": lambda table: table.head(3),
    "a member": lambda table: table.to_table(columns=["s.b"]),
    "renamed": lambda table: table.to_table(columns={"q": "b", "r": "s.b", "n": "id + 1"}),
    "is null": lambda table: table.to_table(columns={"id": "id", "q": "s is null"}),
    "never null": lambda table: table.to_table(columns=["never_null"], filter="never_null is null"),
    "descriptions": lambda table: table.to_table(columns=["b", "s"], blob_handling="blobs_descriptions"),
    "all descriptions": lambda table: table.to_table(columns=["b", "s"], blob_handling="all_descriptions"),
    "bytes": lambda table: table.to_table(columns=["b", "s", "never_null"], blob_handling="all_binary"),
    "renamed bytes": lambda table: table.to_table(columns={"q": "b"}, blob_handling="all_binary"),
    "some rows": lambda table: table.to_table(columns=["b"], filter="id in (1, 3, 8)"),
    "limit": lambda table: table.to_table(columns=["b"], limit=3, offset=2),
    "row ids": lambda table: table.to_table(columns=["b"], with_row_id=True, with_row_address=True),
    "deleted rows": lambda table: table.to_table(columns=["b"], with_row_id=True, include_deleted_rows=True),
    "order": lambda table: table.to_table(columns=["b", "id"], order_by=["id"]),
    "ordered bytes": lambda table: table.to_table(
        columns={"id": "id", "q": "b"}, order_by=["id"], limit=4, blob_handling="all_binary"
    ),
    "a fragment": lambda table: table.get_fragments()[1].to_table(columns=["b", "s"]),
    "bytes of a fragment": lambda table: table.get_fragments()[1].to_table(blob_handling="all_binary"),
    "head of a fragment": lambda table: table.get_fragments()[0].head(2),
    "take of a fragment": lambda table: table.get_fragments()[0].take([0, 3], columns=["b", "id"]),
    "session of a fragment": lambda table: pa.Table.from_batches(
        table.get_fragments()[0].open_session(["s"]).take([0, 3]).to_batches()
    ),
    "batches of a fragment": lambda table: pa.Table.from_batches(
        list(table.get_fragments()[0].scanner(columns=["never_null"]).to_batches())
    ),
    "SQL": lambda table: pa.Table.from_batches(
        table.sql("SELECT b, id FROM dataset WHERE id < 3").build().to_batch_records()
    ),
}


@pytest.fixture(scope="module", params=product(["2.0", "2.1"], LIBRARIES, [False, True]), ids=str)
def table_uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    version, writer, stable = request.param
    uri = str(tmp_path_factory.mktemp("legacy") / "t")
    create(uri, version, writer, stable=stable)
    return uri


@pytest.mark.parametrize("name", READS)
def test_reads(table_uri: str, name: str) -> None:
    equal(READS[name](pennon.dataset(table_uri)), READS[name](lance.dataset(table_uri)))


def test_schemas(table_uri: str) -> None:
    reference, ours = lance.dataset(table_uri), pennon.dataset(table_uri)
    for scan in (reference.scanner(columns=["s", "b"]), ours.scanner(columns=["s", "b"])):
        assert scan.projected_schema.types == [pa.struct({"b": DESCRIPTION, "x": pa.int32()}), DESCRIPTION]
        assert scan.dataset_schema.field("b").type == pa.large_binary()
    assert ours.sample(3).schema == reference.sample(3).schema
    path = f"{table_uri}/data/{ours.get_fragments()[0].data_files()[0].path}"
    assert pennon.file.LanceFileReader(path).read_all().to_table() == LanceFileReader(path).read_all().to_table()


@WRITERS
@VERSIONS
def test_descriptions_say_where_the_bytes_are(tmp_path: Path, version: str, writer: str) -> None:
    uri = str(tmp_path / "t")
    create(uri, version, writer)
    for fragment in pennon.dataset(uri).get_fragments():
        content = (tmp_path / "t" / "data" / fragment.data_files()[0].path).read_bytes()
        described, whole = fragment.to_table(), fragment.to_table(blob_handling="all_binary")
        for column in ("b", "never_null"):
            pairs = zip(described[column].to_pylist(), whole[column].to_pylist(), strict=True)
            for description, value in pairs:
                found = description and content[description["position"] :][: description["size"]]
                assert found == value


@WRITERS
@VERSIONS
def test_files(tmp_path: Path, version: str, writer: str) -> None:
    """`take_blobs` reads nothing before it is asked for; frames have such files."""
    uri = str(tmp_path / "t")
    create(uri, version, writer)
    for table in (pennon.dataset(uri), lance.dataset(uri)):
        for column in ("b", "s.b"):
            found = [file and file.readall() for file in table.take_blobs(column, indices=[0, 1, 2, 3, 4])]
            assert found == [None if column == "s.b" and version != "2.0" and at == 3 else v
                             for at, v in enumerate(VALUES)]  # fmt: skip
        assert [value for _, value in table.read_blobs("b", indices=[3, 0])] == [b"x" * 100, b"abc"]
        frame = table.to_pandas(columns={"q": "b"})
        assert [file and file.read() for file in frame["q"]][:5] == VALUES
        with pytest.raises(ValueError, match="not a blob column"):
            table.take_blobs("id", indices=[0])
    ours, addresses = pennon.dataset(uri), [3, 0]
    for taken in (
        ours.take_rows(addresses, blob_handling="all_binary"),
        ours.get_fragments()[0].take_offsets(addresses, blob_handling="all_binary"),
    ):
        assert taken["b"].to_pylist() == [b"x" * 100, b"abc"]
    assert ours.take_rows(addresses)["b"].type == ours.get_fragments()[0].take_offsets([0])["b"].type == DESCRIPTION
    file = pennon.dataset(uri).take_blobs("b", indices=[3])[0]
    assert file is not None
    assert (file.size(), file.read_range(98, 2)) == (100, b"xx")
    fragment = pennon.dataset(uri).get_fragments()[0]
    data = tmp_path / "t" / "data" / fragment.data_files()[0].path
    content = data.read_bytes()
    data.write_bytes(content.replace(b"x" * 100, b"z" * 100))
    assert file.read_range(98, 2) == b"zz"


FILTERS = {
    "b is null": [1, 6],
    "b is not null and id < 5": [0, 2, 3, 4],
    "s.b is null": [1, 6],
    "never_null is null": [],
    "b.size > 3": [3, 8],
    "b.size = 0": [2],
    "s.b.size = 2 and b.position > 0": [4, 9],
    "never_null.size = 100": [1, 6],
}


@WRITERS
@VERSIONS
def test_filters(tmp_path: Path, version: str, writer: str) -> None:
    """Nulls are null in both versions, and members of descriptions may be named: the reference does neither."""
    uri = str(tmp_path / "t")
    create(uri, version, writer)
    table = pennon.dataset(uri)
    for text, expected in FILTERS.items():
        wanted = sorted([*expected, 3, 8]) if text == "s.b is null" and version != "2.0" else expected
        assert table.to_table(columns=["id"], filter=text)["id"].to_pylist() == wanted, text
        assert table.count_rows(text) == len(wanted)
        assert sum(part.count_rows(text) for part in table.get_fragments()) == len(wanted)
    assert table.to_table(columns=["b.size"]).schema == pa.schema([("b.size", pa.uint64())])
    assert table.to_table(columns=["b.size", "s.b.position"], limit=3).column(0).to_pylist() == [3, None, 0]
    assert table.take([0, 3], columns=["b.size"])["b"].to_pylist() == [{"size": 3}, {"size": 100}]
    assert table.to_table(columns={"n": "b.size + 1"}, limit=2)["n"].to_pylist() == [4, None]
    assert table.to_table(columns=["id"], filter=pc.field("b").is_null())["id"].to_pylist() == [1, 6]
    asked = {"columns": ["id"], "filter": "b in (x'616263', x'7979')"}
    found = table.to_table(**asked, blob_handling="all_binary")["id"].to_pylist()
    assert found == [0, 4, 5, 9]
    for wrong in (lambda: table.to_table(**asked), lambda: table.delete("b = x'7979'")):
        with pytest.raises(pennon.InvalidInputError, match="b is a blob column, here a struct"):
            wrong()
    assert table.delete("b.size = 100")["num_deleted_rows"] == 2
    assert table.count_rows("b.size = 100") == 0


@VERSIONS
def test_bytes_are_carried(tmp_path: Path, version: str) -> None:
    """By all that writes, whatever reads give by default."""
    uri = str(tmp_path / "t")
    create(uri, version, "pennon", stable=True)
    table = pennon.dataset(uri)
    table.update({"id": "id + 100"}, where="b.size = 100")
    table.update({"b": "never_null"}, where="id = 4")
    source = pa.concat_tables([rows(version).slice(0, 1), rows(version, 20).slice(3, 1)])
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(source)
    assert {batch.schema.field("b").type for batch in table.changes(1)} == {pa.large_binary()}
    seen: list[pa.DataType] = []

    def length(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch.schema.field("b").type)
        return pa.record_batch([pc.binary_length(batch["b"])], ["length"])

    table.add_columns(length, read_columns=["b"])
    table.add_columns({"is_short": "b = x'616263'"})
    assert set(seen) == {pa.large_binary()}
    table.optimize.compact_files()
    table.alter_columns({"path": "b", "name": "c"})
    expected = {0: b"abc", 1: None, 2: b"", 103: b"x" * 100, 4: b"abc"}
    expected |= {5: b"abc", 6: None, 108: b"x" * 100, 9: b"yy", 23: b"x" * 100}
    found = table.to_table(blob_handling="all_binary")
    assert dict(zip(found["id"].to_pylist(), found["c"].to_pylist(), strict=True)) == expected
    lengths = [None if value is None else len(value) for value in found["c"].to_pylist()]
    assert found["length"].to_pylist() == lengths
    assert [length == 3 for length in lengths] == [bool(short) for short in found["is_short"].to_pylist()]
    assert lance.dataset(uri).scanner(blob_handling="all_binary").to_table() == found
    equal(table.to_table(), lance.dataset(uri).to_table())
    # As data, a table is its bytes; descriptions are true of their table only.
    copy = pennon.write_dataset(table, str(tmp_path / "copy"), data_storage_version=version)
    assert copy.to_table(blob_handling="all_binary") == found
    copy.insert(lance.dataset(uri))
    assert copy.count_rows() == 2 * len(expected)
    with pytest.raises(pennon.UnsupportedError, match=r"`c`: structs cannot be written as blobs.*all_binary"):
        pennon.write_dataset(table.to_table(), str(tmp_path / "descriptions"), data_storage_version=version)
    with pytest.raises(pennon.SchemaMismatchError, match="large_binary"):
        copy.insert(table.to_table())
    assert pennon.verify(uri, data=True).ok


def test_jobs(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    create(uri, "2.1", "pennon", stable=True)
    plan = pennon.jobs.plan_scan(uri, columns=["b"], tasks=2)
    batches = [batch for task in plan.tasks for batch in task.to_batches()]
    assert {batch.schema.field("b").type for batch in batches} == {DESCRIPTION}
    plan = pennon.jobs.plan_scan(uri, columns=["b"], blob_handling="all_binary")
    assert [value for task in plan.tasks for b in task.to_batches() for value in b["b"].to_pylist()][:5] == VALUES

    def doubled(batch: pa.RecordBatch) -> dict[str, Any]:
        return {"_rowaddr": batch["_rowaddr"], "b": pa.array([v and v * 2 for v in batch["b"].to_pylist()])}

    schema = pa.schema({"_rowaddr": pa.uint64(), "b": pa.large_binary()})
    pennon.jobs.run(pennon.jobs.plan_change_rows(uri, schema, columns=["b"], decide=doubled))
    found = pennon.dataset(uri).to_table(columns=["b"], blob_handling="all_binary")["b"].to_pylist()
    assert sorted(value for value in found if value) == sorted(v * 2 for v in [b"abc", b"x" * 100, b"yy"] * 2)


@VERSIONS
def test_columns_without_blobs(tmp_path: Path, version: str) -> None:
    """All null, all empty, without rows, added later; other keys and spellings."""
    for name, values in {"nulls": [None] * 3, "empty": [b""] * 3, "nothing": []}.items():
        uri = str(tmp_path / name)
        fields = pa.schema([blob("b", **{"lance-encoding:compression": "zstd", "k": "v"})])
        lance.write_dataset(
            pa.table([pa.array(values, pa.large_binary())], fields), uri, data_storage_version=version
        )
        equal(pennon.dataset(uri).to_table(), lance.dataset(uri).to_table())
        pennon.write_dataset(pa.table([pa.array([b"a"], pa.large_binary())], fields), uri, mode="append")
        equal(pennon.dataset(uri).to_table(), lance.dataset(uri).to_table())
    table = pennon.write_dataset({"a": [1, 2]}, tmp_path / "added", data_storage_version=version)
    table.add_columns([blob("b")])
    assert table.to_table()["b"].to_pylist() == [None, None]
    assert table.to_table(columns=["b.size"])["b.size"].null_count == table.count_rows("b.size is null") == 2


def test_lists(tmp_path: Path) -> None:
    """File version 2.1 cannot have them."""
    kind = pa.list_(blob("item"))
    values = [[b"a", b"bb"], None, [], [None]]
    lance.write_dataset(pa.table({"l": pa.array(values, kind)}), str(tmp_path / "t"), data_storage_version="2.0")
    equal(pennon.dataset(tmp_path / "t").to_table(), lance.dataset(str(tmp_path / "t")).to_table())
    assert pennon.dataset(tmp_path / "t").to_table(blob_handling="all_binary")["l"].to_pylist() == values


@VERSIONS
def test_values_that_are_not_stored_as_blobs(tmp_path: Path, version: str) -> None:
    """Marked after they were written: the reference panics."""
    data = pa.table({"a": [1, 2], "b": pa.array([b"ab", None], pa.large_binary())})
    table = pennon.write_dataset(data, tmp_path / "t", data_storage_version=version)
    table.replace_field_metadata("b", MARK)
    assert table.to_table(blob_handling="all_binary")["b"].to_pylist() == [b"ab", None]
    assert table.to_table(columns=["a"])["a"].to_pylist() == [1, 2]
    for read in (
        lambda: table.to_table(),
        lambda: table.take([0]),
        lambda: table.count_rows("b is null"),
        lambda: table.take_blobs("b", indices=[0]),
    ):
        with pytest.raises(pennon.UnsupportedError, match=r"`b` has no descriptions.*all_binary"):
            read()


def test_file_version_0_1(tmp_path: Path) -> None:
    """It has no blobs; the reference panics."""
    data = pa.table([pa.array([b"ab", b"c"], pa.large_binary())], schema=pa.schema([blob("b")]))
    lance.write_dataset(data, str(tmp_path / "t"), data_storage_version="legacy")
    table = pennon.dataset(tmp_path / "t")
    assert table.to_table()["b"].to_pylist() == table.take([0, 1])["b"].to_pylist() == [b"ab", b"c"]
    assert table.count_rows("b = x'63'") == 1
    assert table.to_pandas()["b"].tolist() == [b"ab", b"c"]
    with pytest.raises(pennon.InvalidInputError, match="'b' is not a blob column"):
        table.take_blobs("b", indices=[0])


def test_a_mark_in_file_version_2_2(tmp_path: Path) -> None:
    """Its files have no legacy blobs, whatever is marked."""
    data = pa.table({"b": pa.array([b"ab", None], pa.large_binary()), "e": pa.array([{}, {}], pa.struct([]))})
    table = pennon.write_dataset(data, tmp_path / "t", data_storage_version="2.2")
    for column in data.column_names:
        table.update_field_metadata({column: MARK})
    assert table.to_table().to_pylist() == data.to_pylist()
    assert table.to_pandas()["b"].tolist() == [b"ab", None]
    with pytest.raises(pennon.InvalidInputError, match="'b' is not a blob column"):
        table.take_blobs("b", indices=[0])
    table.delete("b is null")
    assert table.to_table().to_pylist() == [{"b": b"ab", "e": {}}]


@WRITERS
@VERSIONS
def test_damaged_descriptors(tmp_path: Path, version: str, writer: str) -> None:
    """Any byte of a data file may be another one: descriptions come, or an error that says what is wrong."""
    uri, outcomes = tmp_path / "t", {"read": 0, "refused": 0}
    data = rows(version).select(["b", "s"])
    LIBRARIES[writer].write_dataset(data, str(uri), data_storage_version=version)
    (path,) = uri.glob("data/*.lance")
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([(0xFF, good[at] ^ 1, 3)[at % 3]]) + good[at + 1 :])
        try:
            found = pennon.dataset(uri).to_table()
            for description in found["b"].to_pylist():
                assert description is None or description["position"] + description["size"] <= len(good)
            outcomes["read"] += 1
        except (pennon.CorruptError, pennon.UnsupportedError):
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 50, outcomes


@pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
@pytest.mark.parametrize("blobs", [[b"abc"], [b"abc", b"d"], [b""], [None], [b"x" * 30, None, b"yz"]], ids=len)
@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.string()), pa.list_(pa.list_(pa.int8())), pa.list_(pa.dictionary(pa.int32(), pa.string()))],
    ids=str,
)
def test_next_to_columns_of_more_passes(
    tmp_path: Path, library: Any, blobs: list[bytes | None], kind: pa.DataType
) -> None:
    """Lists of texts are read in three passes, blobs in two, descriptions in one."""
    item: Any = [[1, 2]] if "int8" in str(kind) else ["a", "bb"] * 8
    other = pa.array([item] * len(blobs), pa.list_(pa.string()) if "dict" in str(kind) else kind).cast(kind)
    data = pa.table([other, pa.array(blobs, pa.large_binary())], schema=pa.schema([pa.field("l", kind), blob("b")]))
    uri = str(tmp_path / "t")
    library.write_dataset(data, uri, data_storage_version="2.0")
    table = pennon.dataset(uri)
    found = table.to_table(blob_handling="all_binary")
    assert (found["b"].to_pylist(), found["l"].to_pylist()) == (blobs, [item] * len(blobs))
    equal(table.to_table(), lance.dataset(uri).to_table())
    table.insert(data)
    table.optimize.compact_files()
    assert table.to_table(blob_handling="all_binary")["b"].to_pylist() == blobs * 2
