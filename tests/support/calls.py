"""Calls that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pennon.errors import InvalidInputError


def refused(message: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """The call is an error of wrong input, whose message has a match of `message`."""
    with pytest.raises(InvalidInputError, match=message):
        function(*arguments, **options)
