"""Errors of the package: a wrong call raises a `PennonError`, which is also the builtin that pylance raises."""

from __future__ import annotations

import ast
import copy
import pickle
from pathlib import Path
from typing import Any

import pennon
import pennon.progress
import pyarrow as pa
import pytest
from pennon.blob import Blob, blob_field
from pennon.sampler import FullScanSampler, ShardedBatchSampler, ShardedFragmentSampler
from tblib import pickling_support

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "python" / "pennon", ROOT / "spark-plugin" / "pyspark_pennon")
OWN = {name: getattr(pennon.errors, name) for name in pennon.errors.__all__ if not name.endswith("Warning")}
# What is raised by another name than that of an error of `pennon`, by file, with the reason.
ELSEWISE = {
    ("pennon/_address.py", "_invalid"): "makes one of pennon's",
    ("pennon/_predicate.py", "_UntranslatableError"): "caught where it is raised",
    ("pennon/__main__.py", "ModuleNotFoundError"): "what Python raises for a package that is not installed",
    ("pennon/_compatibility/__init__.py", "AttributeError"): "Python demands it of __getattr__",
    ("pennon/_readers.py", "_unknown"): "makes one of pennon's",
    ("pennon/_table/handles.py", "AttributeError"): "Python demands it of __get__",
    ("pennon/arrow/__init__.py", "AttributeError"): "Python demands it of __getattr__",
    ("pennon/arrow/_image_array.py", "kind"): "one of two of pennon's, by the answer of a server",
    ("pennon/cli/_csv.py", "_by_name"): "makes one of pennon's of pyarrow's",
    ("pennon/cli/_csv.py", "_not_utf8"): "makes one of pennon's",
    ("pennon/cli/_json.py", "_no_object"): "makes one of pennon's",
    ("pennon/cli/_types.py", "nested_in_csv"): "makes one of pennon's",
    ("pennon/cli/inspect.py", "error"): "one of pennon's that was caught",
    ("pennon/cli/sql.py", "_failure"): "makes one of pennon's of DuckDB's, or what Ctrl-C raises",
    ("pennon/jobs/_run.py", "conflict"): "one of pennon's that was caught",
    ("pyspark_pennon/__init__.py", "AttributeError"): "Python demands it of __getattr__",
    ("pyspark_pennon/tasks/executor.py", "value"): "one of pennon's that was caught",
    ("pyspark_pennon/tasks/failed_jobs.py", "failure"): "one of pennon's that was made of Spark's",
    (
        "pyspark_pennon/tasks/failed_jobs.py",
        "first",
    ): "one of pennon's, or one of several of Spark's",
    ("pyspark_pennon/optimize.py", "conflict"): "one of pennon's that was caught",
    ("pyspark_pennon/types/storable.py", "_misfit"): "makes one of pennon's",
}


def raised(source: str) -> list[tuple[int, str]]:
    """Line and name of what a module raises by a name of its own."""
    nodes = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    called = [node.func if isinstance(node, ast.Call) else node for node in nodes]
    return [(node.lineno, node.id) for node in called if isinstance(node, ast.Name)]


def test_the_packages_raise_their_own_errors() -> None:
    found: dict[tuple[str, str], list[int]] = {}
    for root in PACKAGES:
        for path in sorted(root.rglob("*.py")):
            for line, name in raised(path.read_text()):
                where = str(path.relative_to(root.parent)), name
                found.setdefault(where, []).append(line)
    assert {name for _, name in found} > {"InvalidInputError", "InvalidTypeError", "UnsupportedError"}
    others = {where for where in found if where[1] not in OWN}
    assert {where for where in others if not is_made_for_spark(*where)} == set(ELSEWISE)


def is_made_for_spark(file: str, name: str) -> bool:
    """Whether a function makes one of pennon's errors, which is imported when it is needed."""
    return file.startswith("pyspark_pennon/") and name in FOR_SPARK


