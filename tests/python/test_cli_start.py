"""The command `pennon` begins: what is imported for it, its help, and what no error becomes."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import click
import pennon
import pytest
from pennon import cli
from pennon.__main__ import main


def test_the_package_needs_nothing_of_the_command_line() -> None:
    code = "import sys, pennon; print(sorted({'click', 'rich', 'pennon.cli'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_help_imports_no_command() -> None:
    code = "import sys; from pennon.cli import main; main(['--help']);"
    code += "print([name for name in sys.modules if 'pennon.cli.' in name])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("['pennon.cli._errors', 'pennon.cli._help']\n")


def test_help_and_completion_import_neither_arrow_nor_the_core() -> None:
    code = "import sys; from pennon.__main__ import main; main([*sys.argv[1:]]);"
    code += "print(sorted({'numpy', 'pyarrow', 'pennon._native', 'rich'} & set(sys.modules)))"
    for environment in ({}, {"_PENNON_COMPLETE": "bash_complete", "COMP_WORDS": "pennon ", "COMP_CWORD": "1"}):
        command = [sys.executable, "-c", code, "--help"]
        run = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        assert run.stdout.endswith("[]\n")
        assert "blame" in run.stdout


def test_no_command_imports_pandas(tmp_path: Path) -> None:
    """Pyarrow would, where it is installed."""
    pennon.write_dataset({"a": [1]}, tmp_path / "table")
    code = "import sys; from pennon.__main__ import main; status = main(); print('pandas' in sys.modules, status)"
    command = [sys.executable, "-c", code, "head", str(tmp_path / "table"), "--format", "json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ['{"a": 1}', "False 0"]


@pytest.mark.parametrize("setting", ["PENNON_LOG", "PENNON_CPU_COUNT"])
def test_an_invalid_setting(setting: str, tmp_path: Path) -> None:
    """One sentence of the command, as a module or by its script, and an exception in Python."""
    script = tmp_path / "pennon"
    script.write_text("import sys\nfrom pennon.__main__ import main\nsys.exit(main())\n")
    environment = {**os.environ, setting: "bogus"}
    for begin in (["-m", "pennon"], [str(script)]):
        command = [sys.executable, *begin, "count", "table"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
        assert run.stderr.startswith(f"pennon: {setting} is 'bogus', expected ")
    code = "try:\n    import pennon\nexcept ValueError as error:\n    print(type(error).__name__)"
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "InvalidInputError\n"


# Ctrl-C comes at the moment when a module is looked for: the first argument.
INTERRUPTED = """
import os, signal, sys
module = sys.argv.pop(1)

class Interrupt:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
from pennon.__main__ import main
sys.exit(main())
"""
MODULES = ("pennon.cli", "click", "pennon.cli.head", "pyarrow", "numpy", "pennon._native", "pennon.dataset")


@pytest.mark.parametrize("module", MODULES)
def test_ctrl_c_while_it_starts(module: str, tmp_path: Path) -> None:
    pennon.write_dataset({"a": [1]}, tmp_path / "table")
    command = [sys.executable, "-c", INTERRUPTED, module, "head", str(tmp_path / "table")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (-signal.SIGINT, "", "")
    # As the shell shows it.
    shown = subprocess.run(["sh", "-c", f"{shlex.join(command)}; echo $?"], capture_output=True, text=True)
    assert (shown.stdout, shown.stderr) == ("130\n", "")


def test_ctrl_c_while_help_is_printed() -> None:
    command = [sys.executable, "-c", INTERRUPTED, "pennon.cli._errors", "--help"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (-signal.SIGINT, "", "")


def test_a_command_in_the_background_ignores_it(tmp_path: Path) -> None:
    pennon.write_dataset({"a": [1]}, tmp_path / "table")
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    command = [sys.executable, "-c", ignored + INTERRUPTED, "pyarrow", "count", str(tmp_path / "table")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1\n", "")


def test_a_program_that_calls_it_keeps_its_handler(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert main(["count", str(tmp_path)]) == 3
    assert signal.getsignal(signal.SIGINT) is before
    import pandas

    assert pandas.__version__


@pytest.mark.parametrize("name", cli._HELP)
def test_each_command_says_what_the_list_says(name: str) -> None:
    command = cli.pennon.get_command(click.Context(cli.pennon), name)
    assert command is not None
    assert command.get_short_help_str(200).rstrip(".") == cli._HELP[name].rstrip(".")
    module = importlib.import_module(command.callback.__module__)
    assert module.__doc__.startswith(f"`pennon {name}`")


def test_help_keeps_lines_to_copy(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "--help"]) == 0
    assert re.findall(r"in (~/\S+)$", capsys.readouterr().out, re.MULTILINE) == [
        "~/.bashrc",
        "~/.zshrc",
        "~/.config/fish/config.fish",
    ]


@pytest.mark.parametrize("name", cli._HELP)
def test_help_of_each(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: pennon {name} ")
    assert cli.main([name, "--no-such-option"]) == 2
    assert "No such option" in capsys.readouterr().err
