"""Storage options by a function of the user: called in every process, shown and shipped by none."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark_pennon import LanceTable, read, read_changes, write
from pyspark_pennon.options.feed import FeedOptions
from pyspark_pennon.options.provider import ProvidedOptions, stored, with_provider
from pyspark_pennon.options.source import ReadOptions, WriteOptions, session_storage_options
from pyspark_pennon.tasks.executor import typed_error
from support.long import long
from support.spark_frames import plan_texts

SECRET = "FAKE5ECRET"
NAME = "vault_of_a_test:options"
PROVIDED = {"provider": NAME, "aws_region": "given"}

VAULT = """
import os

def options():
    with open({calls!r}, "a") as calls:
        calls.write(f"{{os.getpid()}}\\n")
    return {{"aws_secret_access_key": "FAKE5" + "ECRET", "aws_region": "provided"}}

class Vault:
    options = staticmethod(options)

def fails():
    raise KeyError("FAKE5" + "ECRET")

def gives_a_list():
    return ["FAKE5" + "ECRET"]

def gives_a_number():
    return {{"aws_region": 5}}

constant = "FAKE5" + "ECRET"
"""


@pytest.fixture(scope="session")  # Spark takes a file of one name once, and workers come back to a module.
def calls(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Who called the provider, which driver and executors can import: a line with the number of its process."""
    folder = tmp_path_factory.mktemp("vault")
    module = folder / "vault_of_a_test.py"
    module.write_text(VAULT.format(calls=str(folder / "calls")))
    spark.sparkContext.addPyFile(str(module))
    yield folder / "calls"
    sys.modules.pop("vault_of_a_test", None)


@pytest.fixture
def table(uri: str, calls: Path) -> str:
    pennon.write_dataset(pa.table({"id": [1, 2, 3]}), uri, max_rows_per_file=2)
    calls.write_text("")
    return uri


def others(calls: Path) -> int:
    """Calls by other processes than this one, since the last time that was asked."""
    found = [int(line) for line in calls.read_text().split()]
    calls.write_text("")
    return sum(process != os.getpid() for process in found)


def test_functions_and_verbs_call_it_in_their_tasks(spark: SparkSession, table: str, calls: Path) -> None:
    frame = read(spark, table, storage_options=PROVIDED)
    assert others(calls) == 0
    assert frame.count() == 3
    assert others(calls) > 0
    assert SECRET not in plan_texts(frame)
    options = with_provider(PROVIDED)
    assert SECRET in str(stored(options))
    assert SECRET.encode() not in cloudpickle.dumps(ReadOptions(table, options))
    done = write(frame, table, mode="append", storage_options=PROVIDED)
    assert others(calls) > 0
    handle = LanceTable.forPath(spark, table, PROVIDED)
    assert SECRET not in repr(handle) + str(done)
    handle.update(set={"id": "id + 10"}, condition="id > 1")
    assert others(calls) > 0
    merge = handle.alias("t").merge(spark.range(3).alias("s"), "t.id = s.id")
    merge.whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert others(calls) > 0
    assert handle.verify(data=True).count() == 0
    assert others(calls) > 0
    handle.optimize().executeCompaction()
    assert others(calls) > 0
    changes = read_changes(spark, table, starting_version=1, net=True, storage_options=PROVIDED)
    assert changes.count() == 6
    assert others(calls) > 0
    assert SECRET not in plan_texts(changes)