FOR_SPARK = {
    "invalid": ValueError,
    "repeated": ValueError,
    "wrong_type": TypeError,
    "mismatch": ValueError,
    "exists": ValueError,
    "missing": ValueError,
    "unsupported": NotImplementedError,
    "internal": RuntimeError,
    "store_error": OSError,
}


def test_errors_that_spark_raises() -> None:
    source = (PACKAGES[1] / "errors.py").read_text()
    made: dict[str, Any] = {}
    exec(compile(source, "errors.py", "exec"), made)
    for name, builtin in FOR_SPARK.items():
        error = made[name]("found", "s3://t") if name in ("exists", "missing") else made[name]("found")
        assert isinstance(error, pennon.PennonError)
        assert isinstance(error, builtin)
        assert str(error) == "found"


@pytest.mark.parametrize("name", sorted(OWN))
def test_fields(name: str) -> None:
    error = OWN[name]("found that")
    assert (str(error), error.path, error.version, error.fragment) == ("found that", None, None, None)
    assert error.retryable is (name == "CommitConflictError")
    error.path, error.version, error.fragment = "a.lance", 3, 4
    for copied in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(copied) is OWN[name]
        assert (str(copied), copied.path, copied.version, copied.fragment) == ("found that", "a.lance", 3, 4)
    if name not in ("CommitConflictError", "CommitUnknownError", "MissingPackageError"):
        assert OWN[name]("x", path="p", version=1, fragment=2).fragment == 2


@pytest.mark.parametrize("name", sorted(OWN))
def test_copies_that_dask_sends(name: str) -> None:
    error = OWN[name]("found that")
    error.path = "a.lance"
    own = {"name": "module", "uuid": "a1", "retryable": False}
    for field in (fields := {field: value for field, value in own.items() if hasattr(error, field)}):
        setattr(error, field, fields[field])
    error.add_note("seen by a task")
    function, args, *state = pickling_support.pickle_exception(error)
    sent = function(*args)
    sent.__setstate__(state[0])
    for copied in (copy.copy(error), pickle.loads(pickle.dumps(error)), sent):
        assert type(copied) is OWN[name]
        assert (copied.args, copied.path, copied.__notes__) == (error.args, "a.lance", ["seen by a task"])
        assert {field: getattr(copied, field) for field in fields} == fields


