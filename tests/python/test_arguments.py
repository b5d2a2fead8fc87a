"""Arguments of a wrong type or out of range: the error names the parameter, what was found and what is expected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pennon
import pyarrow as pa
import pytest
from pennon import jobs
from pennon.bitmap import Bitmap
from pennon.errors import PositionError
from pennon.file import LanceFileSession, LanceFileWriter
from pennon.fragment import write_fragments
from pennon.indices import IndexConfig

DATA = pa.table({"i": [1, 2, 3]})
WHOLE, VERSION = "must be a whole number, found", r"must be an int, a tag \(str\) or a tuple of branch and version"
ROW_IDS = "row_ids must be a list of whole numbers, found"
OUTSIDE = "row_ids must not be negative nor exceed 64 bits, found"
DURATION, SECOND, SHORT = "must be a timedelta, found", timedelta(seconds=1), "must not be negative, got -1 seconds"
NEGATIVE, STRINGS = "must be non-negative, got -1", "must be a dict of strings, found"

TYPES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "history": (lambda t: t.history("a"), f"row_id {WHOLE} str 'a'"),
    "checkout_version": (lambda t: t.checkout_version(1.5), f"version {VERSION}, found float 1.5"),
    "checkout_version None": (lambda t: t.checkout_version(None), f"version {VERSION}, found NoneType None"),
    "dataset version": (lambda t: pennon.dataset(t.uri, ("main", "a", 1)), f"version {VERSION}, found tuple"),
    "changes": (lambda t: t.changes(1.5), f"begin {VERSION}, found float"),
    "tags.create": (lambda t: t.tags.create(5, 1), "tag must be text, found int 5"),
    "tags.get_version": (lambda t: t.tags.get_version(5), "tag must be text, found int 5"),
    "create_branch": (lambda t: t.create_branch(5), "branch must be text, found int 5"),
    "to_batches batch_size": (lambda t: t.to_batches(batch_size="a"), f"batch_size {WHOLE} str 'a'"),
    "to_batches bytes": (lambda t: t.to_batches(batch_size_bytes="a"), f"batch_size_bytes {WHOLE} str 'a'"),
    "to_table limit": (lambda t: t.to_table(limit="1"), f"limit {WHOLE} str '1'"),
    "to_table offset": (lambda t: t.to_table(offset="1"), f"offset {WHOLE} str '1'"),
    "to_table columns": (lambda t: t.to_table(columns=5), "columns must be a list of names or a dict .*, found 5"),
    "slice": (lambda t: t.slice("a", 2), f"start {WHOLE} str 'a'"),
    "take text": (lambda t: t.take("a"), "Rows to take must be a list of whole numbers, found 'a'"),
    "take floats": (lambda t: t.take([1.5]), r"Rows to take must be a list of whole numbers, found \[1.5\]"),
    "take None": (lambda t: t.take(None), "Rows to take must be a list of whole numbers, found None"),
    "take_rows": (lambda t: t.take_rows(5), "Rows to take must be a list of whole numbers, found 5"),
    "update_rows floats": (lambda t: t.update_rows([1.5], {"i": [9]}), rf"{ROW_IDS} \[1.5\]"),
    "update_rows whole floats": (lambda t: t.update_rows([1.0], {"i": [9]}), rf"{ROW_IDS} \[1.0\]"),
    "update_rows decimals": (lambda t: t.update_rows([Decimal("2.9")], {"i": [9]}), rf"{ROW_IDS} \[Decimal"),
    "update_rows texts": (lambda t: t.update_rows(["1"], {"i": [9]}), rf"{ROW_IDS} \['1'\]"),
    "update_rows None": (lambda t: t.update_rows([1, None], {"i": [9, 9]}), rf"{ROW_IDS} \[1, None\]"),
    "restore_rows": (lambda t: t.restore_rows([1.5], 1), rf"{ROW_IDS} \[1.5\]"),
    "restore_rows None": (lambda t: t.restore_rows(None, 1), f"{ROW_IDS} None"),
    "restore_rows version": (lambda t: t.restore_rows([1], None), f"version {VERSION}, found NoneType None"),
    "changes None": (lambda t: t.changes(None), f"begin {VERSION}, found NoneType None"),
    "shallow_clone": (lambda t: t.shallow_clone(t.uri + "-clone", None), f"reference {VERSION}"),
    "head": (lambda t: t.head("a"), f"num_rows {WHOLE} str 'a'"),
    "sample": (lambda t: t.sample("a"), f"num_rows {WHOLE} str 'a'"),
    "update to None": (lambda t: t.update({"i": None}), f"updates {STRINGS} 'i': NoneType"),
    "update to a number": (lambda t: t.update({"i": 5}), f"updates {STRINGS} 'i': int"),
    "drop_columns": (lambda t: t.drop_columns("i"), "columns must be a list of texts, found str 'i'"),
    "alter_columns": (lambda t: t.alter_columns(5), "An alteration must be a dict .*, found 5"),
    "drop_index": (lambda t: t.drop_index(None), "name must be text, found NoneType None"),
    "prewarm_index": (lambda t: t.prewarm_index(None), "name must be text, found NoneType None"),
    "optimize_indices": (
        lambda t: t.optimize.optimize_indices(index_names="i_idx"),
        "index_names must be a list of texts, found str 'i_idx'",
    ),
    "update_field_metadata": (
        lambda t: t.update_field_metadata({0: {"a": "b"}}),
        "a path of field_updates must be text, found int 0",
    ),
    "update_field_metadata values": (
        lambda t: t.update_field_metadata({"i": {"a": 1}}),
        rf"field_updates\['i'\] {STRINGS} 'a': int",
    ),
    "update_field_metadata None": (
        lambda t: t.update_field_metadata(None),
        "field_updates must be a dict of dicts by path of a field, found None",
    ),
    "create_scalar_index": (lambda t: t.create_scalar_index(5, "BTREE"), "column must be text, found int 5"),
    "older_than": (lambda t: t.cleanup_old_versions(5), "older_than must be a timedelta, found 5"),
    "cleanup versions": (
        lambda t: t.cleanup_old_versions(versions="1"),
        "versions must be a list of whole numbers, found str '1'",
    ),
    "a version of a cleanup": (lambda t: t.cleanup_old_versions(versions=["x"]), f"versions {WHOLE} str 'x'"),
    "delete_unverified": (
        lambda t: t.explain_cleanup_old_versions(delete_unverified="x"),
        "delete_unverified: 'str' object is not an instance of 'bool'",
    ),
    "max_page_bytes": (
        lambda t: LanceFileWriter(t.uri + "-file", DATA.schema, max_page_bytes="x"),
        "max_page_bytes: 'str' object",
    ),
    "fragment.delete": (lambda t: t.get_fragments()[0].delete(1), "predicate must be text, found int 1"),
    "create_from_file": (
        lambda t: pennon.LanceFragment.create_from_file(1, t, 0),
        "filename must be text or a path, found int 1",
    ),
    "an operation": (
        lambda t: pennon.LanceDataset.commit(t, pennon.Transaction(1, 5)),
        "operation: int is not a `LanceOperation`",
    ),
    "copy": (lambda t: pennon.repair(t.uri, copy=1), "copy must be text or a path, found int 1"),
    "bytes_per_second": (
        lambda t: pennon.scrub(t.uri, bytes_per_second="1M"),
        f"bytes_per_second {WHOLE} str '1M'",
    ),
    "delete retry_timeout": (lambda t: t.delete("i = 0", retry_timeout=5), f"retry_timeout {DURATION} 5"),
    "update retry_timeout": (lambda t: t.update({"i": "i"}, retry_timeout=5), f"retry_timeout {DURATION} 5"),
    "restore_rows timeout": (
        lambda t: t.restore_rows([0], 1, retry_timeout="5 s"),
        f"retry_timeout {DURATION} '5 s'",
    ),
    "merge": (lambda t: t.merge_insert("i").retry_timeout(5), f"timeout {DURATION} 5"),
    "get_fragment": (lambda t: t.get_fragment("a"), f"fragment_id {WHOLE} str 'a'"),
    "fragments": (lambda t: t.scanner(fragments=5), "fragments must be a list of LanceFragment, found 5"),
    "a fragment": (lambda t: t.scanner(fragments=[5]), r"fragments must be a list of LanceFragment, found \[5\]"),
    "order_by": (lambda t: t.scanner(order_by=5), "order_by must be a list of ColumnOrdering or names, found 5"),
    "dataset": (lambda t: pennon.dataset(5), "uri must be text or a path, found int 5"),
    "dataset bytes": (lambda t: pennon.dataset(b"a"), "uri must be text or a path, found bytes b'a'"),
    "storage_options": (lambda t: pennon.dataset(t.uri, storage_options=5), f"storage_options {STRINGS} int"),
    "write_dataset": (lambda t: pennon.write_dataset(DATA, 5), "uri must be text or a path, found int 5"),
    "verify": (lambda t: pennon.verify(5), "uri must be text or a path, found int 5"),
    "update_config": (lambda t: t.update_config({"a": 5}), f"values {STRINGS} 'a': int"),
    "delete_config_keys": (lambda t: t.delete_config_keys("a"), "keys must be a list of texts, found str 'a'"),
    "update_schema_metadata": (lambda t: t.update_schema_metadata(5), f"values {STRINGS} 5"),
    "replace_schema_metadata": (lambda t: t.replace_schema_metadata(5), f"new_metadata {STRINGS} int"),
    "max_rows_per_file": (lambda t: t.insert(DATA, max_rows_per_file=1.5), f"max_rows_per_file {WHOLE} float 1.5"),
    "update": (lambda t: t.update({"i": "i"}, conflict_retries=1.5), f"conflict_retries {WHOLE} float 1.5"),
    "a file version": (
        lambda t: LanceFileWriter(t.uri + "-file", DATA.schema, version=2.1),
        "version must be text",
    ),
    "a series of pandas": (lambda t: t.insert(pd.Series([1])), "must be a frame, found a Series of pandas"),
    "a series of polars": (
        lambda t: t.insert(pytest.importorskip("polars").Series([1])),
        "must be a frame, found a Series of polars",
    ),
    "an array": (lambda t: t.insert(pa.array([1])), "must be a table or structs, found Int64Array: .*int64"),
    "chunks": (lambda t: t.insert(pa.chunked_array([[1]])), "must be a table or structs, found ChunkedArray: "),
}
VALUES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "history": (lambda t: t.history(-1), f"row_id {NEGATIVE}"),
    "checkout_version": (lambda t: t.checkout_version(-1), f"version {NEGATIVE}"),
    "checkout_version large": (lambda t: t.checkout_version(2**64), f"version must be between .*, got {2**64}"),
    "of a branch": (lambda t: t.checkout_version(("main", -1)), f"version {NEGATIVE}"),
    "changes": (lambda t: t.changes(-1), f"begin {NEGATIVE}"),
    "tags.create": (lambda t: t.tags.create("a", -1), f"reference {NEGATIVE}"),
    "tags.update": (lambda t: t.tags.update("a", -1), f"reference {NEGATIVE}"),
    "create_branch": (lambda t: t.create_branch("a", -1), f"reference {NEGATIVE}"),
    "cleanup": (lambda t: t.cleanup_old_versions(-SECOND), f"older_than {SHORT}"),
    "explain_cleanup": (lambda t: t.explain_cleanup_old_versions(-SECOND), f"older_than {SHORT}"),
    "cleanup versions": (lambda t: t.cleanup_old_versions(versions=[-1]), f"versions {NEGATIVE}"),
    "batch_size": (lambda t: t.to_batches(batch_size=0), "batch_size must be between 1 and 4294967295, got 0"),
    "delete retry_timeout": (lambda t: t.delete("i = 0", retry_timeout=-SECOND), f"retry_timeout {SHORT}"),
    "update retry_timeout": (lambda t: t.update({"i": "i"}, retry_timeout=-SECOND), f"retry_timeout {SHORT}"),
    "restore_rows timeout": (
        lambda t: t.restore_rows([0], 1, retry_timeout=-SECOND),
        f"retry_timeout {SHORT}",
    ),
    "merge": (lambda t: t.merge_insert("i").retry_timeout(-SECOND), f"timeout {SHORT}"),
    "jobs.run": (lambda t: jobs.run(jobs.plan_delete(t, "i = 0"), retry_timeout=-SECOND), f"retry_timeout {SHORT}"),
    "jobs.run retries": (
        lambda t: jobs.run(jobs.plan_delete(t, "i = 0"), conflict_retries=-1),
        f"conflict_retries {NEGATIVE}",
    ),
    "update_rows": (lambda t: t.update_rows([-1], {"i": [9]}), f"{OUTSIDE} -1"),
    "update_rows large": (lambda t: t.update_rows([2**64], {"i": [9]}), f"{OUTSIDE} {2**64}"),
    "update_rows array": (
        lambda t: t.update_rows(pa.array([-1]), {"i": [9]}),
        "row_ids must not be negative: .*-1",
    ),
    "update_rows float array": (
        lambda t: t.update_rows(pa.array([1.0]), {"i": [9]}),
        "row_ids must be integers without nulls, found double",
    ),
    "update_rows column": (
        lambda t: t.update_rows({"_rowid": [0, -1], "i": [9, 9]}),
        "The column _rowid must not be negative, found -1",
    ),
    "update_rows length": (
        lambda t: t.update_rows([0, 1], {"i": [9]}),
        "2 row_ids are given, and the data has 1 rows: expected a row for each id",
    ),
    "update_rows ids twice": (
        lambda t: t.update_rows([0], {"_rowid": [1], "i": [9]}),
        "The data has a column _rowid, and row_ids are given too",
    ),
    "restore_rows": (lambda t: t.restore_rows([-1], 1), f"{OUTSIDE} -1"),
    "merge by _rowid": (
        lambda t: t.merge_insert("_rowid").when_matched_update_all().execute({"_rowid": [-1], "i": [9]}),
        "The column _rowid must not be negative, found -1",
    ),
    "limit": (lambda t: t.to_table(limit=-1), f"limit {NEGATIVE}"),
    "head": (lambda t: t.head(-1), f"num_rows {NEGATIVE}"),
    "sample": (lambda t: t.sample(-1), f"num_rows {NEGATIVE}"),
    "sample too many": (lambda t: t.sample(100), "num_rows is 100, but the table has 3 rows"),
    "retain_versions": (lambda t: t.cleanup_old_versions(retain_versions=-1), f"retain_versions {NEGATIVE}"),
    "get_fragment": (lambda t: t.get_fragment(-1), f"fragment_id {NEGATIVE}"),
    "num_indices_to_merge": (
        lambda t: t.optimize.optimize_indices(num_indices_to_merge=2**70),
        f"num_indices_to_merge must be between 0 and .*, got {2**70}",
    ),
    "rows_per_zone": (
        lambda t: t.create_scalar_index("i", IndexConfig("ZONEMAP", {"rows_per_zone": 2**40})),
        f"The parameter 'rows_per_zone' is {2**40}, expected a whole number from 1 to 4294967295",
    ),
    "dataset": (lambda t: pennon.dataset("a\udcc3"), r"uri must be text in UTF-8, found '\\udcc3' at 1"),
    "drop_index": (lambda t: t.drop_index("\udcc3"), "name must be text in UTF-8"),
    "update_config": (lambda t: t.update_config({"a": "\udcc3"}), "values must be text in UTF-8"),
    "asof": (lambda t: pennon.dataset(t.uri, asof="xyz"), "Failed to parse timestamp string xyz: .* 'xyz'"),
}
# Numbers for which pylance raises an `OverflowError`.
TOO_SMALL: dict[str, tuple[Callable[[Any], Any], str]] = {
    "max_rows_per_file": (lambda t: t.insert(DATA, max_rows_per_file=-1), f"max_rows_per_file {NEGATIVE}"),
    "max_bytes_per_file": (lambda t: t.insert(DATA, max_bytes_per_file=-1), f"max_bytes_per_file {NEGATIVE}"),
    "fragments": (lambda t: write_fragments(DATA, t, max_rows_per_file=-1), f"max_rows_per_file {NEGATIVE}"),
    "update": (lambda t: t.update({"i": "i"}, conflict_retries=-1), f"conflict_retries {NEGATIVE}"),
    "delete": (lambda t: t.delete("i = 1", conflict_retries=-1), f"conflict_retries {NEGATIVE}"),
    "merge": (lambda t: t.merge_insert("i").conflict_retries(-1), "conflict_retries is -1, expected at least 0"),
    "optimize_indices": (
        lambda t: t.optimize.optimize_indices(num_indices_to_merge=-1),
        f"num_indices_to_merge {NEGATIVE}",
    ),
    "compact_files": (
        lambda t: t.optimize.compact_files(target_rows_per_fragment=-1),
        f"target_rows_per_fragment {NEGATIVE}",
    ),
    "num_threads": (lambda t: t.optimize.compact_files(num_threads=-1), f"num_threads {NEGATIVE}"),
    "bitmap": (lambda t: Bitmap().add(-1), "unsigned 32-bit integer, got -1"),
    "read_range": (lambda t: LanceFileSession(t.uri).read_range(a_file(t), -1, 2), f"offset {NEGATIVE}"),
    "read_range length": (lambda t: LanceFileSession(t.uri).read_range(a_file(t), 1, -1), f"length {NEGATIVE}"),
}


def a_file(table: pennon.LanceDataset) -> str:
    return f"data/{table.get_fragments()[0].data_files()[0].path}"


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> pennon.LanceDataset:
    return pennon.write_dataset(DATA, tmp_path_factory.mktemp("arguments") / "t")


@pytest.mark.filterwarnings("ignore:replace_schema_metadata")
@pytest.mark.parametrize("name", TYPES)
def test_wrong_types(unchanged: pennon.LanceDataset, name: str) -> None:
    call, message = TYPES[name]
    with pytest.raises(pennon.InvalidTypeError, match=message) as found:
        call(unchanged)
    assert isinstance(found.value, TypeError)
    assert unchanged.latest_version == 1


@pytest.mark.parametrize("name", VALUES)
def test_wrong_values(unchanged: pennon.LanceDataset, name: str) -> None:
    call, message = VALUES[name]
    with pytest.raises(pennon.InvalidInputError, match=message):
        call(unchanged)
    assert unchanged.latest_version == 1


@pytest.mark.parametrize("name", TOO_SMALL)
def test_numbers_that_are_too_small(unchanged: pennon.LanceDataset, name: str) -> None:
    call, message = TOO_SMALL[name]
    with pytest.raises(PositionError, match=message) as found:
        call(unchanged)
    assert isinstance(found.value, OverflowError)
    assert isinstance(found.value, ValueError)
    assert unchanged.latest_version == 1


def test_secrets_are_not_shown(unchanged: pennon.LanceDataset) -> None:
    with pytest.raises(pennon.InvalidTypeError, match=r"storage_options .* 'key': bytes") as found:
        pennon.dataset(unchanged.uri, storage_options={"key": b"secret"})
    assert "secret" not in str(found.value)


def test_numbers_of_other_libraries(unchanged: pennon.LanceDataset) -> None:
    one = pytest.importorskip("numpy").int64(1)
    assert unchanged.checkout_version(one).version == 1
    assert unchanged.head(one).num_rows == unchanged.take([one]).num_rows == 1
    assert unchanged.sample(one).num_rows == unchanged.history(one).num_rows == 1
    assert sum(batch.num_rows for batch in unchanged.to_batches(batch_size=one, limit=one)) == 1
