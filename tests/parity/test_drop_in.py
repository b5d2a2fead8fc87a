"""Calls that programs for pylance make, with the same result after a change of the import."""

from __future__ import annotations

import importlib
import json
import pickle
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.fragment
import pennon
import pyarrow as pa
import pytest

LIBRARIES = (pennon, lance)
NUMBERS = pa.table({"a": range(10), "b": [str(number) for number in range(10)]})


def outcomes(call: Callable[[ModuleType], Any]) -> list[Any]:
    """What a call gives with each of the two libraries."""
    return [call(library) for library in LIBRARIES]


def refused(call: Callable[[ModuleType], Any], error: type[Exception], match: str) -> None:
    """Checks that both libraries refuse a call, with the same class and text."""
    for library in LIBRARIES:
        with pytest.raises(error, match=match):
            call(library)


def test_batches_are_cast_to_the_schema_given(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.float32())])
    batches = [
        pa.record_batch({"a": pa.array([1, 2], pa.int32()), "b": [0.5, None]}),
        pa.record_batch({"a": [3], "b": [1]}),
    ]

    def written(library: ModuleType) -> pa.Table:
        uri = tmp_path / library.__name__
        library.write_dataset(iter(batches), uri, schema)
        return library.write_dataset(iter(batches), uri, schema, mode="append").to_table()

    ours, theirs = outcomes(written)
    assert ours == theirs
    assert ours.schema == schema
    assert ours["a"].to_pylist() == [1, 2, 3] * 2


def test_batches_that_cannot_be_cast_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64())])
    for wrong in (pa.record_batch({"a": ["x"]}), pa.record_batch({"b": [1]})):
        refused(lambda library: library.write_dataset(iter([wrong]), tmp_path / "t", schema), OSError, "schema")  # noqa: B023
    assert not (tmp_path / "t" / "_versions").exists()


def test_ranges_of_positions_are_checked(tmp_path: Path) -> None:
    tables = [library.write_dataset(NUMBERS, tmp_path / library.__name__) for library in LIBRARIES]
    for start, end in ((0, 0), (2, 5), (9, 100), (50, 60)):
        ours, theirs = (table.slice(start, end) for table in tables)
        assert ours == theirs == NUMBERS.slice(start, end - start)
    for table in tables:
        with pytest.raises(ValueError, match="start must be non-negative"):
            table.slice(-1, 3)
        with pytest.raises(ValueError, match="must be >= start"):
            table.slice(3, 2)


def test_paths_of_data_files_can_be_called(tmp_path: Path) -> None:
    for library in LIBRARIES:
        fragment = library.LanceFragment.create(tmp_path / library.__name__, NUMBERS)
        (file,) = fragment.files
        for found in (
            file,
            pickle.loads(pickle.dumps(file)),
            library.FragmentMetadata.from_json(json.dumps(fragment.to_json())).files[0],
        ):
            assert found == file
            with pytest.warns(DeprecationWarning, match="path"):
                assert found.path() == found.path
        assert f"path='{file.path}'" in repr(file)
        assert "base_id" not in repr(file)


def test_names_and_ids_of_fields_can_be_called(tmp_path: Path) -> None:
    def described(library: ModuleType) -> Any:
        key = {"lance-schema:unenforced-primary-key": "true"}
        schema = pa.schema([pa.field("k", pa.int64(), nullable=False, metadata=key), pa.field("v", pa.utf8())])
        data = pa.table({"k": [1], "v": ["x"]}, schema=schema)
        fields = library.write_dataset(data, tmp_path / library.__name__).lance_schema.fields()
        return [
            (field.name(), field.id(), field.metadata, field.unenforced_clustering_key_position())
            for field in fields
        ]

    ours, theirs = outcomes(described)
    assert ours == theirs
    field = pennon.dataset(tmp_path / "pennon").lance_schema.fields()[1]
    assert (field.name, field.id) == ("v", 1)


def test_arrays_of_blobs_need_no_field(tmp_path: Path) -> None:
    def written(library: ModuleType) -> Any:
        data = pa.table({"a": [1, 2, 3], "blob": library.blob_array([b"one", None, b""])})
        table = library.write_dataset(data, tmp_path / library.__name__, data_storage_version="2.2")
        table.insert(pa.table({"a": [4], "blob": library.blob_array([b"four"])}, schema=table.schema))
        blob = table.schema.field("blob").type
        values = table.to_table(blob_handling="all_binary")["blob"].to_pylist()
        return (
            blob.extension_name,
            blob.storage_type,
            values,
            [size for _, size in table.read_blobs("blob", indices=[0])],
        )

    ours, theirs = outcomes(written)
    assert ours == theirs
    assert ours[2] == [b"one", None, b"", b"four"]


