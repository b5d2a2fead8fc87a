"""What holds for all tests in Python."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

# Failed assertions of the helpers show their values, like those of the tests.
pytest.register_assert_rewrite("support")

# A shell starts what runs in the background without Ctrl-C, which the processes that tests interrupt would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MEMORY, ROOM = Path("/dev/shm"), 2 << 30

# Scripts that write files; to look for examples in them would run them.
collect_ignore = ["golden"]


class ExamplesOverTorch:
    """Examples that need PyTorch run over the stand-in where it is not installed, as the tests do."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if not isinstance(item, pytest.DoctestItem) or "torch" not in item.name:
            return (yield)
        from support import torch_stand_in

        with mock.patch.dict(sys.modules, torch_stand_in.modules()):
            return (yield)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spread(of, times): some of the cases in `make test`, see support/spread.py")
    from support.long import LONG

    # A commit waits until a disk has it, which takes longer than all else: `make nightly` tests with one.
    if not LONG and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    # The hook of a file is called for the tests below it only, and the examples are those of the package.
    if importlib.util.find_spec("torch") is None:
        config.pluginmanager.register(ExamplesOverTorch())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Last: of what the command line selects.
    from support.spread import left_out

    if out := left_out(items, config.args):
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def pytest_report_header() -> str:
    from support.seeds import SEED

    return f"random tests begin at PENNON_SEED={SEED}"
