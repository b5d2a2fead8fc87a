"""Every cut and every changed byte of small data files: rows of the declared shape or a typed error, never a crash.

Which byte is which does not matter: `make nightly` tries each position, `make test` every seventh, and each of the
last 200, which say where everything is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pennon
import pennon.file
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter
from support.long import LONG
from support.refusals import VERSIONS

pytestmark = pytest.mark.slow

FLAT = {
    "number": pa.array([1, None, 3, 2**40, 5], pa.int64()),
    "text": ["a", None, "", "words of some length", "a"],
    "flag": [True, False, None, True, True],
    "pair": pa.array([[1, 2], None, [3, None], [4, 5], [6, 7]], pa.list_(pa.int16(), 2)),
}
NESTED = {
    "list": [[1, 2], None, [], [None], [3]],
    "tree": [{"x": 1, "y": ["a", "b"]}, {"x": None, "y": None}, {"x": 3, "y": []}, {"x": 4, "y": ["c"]}] * 2,
}
# Enough rows for dictionaries and runs.
LONGER = {
    "few": [f"v{i % 3}" for i in range(130)],
    "runs": pa.array([i // 40 for i in range(130)], pa.int32()),
}
CONTENTS = {
    "flat": pa.table(FLAT),
    "list": pa.table({"list": NESTED["list"]}),
    "tree": pa.table({"tree": NESTED["tree"]}),
    "longer": pa.table(LONGER),
}
STEP, LAST = 7, 200
WRITERS = {"reference": LanceFileWriter, "pennon": pennon.file.LanceFileWriter}


def positions(data: bytes, first: int) -> list[int]:
    end = len(data) if LONG else len(data) - LAST
    return [*range(0 if LONG else first, end, 1 if LONG else STEP), *range(end, len(data))]


def damaged(data: bytes, positions: list[int]) -> Iterator[bytes]:
    """Cuts, and bytes with one bit or all bits changed in turns."""
    for at in positions:
        yield data[:at]
        change = 0xFF if at % 2 else 1 << at // 2 % 8
        yield data[:at] + bytes([data[at] ^ change]) + data[at + 1 :]


def attempt(path: Path) -> str:
    """What became of reading the file in several ways."""
    try:
        reader = pennon.file.LanceFileReader(path)
        rows = reader.num_rows()
        tables = [reader.read_all().to_table()]
        if rows > 3:
            tables += [reader.read_range(1, 2).to_table(), reader.take_rows([0, rows - 1]).to_table()]
    except (pennon.CorruptError, pennon.UnsupportedError) as error:
        return type(error).__name__ if path.name in str(error) else f"an error without the file's name: {error}"
    assert [table.num_rows for table in tables] == [rows, 2, 2][: len(tables)]
    for table in tables:
        table.validate(full=True)
    return "read"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("content", CONTENTS)
def test_every_byte(tmp_path: Path, content: str, writer: str, version: str) -> None:
    path = tmp_path / "victim.lance"
    with WRITERS[writer](str(path), version=version) as file:
        file.write_batch(CONTENTS[content])
    data = path.read_bytes()
    outcomes: Counter[str] = Counter()
    # All remainders are among those of a content.
    tried = positions(data, (VERSIONS.index(version) + 3 * list(WRITERS).index(writer)) % STEP)
    for victim in damaged(data, tried):
        path.write_bytes(victim)
        outcomes[attempt(path)] += 1
    path.write_bytes(data)
    assert pennon.file.LanceFileReader(path).read_all().to_table().equals(CONTENTS[content])
    assert set(outcomes) <= {"read", "CorruptError", "UnsupportedError"}
    # Every cut is found; padding and values may be anything.
    assert outcomes["CorruptError"] >= len(tried)
    assert outcomes["read"] > 0
