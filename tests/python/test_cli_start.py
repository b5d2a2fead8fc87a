"""The command `pennon` begins: what is imported for it, its help, and what no error becomes."""

from __future__ import annotations

import importlib
import subprocess
import sys

import click
import pytest
from pennon import cli


def test_the_package_needs_nothing_of_the_command_line() -> None:
    code = "import sys, pennon; print(sorted({'click', 'rich', 'pennon.cli'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_help_imports_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; from pennon.cli import main; main(['--help']);"
    code += "print([name for name in sys.modules if 'pennon.cli.' in name])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("['pennon.cli._errors']\n")


@pytest.mark.parametrize("name", cli._HELP)
def test_each_command_says_what_the_list_says(name: str) -> None:
    command = cli.pennon.get_command(click.Context(cli.pennon), name)
    assert command is not None
    assert command.get_short_help_str(200).rstrip(".") == cli._HELP[name].rstrip(".")
    module = importlib.import_module(command.callback.__module__)
    assert module.__doc__.startswith(f"`pennon {name}`")


@pytest.mark.parametrize("name", cli._HELP)
def test_help_of_each(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: pennon {name} ")
    assert cli.main([name, "--no-such-option"]) == 2
    assert "No such option" in capsys.readouterr().err
