"""The command `pennon`, and `python -m pennon`."""

from __future__ import annotations

import sys

from pennon.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
