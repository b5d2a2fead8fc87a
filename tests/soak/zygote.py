"""Forks a writer for each request: what takes longest of a short life, the imports, is done once.

`python -m soak.zygote` reads requests from its standard input, a JSON object a line, and answers each with a line:
`{"start": given}` with the pid of a writer, `{"reap": pid}` with the status of one that was killed. It ends, and
its writers with it, when its input ends.

Invariant: no other thread runs here and no table is opened. A fork has the thread that forked and no other: locks
that another one held are never given back, and what it was to do is never done. A writer starts the threads of its
library itself. The thread of jemalloc, in pyarrow, is one that jemalloc stops and starts around forks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from soak.processes import WriterError


class Zygote:
    """The process, for those who send requests."""

    def __init__(self) -> None:
        # Libraries of linear algebra start threads when they are imported.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore::UserWarning", "-m", "soak.zygote"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, request: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise WriterError("the process that forks writers has ended")
        return int(answer)

    def start(self, given: dict[str, Any]) -> int:
        return self.ask({"start": given})

    def kill(self, pid: int) -> None:
        """Kills a writer. Raises `WriterError` if it ended before."""
        # Its pid is that of no other process until it is reaped.
        os.kill(pid, signal.SIGKILL)
        status = self.ask({"reap": pid})
        if status != -signal.SIGKILL:
            raise WriterError(f"a writer ended with status {status}")

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def threads() -> list[str]:
    """The names of threads next to this one that a fork would lose."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        # One that has ended since they were listed is not lost.
        with suppress(FileNotFoundError, ProcessLookupError):
            names += [(task / "comm").read_text().strip()] * (int(task.name) != os.getpid())
    return [name for name in names if name != "jemalloc_bg_thd"]


def write(given: dict[str, Any]) -> NoReturn:
    """In the child: changes the table until it is killed."""
    try:
        log = os.open(given["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, original in ((0, nothing), (1, log), (2, log)):
            os.dup2(original, descriptor)
        from soak.killed import writer_of

        writer = writer_of(given)
        while True:
            writer.step()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def main() -> None:
    import lance  # noqa: F401 - so that children have it
    import pennon.dataset  # noqa: F401 - so that children have it, which `import pennon` does not import
    import soak.killed  # noqa: F401 - so that children have it

    writers: set[int] = set()
    try:
        for line in sys.stdin:
            request = json.loads(line)
            if "reap" in request:
                pid, status = os.waitpid(request["reap"], 0)
                writers.remove(pid)
                print(os.waitstatus_to_exitcode(status), flush=True)
                continue
            if lost := threads():
                raise RuntimeError(f"threads {lost} are there, which a fork would lose")
            pid = os.fork()
            if pid == 0:
                write(request["start"])
            writers.add(pid)
            print(pid, flush=True)
    finally:
        for pid in writers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
