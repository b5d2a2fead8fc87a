"""Packages that some functions need and an installation of Pennon does not bring."""

from __future__ import annotations

import importlib
from typing import Any

from pennon.errors import MissingPackageError

__all__ = ["require"]


def require(module: str, package: str, purpose: str) -> Any:
    """Imports a module.

    Parameters
    ----------
    module
        Its name, `"PIL.Image"` for example.
    package
        What to install to have it.
    purpose
        What needs it, as the subject of a sentence.

    Raises
    ------
    MissingPackageError
        The package is not installed. An error inside of an installed package is raised as it is.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        message = f"{purpose} needs the package {package}, which is not installed: pip install {package}"
        raise MissingPackageError(message, name=module) from None
