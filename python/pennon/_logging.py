"""The logger `pennon`, which the core writes to: silent unless the program or `PENNON_LOG` enables it."""

from __future__ import annotations

import logging
import os

from pennon.errors import InvalidInputError

_LEVELS = {
    "trace": 5,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def set_up() -> None:
    """Keeps the logger from writing by itself; with `PENNON_LOG=debug` it writes to standard error."""
    logger = logging.getLogger("pennon")
    logger.addHandler(logging.NullHandler())
    wanted = os.environ.get("PENNON_LOG", "").lower()
    if not wanted:
        return
    if wanted not in _LEVELS:
        raise InvalidInputError(f"PENNON_LOG is {wanted!r}, expected one of {', '.join(_LEVELS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(_LEVELS[wanted])
