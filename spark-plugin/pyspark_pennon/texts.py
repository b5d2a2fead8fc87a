"""Numbers as text for people."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the plural unless the number is 1.

    Examples
    --------
    >>> counted(1, "file"), counted(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def in_bytes(count: float) -> str:
    """A number of bytes in the unit that suits it.

    Examples
    --------
    >>> in_bytes(9_999), in_bytes(4_500_000)
    ('9,999 B', '4.5 MB')
    """
    if count < 10_000:
        return f"{count:,} B"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:,.1f} GB"
