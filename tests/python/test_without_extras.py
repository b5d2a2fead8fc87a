"""An installation without numpy, pandas and the other packages that only some functions need: one sentence each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pennon
import pyarrow as pa
import pytest

ABSENT = ("numpy", "pandas", "lance", "duckdb", "datafusion", "polars", "PIL", "torch", "matplotlib", "pydantic")
# What a process sees that has none of them.
BEGIN = f"""
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name in {ABSENT} else find(name, *rest)
import pennon
import pyarrow as pa
uri = sys.argv[1]
"""
TOUR = """
table = pennon.write_dataset({"id": [1, 2, 3], "values": [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]}, uri)
table.update({"id": "7"}, where="id = 2")
table.delete("id = 3")
merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
merge.execute([{"id": 9, "values": [0.0, 0.0]}])
print(table.to_table(columns=["id"], filter="id > 1").to_pylist())
print(table.history(1)["_change_type"].to_pylist(), table.take([0])["id"].to_pylist())
print(table.changes(1).read_all().num_rows)
print(table.to_table(filter=pa.compute.field("id") == 9, columns=["id"]).to_pylist(), len(str(table.schema)) > 0)
table.create_scalar_index("id", "BTREE")
print(table.count_rows("id = 7"), [batch.num_rows for batch in table.to_batches()])
"""
CALLS = {
    "table.to_pandas()": "to_pandas needs the package pandas, which is not installed: pip install pandas",
    "table.get_fragments()[0].to_pandas()": "to_pandas needs the package pandas, ",
    "table.sql('SELECT 1').build().to_batch_records()": "LanceDataset.sql needs the package datafusion, ",
    "pennon.LanceDataset.from_pydantic_model(1, [])": "from_pydantic_model needs the package pydantic, ",
    "__import__('pennon.torch.data').torch.data.LanceDataset(uri, 8)": "needs the package torch, ",
    "__import__('pennon.arrow').arrow.BFloat16Type().to_pandas_dtype()": "needs the package pandas, ",
}


def run(program: str, uri: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BEGIN + program, str(uri)], capture_output=True, text=True)


def test_tables_need_none_of_them(tmp_path: Path) -> None:
    done = run(TOUR, tmp_path / "table")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[{'id': 7}, {'id': 9}]",
        "['insert', 'update'] [1]",
        "3",
        "[{'id': 9}] True",
        "1 [1, 1, 1]",
    ]


@pytest.mark.parametrize("call", CALLS)
def test_a_function_says_what_it_needs(call: str, tmp_path: Path) -> None:
    pennon.write_dataset(pa.table({"id": [1]}), tmp_path / "table")
    done = run(f"table = pennon.dataset(uri)\n{call}", tmp_path / "table")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("pennon.errors.MissingPackageError: ")
    assert CALLS[call] in last
    assert "During handling" not in done.stderr


@pytest.mark.parametrize(("name", "package"), [("sql", "pennon[sql]"), ("plot", "pennon[plot]")])
def test_a_command_says_what_it_needs(name: str, package: str, tmp_path: Path) -> None:
    pennon.write_dataset(pa.table({"id": [1]}), tmp_path / "table")
    arguments = {"sql": ["SELECT 1"], "plot": ["--output", str(tmp_path / "plot.png")]}[name]
    program = f"from pennon.__main__ import main; sys.argv[1:] = [{name!r}, uri, *{arguments}]; sys.exit(main())"
    done = run(program, tmp_path / "table")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 3
    assert line.startswith("pennon: ")
    assert f"pip install '{package}'" in line