def test_the_type_of_blobs() -> None:
    members = list(pennon.blob.BlobType().storage_type)
    for module in (pennon.blob, lance.blob):
        kind = module.BlobType()
        assert pickle.loads(pickle.dumps(kind)) == kind
        for count in (2, 4):
            storage = pa.struct(members[:count])
            assert module.BlobType.__arrow_ext_deserialize__(storage, b"").storage_type == storage
        for wrong in (pa.int64(), pa.struct(members[:3]), pa.struct([("data", pa.binary()), ("uri", pa.utf8())])):
            with pytest.raises(TypeError, match="BlobType storage"):
                module.BlobType.__arrow_ext_deserialize__(wrong, b"")
        array = module.BlobArray.from_pylist([b"a", None, "file:///x", module.Blob.from_uri("file:///x", 1, 2)])
        assert isinstance(array, pa.ExtensionArray)
        assert [None if blob is None else blob["size"] for blob in array.storage.to_pylist()] == [
            None,
            None,
            None,
            2,
        ]
        with pytest.raises(TypeError):
            module.BlobArray.from_pylist([5])


def test_ranges_of_blobs(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"external")
    requests = [(3, 1, 3), (1, 2, 4), (1, 0, 1), (0, 0, 2), (4, 0, 0), (2, 5, 0), (4, 1, 9)]

    def read(library: ModuleType) -> Any:
        field = library.blob_field("blob", inline_size_threshold=4, dedicated_size_threshold=12)
        values = [b"in", b"packed!!", b"dedicated payload", outside.as_uri(), None]
        table = library.write_dataset(
            pa.table([library.blob_array(values)], schema=pa.schema([field])),
            tmp_path / library.__name__,
            data_storage_version="2.2",
            allow_external_blob_outside_bases=True,
            max_rows_per_file=2,
            enable_stable_row_ids=True,
        )
        addresses = table.to_table(columns=[], with_row_address=True)["_rowaddr"].to_pylist()
        by_address = [(addresses[row], offset, length) for row, offset, length in requests]
        found = table.read_blob_ranges("blob", by_address, selector="addresses", preserve_order=True)
        for selector in ("ids", "indices"):
            assert table.read_blob_ranges("blob", requests, selector=selector, io_buffer_size=1024) == found
        assert table.read_blob_ranges("blob", [], selector="ids") == []
        for wrong, message in (
            ((0, 2**64 - 1, 2), r"offset \+ length overflowed"),
            ((0, 0, 3), "exceeds blob size"),
        ):
            with pytest.raises(ValueError, match=message):
                table.read_blob_ranges("blob", [wrong], selector="ids")
        with pytest.raises(ValueError, match="selector must be one of"):
            table.read_blob_ranges("blob", [], selector="offsets")
        with pytest.raises(ValueError, match="io_buffer_size must be greater than 0"):
            table.read_blobs("blob", indices=[0], io_buffer_size=0)
        return found

    ours, theirs = outcomes(read)
    assert ours == theirs
    assert [data for *_, data in ours] == [b"xte", b"cked", b"p", b"in", None, b"", None]


def test_a_session_of_a_fragment(tmp_path: Path) -> None:
    def read(library: ModuleType) -> Any:
        table = library.write_dataset(NUMBERS, tmp_path / library.__name__, max_rows_per_file=6)
        sessions = [
            table.get_fragment(1).open_session(),
            table.get_fragment(1).open_session(["b"], with_row_address=True),
            table.get_fragment(1).open_session(["a"], with_row_address=False),
        ]
        return [session.take(rows) for session in sessions for rows in ([0, 2], range(1, 3), [3])]

    ours, theirs = outcomes(read)
    assert ours == theirs
    assert ours[3].to_pydict() == {"b": ["6", "8"], "_rowaddr": [2**32, 2**32 + 2]}