def test_the_data_source_and_streams_call_it(spark: SparkSession, table: str, calls: Path, tmp_path: Path) -> None:
    source = spark.read.format("pennon")
    for option in ("storageOptionsProvider", "storage.provider", "storage_options_provider"):
        frame = source.option(option, NAME).load(table)
        assert frame.count() == 3
        assert others(calls) > 0
        assert SECRET not in plan_texts(frame)
    writer = frame.write.format("pennon").mode("append").option("storageOptionsProvider", NAME)
    writer.save(table)
    assert others(calls) > 0
    # The process in which Spark plans a stream gets no files of the session.
    installed = "builtins:dict"
    rows = spark.readStream.format("pennon").option("storageOptionsProvider", installed).load(table)
    into = rows.writeStream.format("pennon").option("storageOptionsProvider", installed).trigger(availableNow=True)
    into.option("checkpointLocation", str(tmp_path / "c")).start(f"{table}-2").awaitTermination()
    assert pennon.dataset(f"{table}-2").count_rows() == 6
    into = spark.readStream.format("pennon").option("storageOptionsProvider", NAME).load(table).writeStream
    query = into.format("noop").option("checkpointLocation", str(tmp_path / "d")).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match="No module named 'vault_of_a_test'"):
        query.awaitTermination()
    for parsed in (
        ReadOptions.parse({"path": table, "storageoptionsprovider": NAME}),
        WriteOptions.parse({"path": table, "storageoptionsprovider": NAME}),
        FeedOptions.parse({"path": table, "storageoptionsprovider": NAME}, stream=True),
    ):
        assert stored(parsed.storage_options) == {"aws_secret_access_key": SECRET, "aws_region": "provided"}
        assert SECRET not in repr(parsed)
        assert SECRET.encode() not in pickle.dumps(parsed)
    with pytest.raises(PySparkException, match="did you mean 'storageOptionsProvider'"):
        source.option("storageOptionProvider", NAME).load(table)


def test_the_session_names_it(spark: SparkSession, table: str, calls: Path) -> None:
    spark.conf.set("spark.pennon.storage.provider", NAME)
    try:
        assert read(spark, table).count() == 3
        assert others(calls) > 0
        found = session_storage_options(spark, {"aws_region": "given"})
        assert session_storage_options(spark, found) is found
        assert stored(found) == {"aws_secret_access_key": SECRET, "aws_region": "provided"}
        assert session_storage_options(spark, {"provider": ""}) == {}
    finally:
        spark.conf.unset("spark.pennon.storage.provider")


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        ("nothing", pennon.InvalidInputError, "cannot be imported: .* has no attribute 'nothing'"),
        ("fails", pennon.StoreError, r"failed: KeyError in line 13 of vault_of_a_test.py, with a message that is"),
        ("gives_a_list", pennon.InvalidInputError, "returned a list instead of a dictionary of strings"),
        ("gives_a_number", pennon.InvalidInputError, "returned an int for 'aws_region' instead of a string"),
        ("constant", pennon.InvalidInputError, "is not a function: str"),
    ],
)
def test_errors_on_the_driver(
    spark: SparkSession, table: str, function: str, kind: type[Exception], message: str
) -> None:
    name = f"vault_of_a_test:{function}"
    with pytest.raises(kind, match=f"provider of storage options, {name}, {message}") as caught:
        read(spark, table, storage_options={"provider": name})
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(PySparkException, match=message) as shown:
        spark.read.format("pennon").option("storageOptionsProvider", name).load(table)
    assert SECRET not in str(shown.value)


