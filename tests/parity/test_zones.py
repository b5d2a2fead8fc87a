"""Zone maps, Bloom filters, indices of three letters and of JSON documents: what is special about them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import lance
import pennon
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from support.scalar_indices import PREDICATES, ROWS, VALUES, compare, compare_some, rows_of, table_of, uses_an_index
from support.spread import spread

LIBRARIES = pytest.mark.parametrize("library", [pennon, lance], ids=["ours", "theirs"])
ZONED = pytest.mark.parametrize("kind", ["ZONEMAP", "BLOOMFILTER"])
PARAMETER = {"ZONEMAP": "rows_per_zone", "BLOOMFILTER": "number_of_items"}
NAMES = {"ZONEMAP": "zonemap.lance", "BLOOMFILTER": "bloomfilter.lance"}


def config(library: Any, kind: str, rows: int) -> Any:
    return library.indices.IndexConfig(kind, {PARAMETER[kind]: rows})


def stored(uri: str, kind: str) -> tuple[pa.Table, dict[bytes, bytes]]:
    """The only segment as it is stored, with the metadata of its file."""
    (segment,) = lance.dataset(uri).list_indices()
    reader = LanceFileReader(str(Path(uri) / "_indices" / segment["uuid"] / NAMES[kind]))
    table = reader.read_all().to_table()
    return table.replace_schema_metadata(None), reader.metadata().schema.metadata


def entry(uri: str) -> tuple[str, bytes]:
    """Type and bytes of the details of the only index."""
    (index,) = pennon._native.describe_indices(pennon.dataset(uri)._native)
    details = index["segments"][0]["entry"]["index_details"]
    assert details is not None
    return details


@spread(of=1, times=2)
@ZONED
@pytest.mark.parametrize("type", VALUES)
def test_files_are_those_of_the_reference(uri: str, stable: bool, kind: str, type: str) -> None:
    if kind == "BLOOMFILTER" and type in ("bool", "decimal"):
        pytest.skip("the format has no bytes of such values")
    lance.write_dataset(table_of(VALUES[type]), uri, max_rows_per_file=50, enable_stable_row_ids=stable)
    found = []
    for library in (lance, pennon):
        library.dataset(uri).create_scalar_index("c", config(library, kind, 16))
        found.append((*stored(uri, kind), entry(uri)))
    (theirs, their_metadata, their_entry), (ours, our_metadata, our_entry) = found
    assert our_entry == their_entry
    assert our_metadata == their_metadata
    assert ours.schema.equals(theirs.schema)
    # By their text: NaN is a bound.
    assert str(ours.to_pylist()) == str(theirs.to_pylist())


@spread()
@ZONED
@LIBRARIES
def test_zones_of_any_size(uri: str, stable: bool, library: Any, kind: str) -> None:
    lance.write_dataset(table_of(VALUES["int8"]), uri, max_rows_per_file=50, enable_stable_row_ids=stable)
    pennon.dataset(uri).delete("n % 7 = 3")
    for rows in (1, 2, 7, 8192):
        library.dataset(uri).create_scalar_index("c", config(library, kind, rows))
        compare(uri, [*PREDICATES["int8"], "c is null", "c is not null", "c = 1 and n > 50", "c = 1 or n > 110"])
    statistics = pennon.dataset(uri).stats.index_stats("c_idx")
    assert statistics == lance.dataset(uri).stats.index_stats("c_idx")


@spread()
@ZONED
@LIBRARIES
@pytest.mark.parametrize("other", [pennon, lance], ids=["we optimize", "they optimize"])
def test_zones_are_taken_over(uri: str, stable: bool, library: Any, other: Any, kind: str) -> None:
    """Through appends, changed values, rewritten columns, compactions."""
    predicates = [*PREDICATES["int8"], "c is null", "c is not null"]
    data = table_of(VALUES["int8"])
    lance.write_dataset(data, uri, max_rows_per_file=50, enable_stable_row_ids=stable)
    library.dataset(uri).create_scalar_index("c", config(library, kind, 16))
    for appender in (pennon, lance):
        appender.write_dataset(data, uri, mode="append")
    compare_some(uri, predicates)
    other.dataset(uri).optimize.optimize_indices()
    assert pennon.dataset(uri).stats.index_stats("c_idx")["num_unindexed_rows"] == 0
    if other is pennon:
        assert pennon.dataset(uri).stats.index_stats("c_idx")["segments"] == [
            {"num_zones": 26, "rows_per_zone": 16}
            if kind == "ZONEMAP"
            else {"type": "BloomFilter", "num_blocks": 26, "number_of_items": 16, "probability": 0.00057}
        ]
    compare_some(uri, predicates)
    # Values of a fragment that others of the segment follow.
    metadata, fields = (
        pennon.dataset(uri)
        .get_fragment(1)
        .update_columns(pa.table({"n": range(50, 100), "c": pa.array([99] * 50, pa.int8())}), "n", "n")
    )
    operation = pennon.LanceOperation.Update(updated_fragments=[metadata], fields_modified=fields)
    pennon.LanceDataset.commit(uri, operation, read_version=pennon.dataset(uri).version)
    compare_some(uri, [*predicates, "c = 99"])
    other.dataset(uri).optimize.optimize_indices()
    if other is lance:
        # The reference keeps the zones of the values before, and finds their nulls.
        for predicate in [*predicates, "c = 99"]:
            table = pennon.dataset(uri)
            assert rows_of(table, predicate) == rows_of(table, predicate, use_scalar_index=False), predicate
        pennon.dataset(uri).optimize.optimize_indices(retrain=True)
    compare_some(uri, [*predicates, "c = 99"])
    pennon.dataset(uri).delete("c = 1")
    pennon.dataset(uri).update({"c": "77"}, where="n % 10 = 0")
    other.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    compare_some(uri, [*predicates, "c = 99", "c = 77"])
    pennon.dataset(uri).optimize.compact_files()
    statistics = pennon.dataset(uri).stats.index_stats("c_idx")
    assert statistics["num_unindexed_rows"] == 0
    compare_some(uri, [*predicates, "c = 99", "c = 77"])
    lance.dataset(uri).delete("c = 2")
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    compare_some(uri, [*predicates, "c = 99", "c = 77"])
    other.dataset(uri).optimize.optimize_indices()
    compare_some(uri, [*predicates, "c = 99", "c = 77"])
    pennon.dataset(uri).optimize.optimize_indices(retrain=True)
    (segment,) = pennon.dataset(uri).stats.index_stats("c_idx")["segments"]
    assert segment.get("rows_per_zone", segment.get("number_of_items")) == 16
    compare_some(uri, [*predicates, "c = 99", "c = 77"])


def test_negative_nan_is_below_everything(uri: str) -> None:
    """The reference leaves out a zone whose other values are not below the bound."""
    nan = -float("nan")
    lance.write_dataset(pa.table({"n": range(4), "f": [5.0, nan, 7.0, 8.0]}), uri)
    table = pennon.dataset(uri)
    table.create_scalar_index("f", "ZONEMAP")
    for predicate in ("f < 0.0", "f <= 5.0", "isnan(f)", "f > 7.5"):
        assert rows_of(table, predicate) == rows_of(table, predicate, use_scalar_index=False), predicate


@ZONED
@LIBRARIES
def test_values_that_are_not_compared(uri: str, library: Any, kind: str) -> None:
    """The reference has no bounds of them: every zone may have any."""
    values = [None if n % 9 == 0 else bytes([n % 5, 0]) for n in range(ROWS)]
    data = pa.table({"n": range(ROWS), "c": pa.array(values, pa.binary(2))})
    lance.write_dataset(data, uri, max_rows_per_file=50)
    if kind == "BLOOMFILTER":
        with pytest.raises(ValueError, match="loom"):
            library.dataset(uri).create_scalar_index("c", kind)
        return
    library.dataset(uri).create_scalar_index("c", config(library, kind, 16))
    compare(uri, ["c = X'0200'", "c is null", "c is not null", "c > X'0300'"])


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("ZONEMAP", {"rows_per_zone": 0}),
        ("ZONEMAP", {"rows": 3}),
        ("BLOOMFILTER", {"probability": 1.0}),
        ("BLOOMFILTER", {"probability": "a"}),
        ("BLOOMFILTER", {"number_of_items": 0}),
    ],
)
def test_parameters_that_make_no_sense(uri: str, kind: str, parameters: dict[str, Any]) -> None:
    table = pennon.write_dataset({"n": [1]}, uri)
    with pytest.raises(pennon.InvalidInputError):
        table.create_scalar_index("n", pennon.indices.IndexConfig(kind, parameters))


def test_an_index_without_rows_is_trained_later(uri: str, stable: bool) -> None:
    lance.write_dataset(table_of(VALUES["string"]), uri, enable_stable_row_ids=stable)
    for kind in NAMES:
        table = pennon.dataset(uri)
        table.create_scalar_index("c", kind, train=False)
        compare(uri, [*PREDICATES["string"], "c is null"])
        table.optimize.optimize_indices()
        assert table.stats.index_stats("c_idx")["num_unindexed_rows"] == 0
        compare(uri, [*PREDICATES["string"], "c is null"])
        table.drop_index("c_idx")
        assert not table.has_index


def test_a_damaged_file_is_passed_over(uri: str) -> None:
    table = pennon.write_dataset(table_of(VALUES["int8"]), uri)
    for kind, name in NAMES.items():
        table.create_scalar_index("c", kind)
        expected = rows_of(table, "c = 1", use_scalar_index=False)
        (segment,) = table.list_indices()
        file = Path(uri) / "_indices" / segment["uuid"] / name
        file.write_bytes(file.read_bytes()[:-20])
        assert rows_of(pennon.dataset(uri), "c = 1") == expected
        file.unlink()
        assert rows_of(pennon.dataset(uri), "c = 1") == expected
        table.drop_index("c_idx")


@pytest.mark.parametrize("kind", ["BTREE", "ZONEMAP"])
def test_progress(uri: str, kind: str) -> None:
    rows = 300_000
    lance.write_dataset(pa.table({"n": range(rows)}), uri, max_rows_per_file=100_000)
    told: dict[str, list[Any]] = {"ours": [], "theirs": []}
    lance.dataset(uri).create_scalar_index("n", kind, progress_callback=told["theirs"].append)
    pennon.dataset(uri).create_scalar_index("n", kind, progress_callback=told["ours"].append)
    for events in told.values():
        assert (events[0].event, events[-1].event) == ("start", "complete")
        assert {event.stage for event in events} == {"load_data"}
        assert {event.unit for event in events} == {"rows"}
    between = [event.completed for event in told["ours"] if event.event == "progress"]
    assert between == sorted(between)
    assert between[-1] == rows
    assert told["ours"][-1].fraction == 1.0

    def refuse(event: Any) -> None:
        if event.event == "progress":
            raise KeyError("enough")

    version = pennon.dataset(uri).version
    with pytest.raises(KeyError, match="enough"):
        pennon.dataset(uri).create_scalar_index("n", kind, name="other", progress_callback=refuse)
    assert pennon.dataset(uri).version == version


WORDS = ["Hello", "wörld", "abc", "ABCD", "x1y2", "été", "K2", "straße", "a", "12345", "", "日本語abc", "İstanbul"]
TEXTS = [
    "contains(c, 'abc')",
    "contains(c, 'ABC')",
    "contains(c, 'ello w')",
    "contains(c, 'rld')",
    "contains(c, 'wörld')",
    "c like '%234%'",
    "c like 'Hel%abc%'",
    "c like '%x1y%K2'",
    "c like '%tan%'",
    "contains(c, 'zzz')",
    "contains(c, 'abc') and n < 60",
    "contains(c, 'abc') or c like '%ell%'",
    "not contains(c, 'abc')",
    "contains(c, 'ab')",
    "c is null",
]


@spread()
@pytest.mark.parametrize("type", [pa.string(), pa.large_string()], ids=str)
def test_three_letters(uri: str, stable: bool, file_version: str, type: pa.DataType) -> None:
    """Made by the reference, of which some rows are kept, moved and changed by us."""
    rng = random.Random(7)
    texts = [None if rng.random() < 0.1 else " ".join(rng.choices(WORDS, k=3)) for _ in range(ROWS)]
    data = table_of(pa.array(texts, type))
    lance.write_dataset(
        data, uri, max_rows_per_file=30, enable_stable_row_ids=stable, data_storage_version=file_version
    )
    lance.dataset(uri).create_scalar_index("c", "NGRAM")
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)
    compare(uri, TEXTS)
    if type == pa.string():
        assert [p for p in TEXTS[:3] if not uses_an_index(theirs, p)] == []
    unused = [predicate for predicate in TEXTS if not uses_an_index(ours, predicate)]
    assert unused == TEXTS[-3:]
    assert ours.stats.index_stats("c_idx") == theirs.stats.index_stats("c_idx")
    ours.delete("contains(c, 'ABCD')")
    ours.update({"c": "'now abc'"}, where="n % 11 = 0")
    pennon.write_dataset(data, uri, mode="append")
    compare_some(uri, TEXTS)
    ours = pennon.dataset(uri)
    ours.optimize.optimize_indices()
    assert ours.stats.index_stats("c_idx")["num_unindexed_rows"] > 0
    ours.optimize.compact_files()
    compare_some(uri, TEXTS)
    assert uses_an_index(pennon.dataset(uri), TEXTS[0])
    lance.dataset(uri).optimize.optimize_indices()
    compare_some(uri, TEXTS)
    pennon.dataset(uri).delete("n % 5 = 0")
    pennon.dataset(uri).optimize.compact_files()
    assert pennon.dataset(uri).stats.index_stats("c_idx")["num_unindexed_rows"] == 0
    compare_some(uri, TEXTS)
    lance.dataset(uri).optimize.compact_files()
    compare_some(uri, TEXTS)


DOCUMENTS = [
    "json_get_int(c, 'a') = 3",
    "json_get_int(c, 'a') > 4",
    "json_get_int(c, 'a') in (1, 2, 100)",
    "json_get_string(c, 's') = 's3'",
    "json_get_string(c, 's') >= 's5' and n < 60",
    "json_get_string(c, 's') like 's1%'",
    "json_get_float(c, 'f') < 1.0",
    "json_get_float(c, 'f') = 0.0",
    "json_get_int(c, 'a') is null",
    "json_get_string(c, 'b') = 'b'",
    "c is null",
    "json_get_int(c, 'a') = 3 and json_get_string(c, 's') = 's3'",
]
# The index has whole numbers, the function gives texts: any row may pass.
CONVERTED = ["json_get_string(c, 'a') = '3'", "json_get_float(c, 'a') <= 2.0"]


@pytest.mark.parametrize("target", ["btree", "bitmap"])
def test_keys_of_documents(uri: str, target: str) -> None:
    """Made by the reference, for tables without stable row ids."""
    rng = random.Random(5)
    documents: list[Any] = [
        None if rng.random() < 0.1 else {"a": n % 7, "s": f"s{n % 13}", "f": n % 5 / 2, "b": None}
        for n in range(ROWS)
    ]
    documents[5:9] = [{}, [1, 2], 7, {"A": 3}]
    texts = [None if document is None else json.dumps(document) for document in documents]
    data = pa.table({"n": range(ROWS), "c": pa.array(texts, pa.json_())})
    lance.write_dataset(data, uri, max_rows_per_file=30, data_storage_version="2.2")
    for key in ("a", "s", "f"):
        config = lance.indices.IndexConfig("json", {"target_index_type": target, "path": key})
        lance.dataset(uri).create_scalar_index("c", config, name=key)
    odd = lance.indices.IndexConfig("json", {"target_index_type": target, "path": "$.s"})
    lance.dataset(uri).create_scalar_index("c", odd, name="odd")

    def check() -> None:
        ours = pennon.dataset(uri)
        for predicate in [*DOCUMENTS, *CONVERTED, "json_get_string(c, '$.s') = 's3'"]:
            expected = rows_of(ours, predicate, use_scalar_index=False)
            assert rows_of(ours, predicate) == expected, predicate
            assert ours.count_rows(predicate) == len(expected), predicate

    check()
    compare(uri, DOCUMENTS[:3])
    used = [predicate for predicate in DOCUMENTS if uses_an_index(pennon.dataset(uri), predicate)]
    assert used == [*DOCUMENTS[:8], DOCUMENTS[-1]]
    pennon.dataset(uri).delete("json_get_int(c, 'a') = 1")
    pennon.write_dataset(data, uri, mode="append")
    check()
    pennon.dataset(uri).drop_index("odd")
    pennon.dataset(uri).optimize.compact_files()
    check()
    compare(uri, DOCUMENTS[:3])
    assert uses_an_index(pennon.dataset(uri), DOCUMENTS[0])
    if target == "btree":  # the reference refuses others
        lance.dataset(uri).optimize.optimize_indices()
        check()
        assert pennon.dataset(uri).stats.index_stats("a")["num_unindexed_rows"] == 0


@spread()
@LIBRARIES
def test_vectors_that_are_null(uri: str, stable: bool, library: Any) -> None:
    vectors = pa.array([None if n % 9 == 0 else [n, -n] for n in range(ROWS)], pa.list_(pa.float32(), 2))
    data = pa.table({"n": range(ROWS), "c": vectors})
    lance.write_dataset(data, uri, max_rows_per_file=50, enable_stable_row_ids=stable)
    lance.dataset(uri).create_scalar_index("c", config(lance, "ZONEMAP", 16))
    expected = entry(uri)
    library.dataset(uri).create_scalar_index("c", config(library, "ZONEMAP", 16))
    assert entry(uri) == expected

    def check() -> None:
        for predicate in ("c IS NULL", "c IS NOT NULL"):
            assert uses_an_index(pennon.dataset(uri), predicate)
            compare(uri, [predicate])

    check()
    pennon.dataset(uri).delete("n % 4 = 1")
    pennon.dataset(uri).optimize.compact_files()
    pennon.dataset(uri).insert(data)
    pennon.dataset(uri).optimize.optimize_indices()
    check()