def test_fields_tell_where(table: pennon.LanceDataset, uri: str, tmp_path: Path) -> None:
    table.delete("id >= 8")
    with pytest.raises(pennon.NotFoundError, match="Fragment 2 is not in version 2") as caught:
        _fragment(table, 2).count_rows()
    assert (caught.value.path, caught.value.version, caught.value.fragment) == (uri, 2, 2)
    missing, file = str(tmp_path / "missing"), str(tmp_path / "missing.lance")
    append = pennon.LanceOperation.Append([table.get_fragments()[0].metadata])
    late = pennon.LanceDataset.commit
    restore = pennon.LanceOperation.Restore(9)
    for call, kind, where in (
        (lambda: pennon.dataset(missing), pennon.NotFoundError, (missing, None)),
        (lambda: pennon.dataset(Path(uri), version=9), pennon.NotFoundError, (uri, 9)),
        (lambda: pennon.dataset(uri, version="gold"), pennon.NotFoundError, (uri, None)),
        (lambda: table.checkout_version(9), pennon.NotFoundError, (uri, 9)),
        (lambda: pennon.write_dataset(numbers_of(table), uri), pennon.AlreadyExistsError, (uri, None)),
        (lambda: table.insert({"nope": [1]}), pennon.SchemaMismatchError, (uri, 2)),
        (lambda: pennon.LanceDataset.drop(missing), pennon.NotFoundError, (missing, None)),
        (lambda: pennon.verify(missing), pennon.NotFoundError, (missing, None)),
        (lambda: late(missing, append, read_version=3), pennon.NotFoundError, (missing, 3)),
        (lambda: late(table, restore, read_version=2), pennon.NotFoundError, (uri, 2)),
        (lambda: pennon.file.LanceFileReader(file), pennon.NotFoundError, (file, None)),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert (caught.value.path, caught.value.version) == where, caught.value
    progress = pennon.progress.FileSystemFragmentWriteProgress(str(tmp_path / "progress"))
    with pytest.raises(pennon.NotFoundError) as caught:
        progress.complete(table.get_fragments()[0].metadata)
    assert (caught.value.fragment, str(caught.value.path).endswith("fragment_0.in_progress")) == (0, True)


def _fragment(table: pennon.LanceDataset, number: int) -> pennon.LanceFragment:
    """As a process finds it that unpickled a fragment."""
    make, arguments = table.get_fragments()[0].__reduce__()
    return make(*arguments[:-1], number)


def test_wrong_types(table: pennon.LanceDataset, tmp_path: Path) -> None:
    """As in the reference these are TypeErrors; and errors of pennon."""
    one = table.get_fragments()[0].metadata
    for call in (
        lambda: pennon.write_dataset(5, "memory://errors"),
        lambda: pennon.dataset(table.uri, asof=5),
        lambda: pennon.dataset(table.uri, commit_lock=5),
        lambda: pennon.dataset(table.uri, session=5),
        lambda: pennon.dataset(table.uri, storage_options={"a": 1}),
        lambda: table.delete(5),
        lambda: table.update({"id": "1"}, where=5),
        lambda: table.scanner(columns="id"),
        lambda: table.changes(0, columns="id"),
        lambda: table.merge_insert(5),
        lambda: table.merge_insert([5]),
        lambda: table.merge_insert("id").retry_timeout(5),
        lambda: table.add_columns({"a": 5}),
        lambda: table.add_columns(5),
        lambda: table.update_config(5),
        lambda: pennon.LanceDataset.commit(table, 5, read_version=1),
        lambda: pennon.LanceDataset.commit_batch(table, [5]),
        lambda: pennon.LanceOperation.Append(5),
        lambda: pennon.LanceDataset.commit(table, pennon.LanceOperation.Delete([one], "x", 5), read_version=1),
        lambda: pennon.LanceSchema.from_pyarrow(5),
        lambda: pennon.blob_array([5]),
        lambda: pennon.blob_field("b", inline_size_threshold="5"),
        lambda: pennon.file.LanceFileReader(b"bytes"),
        lambda: pennon.file.LanceFileWriter(tmp_path / "f", nonsense=1),
    ):
        with pytest.raises(pennon.InvalidTypeError) as caught:
            call()
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, pennon.PennonError)
    assert table.version == table.latest_version == 1


def test_texts_that_lack_a_key() -> None:
    for call in (
        lambda: pennon.FragmentMetadata.from_json("{}"),
        lambda: pennon.optimize.CompactionPlan.from_json("{}"),
        lambda: pennon.optimize.CompactionTask.from_json("{}"),
        lambda: pennon.optimize.RewriteResult.from_json("{}"),
    ):
        with pytest.raises(pennon.MissingKeyError, match="lacks") as caught:
            call()
        assert isinstance(caught.value, KeyError)
    for call in (
        lambda: pennon.FragmentMetadata.from_json("[1"),
        lambda: pennon.FragmentMetadata.from_json("[]"),
        lambda: pennon.FragmentMetadata.from_json('{"id": 1, "files": [{"nope": 1}], "physical_rows": 1}'),
        lambda: pennon.optimize.CompactionPlan.from_json("5"),
        lambda: pennon.optimize.CompactionTask.from_json("["),
    ):
        with pytest.raises(pennon.InvalidInputError) as wrong:
            call()
        assert isinstance(wrong.value, ValueError)


PLAIN = {"allow_http": "yess", "aws_endpoint": "http://localhost"}