def test_changes_of_fragments_are_checked(tmp_path: Path) -> None:
    tables = {library: library.write_dataset(NUMBERS, tmp_path / library.__name__) for library in LIBRARIES}
    ids = pa.array([0], pa.uint64())
    for values in ({"_rowid": ids, "_rowaddr": ids}, {"_rowaddr": ids, "_rowid": ids}):
        key = next(iter(values))
        refused(
            lambda library: tables[library].get_fragment(0).update_columns(pa.table(values), key),  # noqa: B023
            ValueError,
            "(?i)metadata column|cannot be updated",
        )
    for offsets in ([10], [0, 5, 99]):
        refused(
            lambda library: tables[library].get_fragment(0).delete_rows(offsets),  # noqa: B023
            ValueError,
            "out of range",
        )
    refused(
        lambda library: library.write_dataset(
            NUMBERS, tmp_path / "new", data_storage_version="2.0", max_page_bytes=0
        ),
        OSError,
        "max_page_bytes must be greater than 0, got 0",
    )


def test_sequences_of_row_ids() -> None:
    modules = (pennon.fragment, lance.fragment)
    for wrong, message in (
        (pa.array([1.5]), "array of integers"),
        (pa.array([-1, 2]), "uint64"),
        (range(-5, 5), "non-negative"),
        (5, "iterable of integers"),
        ([1, 2, 1], "must be unique"),
    ):
        for module in modules:
            with pytest.raises((ValueError, TypeError), match=message):
                module.RowIdSequence(wrong)
    for ids in ([], [3, 1], list(range(10)), list(range(11))):
        ours, theirs = (repr(module.RowIdSequence(ids)) for module in modules)
        assert ours == theirs


def test_the_files_of_a_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = lance.write_dataset(NUMBERS, uri, max_rows_per_file=5)
    table.delete("a = 3")
    table.update({"b": "'x'"}, where="a > 7")
    ours, theirs = pennon.dataset(uri), lance.dataset(uri)

    tracked = [
        found.tracked_files().read_all().sort_by([("version", "ascending"), ("path", "ascending")])
        for found in (ours, theirs)
    ]
    assert tracked[0].schema == tracked[1].schema
    assert tracked[0].to_pylist() == tracked[1].to_pylist()
    assert set(tracked[0]["version"].to_pylist()) == {1, 2, 3}
    newest = ours.tracked_files(min_version=3).read_all()
    assert set(newest["version"].to_pylist()) == {3}

    files = [found.all_files().read_all().sort_by("path") for found in (ours, theirs)]
    assert files[0].schema == files[1].schema
    assert files[0].to_pylist() == files[1].to_pylist()

    seen: list[tuple[int, int | None]] = []
    ours.tracked_files(progress=lambda done, total: seen.append((done, total))).read_all()
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_the_files_of_branches_and_clones(tmp_path: Path) -> None:
    table = lance.write_dataset(NUMBERS, str(tmp_path / "t"))
    table.delete("a = 3")
    branch = table.create_branch("branch")
    clone = table.shallow_clone(str(tmp_path / "clone"), 2)
    opened = (pennon.dataset(str(tmp_path / "t")).checkout_version(("branch", None)), pennon.dataset(clone.uri))
    for ours, theirs in zip(opened, (branch, clone), strict=True):
        found = [files.tracked_files().read_all().sort_by("path").to_pylist() for files in (ours, theirs)]
        assert found[0] == found[1]
        assert {row["type"] for row in found[0]} == {"manifest", "transaction file", "data file", "deletion file"}


