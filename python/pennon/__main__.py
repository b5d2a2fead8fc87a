"""The command `pennon`, and `python -m pennon`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of the process.

    If they are those of the process, Ctrl-C ends it without a word and by the signal, as it ends git: the status in
    the shell is 130.

    Returns
    -------
    int
        As [main][pennon.cli.main] of `pennon.cli`.
    """
    # A shell lets commands in the background ignore the signal, and so does Python then.
    is_heard = arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        # While modules are imported nothing has to be undone.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if arguments is None:
        sys.meta_path.insert(0, _WithoutPandas)
    from pennon.cli import INTERRUPTED
    from pennon.cli import main as run

    status = run(arguments, begin=_raise_interrupts if is_heard else None)
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if status == INTERRUPTED:
            os.kill(os.getpid(), signal.SIGINT)
    return status


class _WithoutPandas:
    """Lets pyarrow take pandas for not installed: its import takes a quarter of a second, for nothing here."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raises what Python raises for an import of a package that is not installed.

        Also for `importlib.util.find_spec`.
        """
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _raise_interrupts() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt`: a command removes what it has begun."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    sys.exit(main())
