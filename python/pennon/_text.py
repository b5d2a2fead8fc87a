"""Tables, sizes and names as text, for commands and messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def aligned(lines: Sequence[tuple[str, ...]], right: tuple[int, ...]) -> Iterator[str]:
    """Lines of a table with columns of equal width; those in `right` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the plural unless the number is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def in_bytes(count: float) -> str:
    """A number of bytes in the unit that suits it."""
    if count < 10_000:
        return f"{count:,} B"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:,.1f} GB"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about a name that is not among others: the one that is most like it, if one is."""
    from difflib import get_close_matches

    by_case = {known.lower(): known for known in names}
    similar = get_close_matches(name.lower(), by_case, n=1)
    return f". Did you mean {by_case[similar[0]]}?" if similar else ""