def test_the_files_of_indices(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = lance.write_dataset(NUMBERS, uri, max_rows_per_file=5)
    table.create_scalar_index("a", "BTREE")
    table.create_scalar_index("b", "INVERTED")
    table.insert(NUMBERS)
    table.optimize.optimize_indices()
    table.optimize.compact_files(defer_index_remap=True)
    table.drop_index("a_idx")
    branch = table.create_branch("branch")
    branch.create_scalar_index("a", "BITMAP")
    clone = table.shallow_clone(str(tmp_path / "clone"), table.version)

    def rows(files: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = files.tracked_files().read_all().to_pylist()
        return sorted(found, key=lambda row: (row["version"], row["base_uri"], row["path"]))

    opened = pennon.dataset(uri)
    by_version: dict[int, set[str]] = {}
    for ours, theirs in ((opened, table), (opened.checkout_version(("branch", None)), branch)):
        found = [rows(files) for files in (ours, theirs)]
        # pylance leaves out the indices that a branch or clone has of its source.
        assert [row for row in found[0] if row["base_uri"] == ours.uri or row["type"] != "index file"] == [
            row for row in found[1] if row["base_uri"] == theirs.uri or row["type"] != "index file"
        ]
        for row in found[0]:
            if row["type"] == "index file":
                by_version.setdefault(row["version"], set()).add(row["path"].partition("/")[2].partition("/")[0])
    assert {version: len(uuids) for version, uuids in by_version.items()} == {
        2: 1,
        3: 2,
        4: 2,
        5: 2,
        6: 2,
        7: 2,
        8: 1,
        9: 2,
    }

    of_source = [row for row in rows(opened) if row["version"] == 8 and row["type"] == "index file"]
    of_clone = [row for row in rows(pennon.dataset(clone.uri)) if row["type"] == "index file"]
    assert of_clone == of_source
    # What is missing is not passed over.
    before = rows(opened)
    shutil.rmtree(next((tmp_path / "t" / "_indices").iterdir()))
    assert rows(opened) == before


def test_automatic_cleanup_can_be_changed_on_a_removed_version(tmp_path: Path) -> None:
    for library in LIBRARIES:
        table = library.write_dataset(NUMBERS, tmp_path / library.__name__)
        for _ in range(3):
            newest = library.write_dataset(NUMBERS, tmp_path / library.__name__, mode="append")
        newest.cleanup_old_versions(timedelta(0))
        table.optimize.enable_auto_cleanup({"interval": 1000, "older_than_seconds": 1})
        assert table.config()["lance.auto_cleanup.interval"] == "1000"
        assert table.count_rows() == 40
        table.optimize.disable_auto_cleanup()
        assert table.config() == {}
        with pytest.raises(ValueError, match="max_files must be positive"):
            table.explain_cleanup_old_versions(max_files=0)


def test_a_conflict_of_a_commit_lock_says_what_it_is(tmp_path: Path) -> None:
    def lock(version: int) -> Any:
        raise pennon.commit.CommitConflictError()

    for library in LIBRARIES:
        with pytest.raises(Exception, match="CommitConflictError"):
            library.write_dataset(NUMBERS, tmp_path / library.__name__, commit_lock=lock)


def test_the_files_of_a_table_by_their_paths(tmp_path: Path) -> None:
    def read(library: ModuleType) -> Any:
        table = library.write_dataset(NUMBERS, tmp_path / library.__name__)
        session = table.new_file_session()
        (file,) = table.get_fragment(0).data_files()
        names = [name for name in session.list("data") if name.endswith(".lance")]
        assert [Path(name).name for name in names] == [str(file.path)]
        return session.open_reader(f"data/{file.path}").read_all().to_table()

    ours, theirs = outcomes(read)
    assert ours == theirs == NUMBERS


def test_checkpoints_of_fragments(tmp_path: Path) -> None:
    for library in LIBRARIES:
        module = importlib.import_module(f"{library.__name__}.udf")
        store = module.BatchUDFCheckpoint(tmp_path / f"{library.__name__}.sqlite")
        info = module.BatchUDFCheckpoint.BatchInfo(3, 0)
        store.insert_batch(info, pa.record_batch({"a": [1]}))
        assert store.get_fragment(3) is None
        store.insert_fragment(3, '{"id": 3}')
        reopened = module.BatchUDFCheckpoint(store.path)
        assert (reopened.get_fragment(3), reopened.get_fragment(4)) == ('{"id": 3}', None)
        assert reopened.get_batch(info) is None


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda library: library.Blob(), ValueError, "must set `data` or `uri`"),
        (lambda library: library.Blob(b"x", "file:///x"), ValueError, "both data and uri"),
        (lambda library: library.Blob.from_uri("file:///x", 3, 0), ValueError, "greater than zero"),
        (lambda library: library.Blob.from_uri("file:///x", -1, 1), ValueError, "must be non-negative"),
        (lambda library: library.blob_field("b", inline_size_threshold=-1), ValueError, "inline_.* non-negative"),
        (lambda library: library.blob_field("b", pack_file_size_threshold=0), ValueError, "pack_file_.* positive"),
        (lambda library: library.blob_field("b", dedicated_size_threshold=1.5), TypeError, "dedicated_.* an int"),
    ],
)
def test_wrong_blobs_are_refused(call: Callable[[ModuleType], Any], error: type[Exception], match: str) -> None:
    refused(call, error, match)


def test_sizes_of_buffers_are_checked_without_rows(tmp_path: Path) -> None:
    for library in LIBRARIES:
        data = pa.table({"blob": library.blob_array([b"x"])})
        table = library.write_dataset(data, tmp_path / library.__name__, data_storage_version="2.2")
        with pytest.raises(ValueError, match="non-negative"):
            table.take_blobs("blob", indices=[], buffer_size=-1)


