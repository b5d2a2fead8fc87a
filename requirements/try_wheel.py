"""Installs a wheel in an empty environment, runs a first query there, and says how long each took.

    python requirements/try_wheel.py dist/pennon-*.whl

It needs the index of packages, and the interpreter that runs it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

QUERY = """
import pennon
table = pennon.write_dataset({"id": [1, 2, 3], "name": ["ann", "bob", "cid"]}, "people.lance")
table.delete("id = 3")
assert table.to_table(filter="id > 1").to_pylist() == [{"id": 2, "name": "bob"}]
"""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print how long it takes."""
    begin = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - begin:.1f} s", flush=True)


def main() -> int:
    """Run the steps; the first that fails ends it."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wheel = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder, "environment", "bin", "python"))

        def run(*arguments: str) -> None:
            subprocess.run([python, *arguments], cwd=folder, check=True)

        with step("an empty environment"):
            subprocess.run([sys.executable, "-m", "venv", Path(folder, "environment")], check=True)
        with step("pip install, with pyarrow, click and rich"):
            run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        with step("the first query: a process that creates a table, deletes a row and reads the others"):
            run("-c", QUERY)
        with step("pennon log"):
            run("-m", "pennon", "log", "people.lance", "--oneline")
        with step("the query again"):
            run("-c", QUERY.replace("people", "others"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