def test_wrong_calls(table: pennon.LanceDataset) -> None:
    blobs = pennon.write_dataset({"b": pennon.blob_array([b"x"])}, "memory://errors-blobs", mode="overwrite")
    for call, message in (
        (lambda: pennon.dataset(), "A uri is required"),
        (lambda: pennon.write_dataset([], "memory://errors"), "Must provide schema"),
        (lambda: pennon.dataset(table.uri, asof="yesterday"), "yesterday"),
        (lambda: table.take([-1]), "must not be negative nor exceed 64 bits, found -1"),
        (lambda: table.alter_columns({"path": "id"}), "At least one of"),
        (lambda: table.merge_insert("id").memory_limit(-1), "memory_limit is -1"),
        (lambda: pennon.dataset("s3://b/t", storage_options=PLAIN), '"allow_http": found "yess", expected "true"'),
        (
            lambda: blobs.add_columns({"n": "length(b)"}),
            "b is a blob column, here a struct with the members data",
        ),
        (lambda: blobs.to_table(filter="length(b) > 1"), "b is a blob column, here a struct with the members kind"),
        (lambda: pennon.fragment.RowIdSequence(pa.array([1, None])), "null"),
        (lambda: Blob(b"a", "s3://b"), "cannot have both data and uri"),
        (lambda: blob_field("b", dedicated_size_threshold=0), "must be positive, got 0"),
        (lambda: blob_field("b", inline_size_threshold=2**64), "must fit in 64 bits, got 18446744073709551616"),
    ):
        with pytest.raises(pennon.InvalidInputError, match=message) as caught:
            call()
        assert isinstance(caught.value, pennon.PennonError)
        assert isinstance(caught.value, ValueError)


SWALLOWED = {
    "progress.py": {"begin", "complete"},  # of callbacks, which releases to come may tell more
    "sampler.py": {"__call__", "iter_fragments"},  # the abstract ones
    "sql.py": {"scanner"},  # what DataFusion asks for besides
    "_lance_api.py": {"from_batches", "from_dataset", "from_fragment", "sort_by"},  # refused whatever is given
}


def test_no_keywords_are_swallowed() -> None:
    """Every `**kwargs` is handed on or refused, except those named."""
    found: dict[str, set[str]] = {}
    functions = 0
    for path in [path for root in PACKAGES for path in root.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or node.args.kwarg is None:
                continue
            functions += 1
            names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == node.args.kwarg.arg]
            if not any(isinstance(name.ctx, ast.Load) for name in names):
                found.setdefault(path.name, set()).add(node.name)
    assert functions > 20
    assert found == SWALLOWED


def test_misspelled_keywords(table: pennon.LanceDataset, uri: str, tmp_path: Path) -> None:
    writer = pennon.file.LanceFileWriter
    scan = FullScanSampler()
    for call in (
        lambda **wrong: table.sample(1, **wrong),
        lambda **wrong: table.optimize.enable_auto_cleanup({}, **wrong),
        lambda **wrong: table.optimize.disable_auto_cleanup(**wrong),
        lambda **wrong: writer(tmp_path / "file", **wrong),
        lambda **wrong: list(scan(table, **wrong)),
        lambda **wrong: list(ShardedFragmentSampler(0, 1)(table, **wrong)),
        lambda **wrong: list(ShardedBatchSampler(0, 1)(table, **wrong)),
        lambda **wrong: table.shallow_clone(str(tmp_path / "clone"), 1, **wrong),
        lambda **wrong: table.deep_clone(str(tmp_path / "clone"), 1, **wrong),
    ):
        for value in (None, 5):
            with pytest.raises(pennon.InvalidTypeError, match="unexpected keyword argument 'colums'"):
                call(colums=value)
    for call in (
        table.scanner,
        table.to_table,
        table.to_batches,
        table.to_pandas,
        table.count_rows,
        table.head,
        lambda **wrong: table.insert(numbers_of(table), **wrong),
        lambda **wrong: pennon.dataset(uri, **wrong),
    ):
        with pytest.raises(TypeError, match="colums"):
            call(colums=["id"])
    with pytest.raises(pennon.InvalidInputError, match="Unknown scan option 'colums'"):
        pennon.dataset(uri, default_scan_options={"colums": ["id"]}).to_table()
    assert not (tmp_path / "clone").exists()
    assert table.version == pennon.dataset(uri).version == 1


def numbers_of(table: pennon.LanceDataset) -> pa.Table:
    return table.to_table()