def test_negative_positions_are_an_overflow(tmp_path: Path) -> None:
    tables = {library: library.write_dataset(NUMBERS, tmp_path / library.__name__) for library in LIBRARIES}
    refused(lambda library: tables[library].take([0, -1]), OverflowError, "negative")


def test_what_is_no_batch_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64())])
    for wrong in ({"a": 1}, 5, "a"):
        refused(
            lambda library: library.write_dataset(iter([wrong]), tmp_path / "t", schema),  # noqa: B023
            Exception,
            "Expected RecordBatch",
        )


@pytest.mark.filterwarnings("ignore:The option 'late_materialization'")
def test_late_materialization_is_checked(tmp_path: Path) -> None:
    tables = {library: library.write_dataset(NUMBERS, tmp_path / library.__name__) for library in LIBRARIES}
    for wrong in (123, "a"):
        refused(
            lambda library: tables[library].scanner(late_materialization=wrong),  # noqa: B023
            ValueError,
            "late_materialization must be a bool or a list of strings",
        )
    for names in (["no_such"], ["a", "no_such"]):
        refused(
            lambda library: tables[library].scanner(late_materialization=names),  # noqa: B023
            RuntimeError,
            "no_such",
        )
    for known in ([], ["a"], ["a", "a"], ["_rowid"]):
        assert tables[pennon].to_table(late_materialization=known) == NUMBERS


def test_the_environment_names_the_size_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pa.table({"a": range(100)})
    tables = {library: library.write_dataset(data, tmp_path / library.__name__) for library in LIBRARIES}

    def sizes(library: ModuleType, **options: Any) -> list[int]:
        return [batch.num_rows for batch in tables[library].to_batches(**options)]

    monkeypatch.setenv("LANCE_DEFAULT_BATCH_SIZE", "30")
    assert outcomes(sizes) == [[30, 30, 30, 10]] * 2
    assert outcomes(lambda library: sizes(library, batch_size=50)) == [[50, 50]] * 2
    monkeypatch.delenv("LANCE_DEFAULT_BATCH_SIZE")
    assert outcomes(sizes) == [[100]] * 2


def test_files_of_old_versions_are_not_appended(tmp_path: Path) -> None:
    tables = {library: library.write_dataset(NUMBERS, tmp_path / library.__name__) for library in LIBRARIES}
    refused(
        lambda library: library.write_dataset(
            NUMBERS, tables[library].uri, mode="append", data_storage_version="legacy"
        ),
        OSError,
        "V1 and V2 storage versions cannot be mixed",
    )
    assert all(table.latest_version == 1 for table in tables.values())


@pytest.mark.parametrize("stable", [True, False])
def test_blobs_of_deleted_rows_are_refused(tmp_path: Path, stable: bool) -> None:
    for library in LIBRARIES:
        data = pa.table({"blob": library.blob_array([b"a", b"b", None]), "a": [1, 2, 3]})
        table = library.write_dataset(
            data, tmp_path / library.__name__, data_storage_version="2.2", enable_stable_row_ids=stable
        )
        table.delete("a = 2")
        for selector in ("ids", "addresses"):
            error = ValueError if stable and selector == "ids" else NotImplementedError
            for call in (
                lambda rows: table.take_blobs("blob", **{selector: rows}),  # noqa: B023
                lambda rows: table.read_blobs("blob", **{selector: rows}),  # noqa: B023
                lambda rows: table.read_blob_ranges("blob", [(row, 0, 0) for row in rows], selector=selector),  # noqa: B023
            ):
                assert len(call([2, 0])) == 2
                with pytest.raises(error):
                    call([2, 1, 0])


