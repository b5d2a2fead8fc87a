"""Executors in processes of their own: the program of all verbs on `local-cluster` and on a standalone master."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
from support.long import long
from support.spark_session import environment

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
PROGRAM = Path(__file__).parent / "cluster" / "program.py"
SPARK = Path(pyspark.__file__).parent
ENDS = 280
"""Seconds for a program: less than a test has."""


def run(master: str, folder: Path, *parts: str, **more: str) -> str:
    """Run parts of the program in a process, which is ended with all that it started; gives its output."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    # Workers keep the folders of applications under SPARK_HOME otherwise.
    more = {"SPARK_HOME": str(SPARK), "SPARK_WORKER_DIR": str(work), **more}
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), master, str(folder), *parts],
        env={**environment(), **more},
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=ENDS)
    finally:
        end(process)
    assert process.returncode == 0, output[-6000:]
    return output


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@long
def test_verbs_and_failures_on_a_local_cluster(tmp_path: Path) -> None:
    output = run(LOCAL_CLUSTER, tmp_path, "verbs", "failures")
    assert output.count("an executor killed") == 3, output


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """A master with workers of one core and 1 GB, each as on a host of its own; gives its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["worker.Worker", "--webui-port", "0", "-c", "1", "-m", "1g"]
    hosts = [f"127.0.0.{at + 1}" for at in range(workers)]
    own = [["--host", host, "-d", str(folder / f"worker-{at}"), url] for at, host in enumerate(hosts)]
    commands = [master, *([*worker, *arguments] for arguments in own)]
    started: list[subprocess.Popen[str]] = []
    try:
        for at, (name, *arguments) in enumerate(commands):
            with (folder / f"{at}.log").open("w") as log:
                process = subprocess.Popen(
                    [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                    env={**environment(), "SPARK_HOME": str(SPARK)},
                    stdout=log,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
            started.append(process)
            if at == 0:
                listening(port, process)
        yield url
    finally:
        for process in reversed(started):
            end(process)


def listening(port: int, process: subprocess.Popen[str]) -> None:
    """Wait until a process accepts connections."""
    for _ in range(600):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, "the master has ended"
        time.sleep(0.1)
    raise AssertionError("the master does not listen")


@long
def test_verbs_and_failures_on_a_standalone_master(tmp_path: Path) -> None:
    with standalone(tmp_path, workers=2) as url:
        output = run(url, tmp_path, "verbs", "failures")
    assert output.count("an executor killed") == 3, output


@long
def test_speculative_twins(tmp_path: Path) -> None:
    """Spark starts a twin of a slow task on another host only, so the two workers have an address each."""
    logs = tmp_path / "events"
    logs.mkdir()
    settings = {"": "true", ".interval": "100ms", ".quantile": "0.5", ".multiplier": "1.1"}
    conf = " ".join(f"spark.speculation{name}={value}" for name, value in settings.items())
    conf += f" spark.eventLog.enabled=true spark.eventLog.dir=file://{logs} spark.eventLog.compress=false"
    with standalone(tmp_path, workers=2) as url:
        output = run(url, tmp_path, "twins", PENNON_TEST_CONF=conf)
    assert output.count("the twin of a slow task was first") == 2, output
    assert output.count("a task and its twin have both finished") == 2, output
    # What Spark says of an attempt whose success it hears of after that of the other one.
    texts = [path.read_text() for path in logs.rglob("*") if path.is_file()]
    late = "Finish but did not commit due to another attempt succeeded"
    ended = [json.loads(line) for text in texts for line in text.splitlines() if late in line]
    # Other tasks may have had a twin of their own.
    assert [event["Event"] for event in ended].count("SparkListenerTaskEnd") >= 2, ended


SECRET = "FAKE5ECRET"


@long
def test_event_logs_have_no_credentials(tmp_path: Path) -> None:
    logs = tmp_path / "events"
    logs.mkdir()
    conf = f"spark.eventLog.enabled=true spark.eventLog.dir=file://{logs} spark.eventLog.compress=false"
    output = run("local[2]", tmp_path, "secrets", PENNON_TEST_CONF=conf, PENNON_TEST_SECRET=SECRET)
    texts = [path.read_text() for path in logs.rglob("*") if path.is_file()]
    assert any("SparkListenerJobEnd" in text and "secrets-table" in text for text in texts)
    # What streams did and why tasks failed is in the log, and no credential.
    assert any("StreamingQueryListener" in text and "no value for 50" in text for text in texts)
    assert output.count("failed as it should") == 10
    assert not any(SECRET in text for text in [*texts, output])
