"""Text that fits a terminal, however narrow.

Columns of tables are cut, or rows are lists where not all columns fit in a line. Sentences and values go on in
the next line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import click
from rich.cells import cell_len, set_cell_size

# Columns are cut to this width, and no further: where that is not enough, each value gets a line.
LEAST = 6
_GAP = "  "
# An instruction to a terminal, which takes no room.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def grid(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    width: int | None = None,
) -> Iterator[str]:
    """Lines of a table. Columns in `right` are aligned to the right; with `width` no line is longer.

    The header is bold, which a reader that is not a terminal does not get to see.
    """
    widths = [max(cell_len(text) for text in column) for column in zip(header, *rows, strict=True)]
    fitting = _fitted(widths, width)
    if fitting is None:
        yield from _lists(header, rows, width or 0)
        return
    for at, line in enumerate((header, *rows)):
        cells = [
            _cell(text, size, number in right)
            for number, (text, size) in enumerate(zip(line, fitting, strict=True))
        ]
        text = _GAP.join(cells).rstrip()
        yield click.style(text, bold=True) if at == 0 and text else text


def _fitted(widths: Sequence[int], width: int | None) -> list[int] | None:
    """Widths that fit: the widest columns give way. None if they would have to be too narrow."""
    found = list(widths)
    if width is None:
        return found
    room = width - len(_GAP) * (len(found) - 1)
    while sum(found) > room:
        widest = max(found)
        if widest <= LEAST:
            return None
        columns = [at for at, size in enumerate(found) if size == widest]
        next_size = max([size for size in found if size < widest] + [LEAST])
        surplus = sum(found) - room
        lower = max(next_size, widest - -(-surplus // len(columns)))
        for at in columns:
            found[at] = lower
    return found


def _cell(text: str, size: int, right: bool) -> str:
    length = cell_len(text)
    if length > size:
        return set_cell_size(text, size - 1) + "…"
    return " " * (size - length) + text if right else text + " " * (size - length)


def _lists(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Each row as a list of its values."""
    label = min(max(map(cell_len, header), default=0), max(LEAST, width // 2))
    for at, row in enumerate(rows):
        yield click.style(f"-- {at} ".ljust(min(width, 20), "-"), bold=True)
        for name, text in zip(header, row, strict=True):
            room = max(LEAST, width - label - len(_GAP))
            yield f"{_cell(name, label, False)}{_GAP}{_cell(text, min(room, cell_len(text)), False)}".rstrip()


def folded(text: str, width: int, indent: int, *, breaks_words: bool = False) -> Iterator[str]:
    """Lines of a line that fit; all but the first are indented.

    A word that is longer than a line is left to the terminal, so that it can be copied, unless it may be broken.
    """
    indent = min(indent, width // 2)
    line, room, is_begun = "", width, False
    for word in re.findall(r"\s*\S+", text):
        if is_begun and _length(word) > room:
            yield line
            word = word.lstrip()
            line, room = " " * indent, width - indent
        while breaks_words and _length(word) > room:
            end = _end_of(word, room)
            yield line + word[:end]
            line, room, word = " " * indent, width - indent, word[end:]
        line, room, is_begun = line + word, room - _length(word), True
    yield line


def _length(text: str) -> int:
    return cell_len(_STYLE.sub("", text))


def _end_of(word: str, room: int) -> int:
    """Where the characters end that fit; at least one does."""
    at = count = 0
    while at < len(word):
        style = _STYLE.match(word, at)
        if style is None:
            room -= cell_len(word[at])
            if room < 0 and count:
                break
            count += 1
        at = at + 1 if style is None else style.end()
    return at