def test_positions_in_a_fragment_count_rows_that_live(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(NUMBERS, uri, max_rows_per_file=5)
    lance.dataset(uri).delete("a in (1, 3, 6)")
    for number in (0, 1):
        for wanted in ([0, 1, 2], [1, 1], []):
            ours, theirs = outcomes(lambda library: library.dataset(uri).get_fragment(number).take(wanted))  # noqa: B023
            assert ours == theirs
            ours, theirs = outcomes(
                lambda library: library.dataset(uri).get_fragment(number).open_session(["a"]).take(wanted)  # noqa: B023
            )
            assert ours == theirs
    with pytest.raises(pennon.errors.PositionError, match="Row 4 is out of range: fragment 1 has 4 rows"):
        pennon.dataset(uri).get_fragment(1).take([4])


def test_columns_by_other_names_are_what_they_were(tmp_path: Path) -> None:
    """With their metadata and extension types, also members of structs."""
    inner = pa.StructArray.from_arrays([pa.array(['{"a":1}', None], pa.json_()), pa.array([1, 2])], ["d", "n"])
    identifiers = pa.array([b"0123456789abcdef", None], pa.uuid())
    fields = [
        pa.field("id", pa.int64(), metadata={"unit": "m"}),
        pa.field("s", inner.type),
        pa.field("u", identifiers.type),
    ]
    data = pa.table([pa.array([1, 2]), inner, identifiers], pa.schema(fields))
    uri = str(tmp_path / "t")
    lance.write_dataset(data, uri)
    for columns in ({"x": "id"}, {"x": "u"}, {"x": "s.d"}, {"x": "s.n", "y": "s.d"}, {"x": "id + 1"}):
        ours, theirs = outcomes(lambda library: library.dataset(uri).to_table(columns=columns))  # noqa: B023
        assert ours == theirs
        assert ours.schema.equals(theirs.schema, check_metadata=True), columns
        ours, theirs = outcomes(lambda library: library.dataset(uri).take([1, 0], columns=columns))  # noqa: B023
        assert ours == theirs


def test_members_are_taken_in_their_structs(tmp_path: Path) -> None:
    inner = pa.struct([("p", pa.int32()), ("q", pa.string())])
    kind = pa.struct([("a", pa.int64()), ("b", pa.string()), ("n", inner)])
    rows = [{"a": i, "b": str(i), "n": {"p": i, "q": "q"} if i % 2 else None} for i in range(4)]
    data = pa.table({"id": range(4), "s": pa.array([*rows[:3], None], kind), "z": range(4)})
    uri = str(tmp_path / "t")
    lance.write_dataset(data, uri)
    for columns in (["s.a"], ["s.b", "s.a"], ["z", "s.n.q", "id", "s.a"], ["s.n", "s.n.p"], ["s", "s.a"], ["id"]):
        ours, theirs = outcomes(lambda library: library.dataset(uri).take([3, 0, 1], columns=columns))  # noqa: B023
        assert ours == theirs, columns
        assert ours.schema == theirs.schema
        ours, theirs = outcomes(lambda library: library.dataset(uri)._take_rows([2, 1], columns=columns))  # noqa: B023
        assert ours == theirs, columns


def test_a_star_is_all_columns(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(NUMBERS, uri)
    for columns in (["*"], ["*", "_rowid"], ["_rowid", "*"]):
        ours, theirs = outcomes(lambda library: library.dataset(uri).to_table(columns=columns))  # noqa: B023
        assert ours == theirs, columns


def test_texts_of_conditions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"b": [b"ab", b"c"], "l": [[{"x": 1}], [{"x": 2}]], "n": [1, 2]}), uri)
    for condition in (
        "b = cast('ab' as binary)",
        "n = 1;",
        "l[1].x = 2",
        "l[1]['x'] = 2",
        "n << 1 = 4",
        "n >> 1 = 1",
        "md5('a') = '0cc175b9c0f1b6a831c399e269772661' AND n = 2",
    ):
        ours, theirs = outcomes(lambda library: library.dataset(uri).to_table(filter=condition))  # noqa: B023
        assert ours == theirs, condition
        assert ours.num_rows == 1, condition


def test_a_condition_that_is_null_changes_nothing(tmp_path: Path) -> None:
    def merged(library: ModuleType) -> pa.Table:
        table = library.write_dataset(NUMBERS, str(tmp_path / library.__name__))
        merge = table.merge_insert("a").when_matched_update_all("null")
        merge.execute(pa.table({"a": [1], "b": ["new"]}))
        return library.dataset(str(tmp_path / library.__name__)).to_table()

    ours, theirs = outcomes(merged)
    assert ours == theirs == NUMBERS


def test_fragments_are_opened_by_their_ids(tmp_path: Path) -> None:
    for library in LIBRARIES:
        table = library.write_dataset(NUMBERS, tmp_path / library.__name__, max_rows_per_file=4)
        fragment = library.LanceFragment(table, 1)
        assert fragment.to_table()["a"].to_pylist() == [4, 5, 6, 7]
        assert pickle.loads(pickle.dumps(fragment)).fragment_id == 1
        assert library.LanceFragment(table, fragment_id=2).count_rows() == 2
        with pytest.raises(ValueError, match="fragment"):
            library.LanceFragment(table, None)
    with pytest.raises(pennon.NotFoundError, match="Fragment 9 is not in version 1"):
        pennon.LanceFragment(pennon.dataset(tmp_path / "pennon"), 9)
