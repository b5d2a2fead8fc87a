"""JSON columns are text in SQL, and where their values are put into columns of text or bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pennon import LanceDataset

DOCUMENTS = ['{"a":1}', '"text"', "null", None, "[1,2]"]


def json(values: list[str | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(values, pa.string()))


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    structs = pa.StructArray.from_arrays([json(DOCUMENTS)], names=["doc"])
    data = {"id": range(5), "j": json(DOCUMENTS), "k": json(DOCUMENTS[::-1]), "s": structs, "t": ["x"] * 5}
    return pennon.write_dataset(pa.table(data), tmp_path / "t")


@pytest.mark.parametrize("column", ["j", "s.doc"])
@pytest.mark.parametrize(
    ("sql", "of"),
    [
        ("cast({} AS varchar)", lambda text: text),
        ("{} || '!'", lambda text: text and f"{text}!"),
        ("upper({})", lambda text: text and text.upper()),
        ("length({})", lambda text: text and len(text)),
        ("CASE WHEN id >= 0 THEN {} END", lambda text: text),
        ("coalesce({}, 'none')", lambda text: text or "none"),
        ("{} = '[1,2]'", lambda text: text and text == "[1,2]"),
        ("{} IN ('null', '\"text\"')", lambda text: text and text in ("null", '"text"')),
        ("{} IS NULL", lambda text: text is None),
        ("json_extract({}, '$')", lambda text: text),
        ("json_get_int({}, 'a')", lambda text: 1 if text == '{"a":1}' else None),
        ("json_get_int(coalesce({}, k), 'a')", lambda text: 1 if text == '{"a":1}' else None),
        ("json_extract(CASE WHEN id >= 0 THEN {} END, '$.a')", lambda text: "1" if text == '{"a":1}' else None),
        ("json_get({}, 'a') || ''", lambda text: "1" if text == '{"a":1}' else None),
        ("json_get_int(json_get(json_extract({}, '$'), '1'), 'a')", lambda text: None),
    ],
)
def test_expressions(table: LanceDataset, column: str, sql: str, of: Any) -> None:
    wanted = [of(text) for text in DOCUMENTS]
    assert table.to_table(columns={"v": sql.format(column)})["v"].to_pylist() == wanted


@pytest.mark.parametrize("column", ["j", "s.doc"])
def test_filters(table: LanceDataset, column: str) -> None:
    def ids(filter: str) -> list[int]:
        return table.to_table(columns=["id"], filter=filter)["id"].to_pylist()

    assert ids(f"{column} = '[1,2]'") == [4]
    assert ids(f"{column} <> '[1,2]'") == [0, 1, 2]
    assert ids(f"{column} LIKE '%t%'") == [1]
    assert ids(f"{column} IS NOT NULL") == [0, 1, 2, 4]
    assert ids("j = k") == [2]
    assert table.count_rows(f"cast({column} AS varchar) = 'null'") == 1
    table.delete(f"{column} = '[1,2]'")
    assert ids("true") == [0, 1, 2, 3]


def test_columns_stay_json(table: LanceDataset) -> None:
    found = table.to_table(columns={"again": "j", "member": "s.doc"})
    assert [field.type for field in found.schema] == [pa.json_()] * 2
    table.add_columns({"copy": "j", "text": "j || ''"})
    assert table.schema.field("copy").type == pa.json_()
    assert table.to_table()["text"].to_pylist() == DOCUMENTS
    table.update({"k": "j", "j": "k", "copy": "CASE WHEN id = 0 THEN k ELSE j END"})
    found = table.to_table()
    assert [found[name].to_pylist() for name in ("j", "k")] == [DOCUMENTS[::-1], DOCUMENTS]
    assert found["copy"].to_pylist() == [DOCUMENTS[-1], *DOCUMENTS[1:]]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("nested", ["", "s", "l"])
def test_json_becomes_the_text_of_a_column(tmp_path: Path, kind: pa.DataType, nested: str) -> None:
    def in_type(values: pa.Array) -> pa.Array:
        if nested == "s":
            return pa.StructArray.from_arrays([values], names=["m"])
        return pa.ListArray.from_arrays(list(range(len(values) + 1)), values) if nested == "l" else values

    old = pa.table({"id": range(5), "c": in_type(pa.array(["x"] * 5).cast(kind))})
    table = pennon.write_dataset(old, tmp_path / "t")
    given = pa.table({"c": in_type(json(DOCUMENTS)), "id": range(5)})
    wanted = in_type(pa.array(DOCUMENTS, pa.string()).cast(kind)).to_pylist()
    table.update_rows(list(range(5)), given.select(["c"]))
    assert table.to_table()["c"].to_pylist() == wanted
    if not nested:
        table.update({"c": "'x'"})
        table.add_columns(given.select(["c"]).rename_columns(["j"]))
        table.update({"c": "j"})
        assert table.to_table()["c"].to_pylist() == wanted
    fragment = table.get_fragments()[0]
    again = given.set_column(0, "c", in_type(json(DOCUMENTS[::-1])))
    changed, fields = fragment.update_columns(again, left_on="id", right_on="id")
    operation = pennon.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    table = pennon.LanceDataset.commit(table, operation, read_version=table.version)
    assert (
        table.to_table()["c"].to_pylist() == in_type(pa.array(DOCUMENTS[::-1], pa.string()).cast(kind)).to_pylist()
    )


def test_parts_of_documents_beside_columns(table: LanceDataset) -> None:
    table.update({"k": "coalesce(json_get(j, 'a'), j)"})
    assert table.to_table()["k"].to_pylist() == ["1", *DOCUMENTS[1:]]
    table.update({"k": "CASE WHEN json_exists(j, '$.a') THEN json_get(j, 'a') ELSE j END", "t": "json_get(j, 'a')"})
    assert table.to_table()["k"].to_pylist() == ["1", *DOCUMENTS[1:]]
    assert table.to_table()["t"].to_pylist() == ["1", None, None, None, None]
    assert table.count_rows("k = json_get(j, 'a')") == 1
    # Neither the header nor the kind of a document in its binary form.
    text = '"abc0   ' + "x" * 2_200_000 + '"'
    table.update_rows([1], {"j": [text]})
    table.update({"j": "CASE WHEN id < 0 THEN json_get(j, 'a') ELSE j END"})
    assert table.to_table(filter="id = 1")["j"].to_pylist() == [text]


def test_items_of_lists(tmp_path: Path) -> None:
    lists = pa.ListArray.from_arrays([0, 1, 2, 3, 4, 5], json(DOCUMENTS))
    data = pa.table({"id": range(5), "j": json(DOCUMENTS), "l": lists, "t": ["x"] * 5})
    table = pennon.write_dataset(data, tmp_path / "t")
    table.update({"t": "l[1]"})
    assert table.to_table()["t"].to_pylist() == DOCUMENTS
    assert table.count_rows("l[1] = '[1,2]'") == 1
    assert table.count_rows("l[1] = j") == 4
    assert table.count_rows("l = make_array(j)") == 5
    assert table.count_rows("array_has(l, j)") == 4
    table.add_columns({"copy": "l[1]"})
    assert table.to_table()["copy"].to_pylist() == DOCUMENTS