def test_errors_on_executors(
    spark: SparkSession, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that only the driver can import, and one that fails elsewhere than on the driver."""
    fails = f"open({SECRET!r})"
    text = f"import os\ndef options():\n    return {{}} if os.getpid() == {os.getpid()} else {fails}\n"
    (tmp_path / "only_here.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    only_here = {"provider": "only_here:options"}
    message = "only_here:options, cannot be imported on an executor: No module named 'only_here'. Driver and exec"
    frame = read(spark, table, storage_options=only_here)
    with pytest.raises(PySparkException) as caught:
        frame.count()
    found = typed_error(caught.value)
    assert type(found) is pennon.InvalidInputError
    assert message in str(found)
    with pytest.raises(pennon.InvalidInputError, match=message):
        LanceTable.forPath(spark, table, only_here).update(set={"id": "id"}, condition="id = 1")
    spark.sparkContext.addPyFile(str(tmp_path / "only_here.py"))
    message = r"failed on an executor: FileNotFoundError in line 3 of only_here\.py"
    with pytest.raises(pennon.StoreError, match=message) as failed:
        write(spark.range(2, numPartitions=1), table, mode="append", storage_options=only_here)
    assert SECRET not in "".join(traceback.format_exception(failed.value))
    assert pennon.dataset(table).version == 1


@pytest.mark.parametrize("name", ["module", "a b:c", ":f", "m:"])
def test_invalid_names(spark: SparkSession, table: str, name: str) -> None:
    with pytest.raises(pennon.InvalidInputError, match="expected module:function"):
        read(spark, table, storage_options={"provider": name})


def test_values_of_options() -> None:
    found = with_provider({"provider": "os.path:join", "a": "b"})
    assert repr(found) == "ProvidedOptions('os.path:join')"
    assert pickle.loads(pickle.dumps(found)) == found != ProvidedOptions("os.path:join", {})
    assert with_provider({"a": "b"}) == {"a": "b"}
    assert with_provider({"Provider": "os.path:join"}) == ProvidedOptions("os.path:join", {})


def options_of_a_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> ProvidedOptions:
    """Those of `options` in a module with this text."""
    name = f"provides_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return ProvidedOptions(f"{name}:options", {"AWS_REGION": "given", "b": "given"})


def test_provided_options_go_before_given_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "calls = []\ndef options():\n    calls.append(0)\n    return {'aws_region': str(len(calls))}\n"
    found = options_of_a_module(monkeypatch, tmp_path, text)
    assert stored(found) == {"aws_region": "1", "b": "given"}
    assert found["aws_region"] == "2"


LAZY = f"""
from collections.abc import Mapping
class Lazy(Mapping):
    def __getitem__(self, key): raise KeyError({SECRET!r})
    def __iter__(self): return iter(["a"])
    def __len__(self): return 1
options = Lazy
"""


@pytest.mark.parametrize("text", [f"raise ImportError({SECRET!r})", f"raise AttributeError({SECRET!r})", LAZY])
def test_what_a_module_raises_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    found = options_of_a_module(monkeypatch, tmp_path, text)
    with pytest.raises(pennon.PennonError, match="The provider of storage options, provides_") as caught:
        stored(found)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert bool(found)


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from pyspark_pennon import LanceTable, read, write

uri, log, module = sys.argv[1:]
session = SparkSession.builder.master("local[1]").config("spark.eventLog.enabled", "true")
session = session.config("spark.eventLog.dir", log).config("spark.ui.enabled", "false")
session = session.config("spark.eventLog.compress", "false")
spark = session.config("spark.pennon.storage.provider", "vault_of_a_test:options").getOrCreate()
spark.sparkContext.addPyFile(module)
write(spark.range(3), uri)
assert read(spark, uri).count() == 3
LanceTable.forPath(spark, uri).delete("id % 3 = 1")
frame = spark.read.format("pennon").option("storageOptionsProvider", "vault_of_a_test:options").load(uri)
frame.write.format("pennon").option("storageOptionsProvider", "vault_of_a_test:options").mode("append").save(uri)
try:
    spark.read.format("pennon").option("storageOptionsProvider", "vault_of_a_test:fails").load(uri).count()
except Exception as error:
    print(error)
spark.stop()
"""


@long
def test_the_event_log_has_none(spark: SparkSession, uri: str, calls: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    module = str(calls.parent / "vault_of_a_test.py")
    environment: dict[str, Any] = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri, str(log), module],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "KeyError in line 13" in done.stdout
    written = [path.read_bytes() for path in log.rglob("*") if path.is_file()]
    assert any(b"vault_of_a_test:options" in text for text in written)
    assert not [text for text in written if SECRET.encode() in text]
    assert SECRET not in done.stdout + done.stderr
