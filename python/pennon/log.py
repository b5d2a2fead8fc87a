"""Where the records of the logger `pennon` go."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pennon._compatibility import explain_absent_names

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["set_logger"]

explain_absent_names(__name__)

_FORMAT = "%(asctime)s %(name)s [%(levelname)s] %(filename)s:%(lineno)d %(funcName)s : %(message)s"


def set_logger(
    file_path: str | PathLike[str] | None = "pennon.log",
    name: str = "pennon",
    level: int | str = logging.INFO,
    format_string: str | None = None,
    log_handler: logging.Handler | None = None,
) -> None:
    """Write the records of a logger to a file, or hand them to a handler.

    It adds to the handlers that the logger has. The core writes its records to the logger `pennon`; to have them on
    standard error, set the environment variable `PENNON_LOG`.

    Parameters
    ----------
    file_path
        The file that records are appended to, if `log_handler` is not given.
    name
        The logger.
    level
        The least level of a record that is written, of `logging`.
    format_string
        How a record becomes text, as in `logging.Formatter`.
    log_handler
        Takes the records instead of a file.

    Raises
    ------
    OSError
        The file cannot be written.
    ValueError
        There is no such level.

    Examples
    --------
    >>> import logging
    >>> from pennon.log import set_logger
    >>> class Collected(logging.Handler):
    ...     def emit(self, record):
    ...         print(self.format(record))
    >>> set_logger(name="pennon.example", format_string="%(levelname)s %(message)s", log_handler=Collected())
    >>> logging.getLogger("pennon.example").info("written")
    INFO written
    """
    handler = logging.FileHandler(file_path or "pennon.log") if log_handler is None else log_handler
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(format_string or _FORMAT))
    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.addHandler(handler)
