"""Errors of tasks and of the data source, which the driver makes again from the text that Spark has of them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from typing import Any

import pennon
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark_pennon import typed_error
from pyspark_pennon.errors import noted
from pyspark_pennon.tasks.workers import mapped


def failing(kind: str) -> pennon.PennonError:
    """An error whose message has a line of another one, as a value of a table may."""
    message = "The value\npennon.errors.StoreError: of a row\n[pennon {}]"
    if kind == "conflict":
        return pennon.CommitConflictError(message, retryable=False)
    if kind == "unknown":
        return pennon.CommitUnknownError(message, "some-uuid")
    return pennon.CorruptError(message, path="t/data/1.lance", version=3, fragment=4)


@pytest.mark.parametrize("kind", ["conflict", "unknown", "corrupt"])
def test_an_error_in_a_frame_is_the_same_on_the_driver(spark: SparkSession, kind: str) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        raise failing(kind)
        yield

    with pytest.raises(Exception, match="The value") as caught:
        mapped(spark.range(1, numPartitions=1), fail, "id long").collect()
    expected, found = failing(kind), typed_error(caught.value)
    assert (type(found), found.args) == (type(expected), expected.args)
    assert vars(found) == vars(expected)
    (line,) = {line for line in str(caught.value).splitlines() if line.startswith('[pennon {"')}
    assert len(line) < 150


def test_an_error_of_a_data_source_is_the_same_on_the_driver(spark: SparkSession, uri: str) -> None:
    pennon.write_dataset({"id": [1]}, uri)
    with pytest.raises(pennon.NotFoundError) as direct:
        pennon.dataset(uri, 7)
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("pennon").option("version", 7).load(uri)
    found = typed_error(caught.value)
    assert (type(found), str(found), vars(found)) == (pennon.NotFoundError, str(direct.value), vars(direct.value))


def test_errors_are_noted_once_in_every_release_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pennon.CommitConflictError) as caught, noted(), noted():
        raise failing("conflict")
    assert len(caught.value.__notes__) == 1
    with pytest.raises(ZeroDivisionError) as other, noted():
        raise ZeroDivisionError
    assert not hasattr(other.value, "__notes__")
    if sys.version_info < (3, 11):
        return

    class Older(pennon.CorruptError):
        """Without notes, as all are before Python 3.11."""

        @property
        def add_note(self) -> Any:
            raise AttributeError

    monkeypatch.setattr(pennon.errors, "CorruptError", Older)
    older = Older("The value\nof a row", fragment=4)
    older.__class__.__name__ = "CorruptError"
    with pytest.raises(Older) as raised, noted(), noted():
        raise older
    found = typed_error(RuntimeError(f"Traceback\npennon.errors.CorruptError: {raised.value}\n at java"))
    assert (str(found), found.fragment) == ("The value\nof a row", 4)


def traced(error: Exception) -> str:
    """The text that Spark has of an error that a task raised."""
    try:
        with noted():
            raise error
    except type(error) as raised:
        return "".join(traceback.format_exception(raised))


def wrapped() -> Exception:
    """An error that a function raised for a noted one."""
    try:
        try:
            with noted():
                raise failing("conflict")
        except pennon.CommitConflictError as error:
            raise pennon.InvalidInputError("The function failed") from error
    except pennon.InvalidInputError as error:
        return error


def test_the_last_error_counts() -> None:
    text = "".join(traceback.format_exception(wrapped()))
    assert "[pennon " in text
    # Nothing has noted the last one, as where other code calls `pennon` in a task.
    for found in (typed_error(RuntimeError(text)), typed_error(RuntimeError(traced(wrapped())))):
        assert (type(found), found.args) == (pennon.InvalidInputError, ("The function failed",))


class DamagedError(pennon.CorruptError):
    """One of a user."""

    def __init__(self, message: str, reason: str, **given: Any) -> None:
        super().__init__(message, **given)
        self.reason = reason

    def __reduce__(self) -> Any:
        return DamagedError, (str(self), self.reason)


class CommitConflictError(DamagedError):
    """With the name of another class of `pennon`."""


@pytest.mark.parametrize("kind", [DamagedError, CommitConflictError])
@pytest.mark.parametrize("module", ["application", "__main__"])
def test_an_error_of_a_users_class(monkeypatch: pytest.MonkeyPatch, kind: type[DamagedError], module: str) -> None:
    monkeypatch.setattr(kind, "__module__", module)
    expected = failing("corrupt")
    error = kind(str(expected), "a bad disk", path=expected.path, version=3, fragment=4)
    text = traced(error)
    found = typed_error(RuntimeError(text))
    assert (type(found), found.args, vars(found)) == (pennon.CorruptError, expected.args, vars(expected))
    assert traced(error).count('[pennon {"') == 1
    # The message is what stands above the line, as long as it says, below the name of the class.
    for changed in (
        text.replace(str(expected), f"{expected} or so"),
        text.replace(f"{kind.__name__}: ", "OtherError: "),
    ):
        assert getattr(typed_error(RuntimeError(changed)), "fragment", None) is None


def test_a_users_error_in_a_frame(spark: SparkSession) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)

        class LocalError(pennon.CorruptError):
            pass

        raise LocalError("The value\nof a row", fragment=4)
        yield

    with pytest.raises(Exception, match="LocalError") as caught:
        mapped(spark.range(1, numPartitions=1), fail, "id long").collect()
    found: Any = typed_error(caught.value)
    assert (type(found), str(found), found.fragment) == (pennon.CorruptError, "The value\nof a row", 4)
