"""Sessions that several tables share."""

from __future__ import annotations

import os
from pathlib import Path

import pennon
import pyarrow as pa
import pytest


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    pennon.write_dataset(pa.table({"n": range(40)}), uri, max_rows_per_file=10)
    return uri


def test_tables_share_what_was_read(uri: str) -> None:
    session = pennon.Session()
    first = pennon.dataset(uri, session=session)
    assert first.session().is_same_as(session)
    assert session.is_same_as(first.session())
    assert not pennon.dataset(uri).session().is_same_as(session)
    first.to_table()
    before = session.size_bytes()
    assert before > 0
    hits = first.counters().cache_hits
    second = pennon.dataset(uri, session=session)
    assert second.to_table(columns=["n"]).num_rows == 40
    # The manifest, then four data files.
    assert second.counters().cache_hits - hits >= 5
    assert second.checkout_version(1).session().is_same_as(session)
    assert session.size_bytes() == before
    assert "size_bytes=" in repr(session)
    assert session.index_cache_size_bytes() == 0


def test_writes_take_a_session(uri: str) -> None:
    session = pennon.Session(metadata_cache_size_bytes=1 << 20)
    table = pennon.write_dataset({"n": [40]}, uri, mode="append", session=session)
    assert table.session().is_same_as(session)
    table.delete("n = 3")
    assert table.session().is_same_as(session)
    (fragment,) = pennon.fragment.write_fragments({"n": [41]}, uri, session=session)
    other = pennon.LanceFragment.create(uri, {"n": [42]}, session=session)
    append = pennon.LanceOperation.Append([fragment, other])
    assert pennon.LanceDataset.commit(uri, append, read_version=table.version).count_rows() == 42


def test_a_session_of_no_bytes_keeps_nothing(uri: str) -> None:
    session = pennon.Session(metadata_cache_size_bytes=0)
    assert pennon.dataset(uri, session=session).take_rows([3, 30]).num_rows == 2
    assert session.size_bytes() == 0


def test_what_is_not_a_session_is_refused(uri: str) -> None:
    for given in (object(), 4, "session"):
        with pytest.raises(TypeError, match="session must be a Session"):
            pennon.dataset(uri, session=given)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="session must be a Session"):
            pennon.write_dataset({"n": [1]}, uri, mode="append", session=given)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        pennon.Session(metadata_cache_size_bytes=-1)
    with pytest.raises(pennon.UnsupportedError, match="store_registry"):
        pennon.Session(store_registry=object())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_starts_with_an_empty_one(uri: str) -> None:
    session = pennon.Session()
    pennon.dataset(uri, session=session).to_table()
    assert session.size_bytes() > 0
    pid = os.fork()
    if pid == 0:
        empty = session.size_bytes() == 0
        found = pennon.dataset(uri, session=session)
        os._exit(0 if empty and found.count_rows() == 40 and found.session().is_same_as(session) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert session.size_bytes() > 0


def test_takes_by_id_make_one_index(uri: str) -> None:
    table = pennon.dataset(uri, metadata_cache_size_bytes=0)
    for _ in range(3):
        assert table.take_rows([1, 39]).num_rows == 2
    assert table.counters().row_id_indexes == 1
    table.insert({"n": [50]})
    assert table.take_rows([1, 40]).num_rows == 2
    assert table.counters().row_id_indexes == 2
