"""What is not written or read, and by whom: by the format (the reference refuses it), or by Pennon so far.

Each entry is tested: what stands here must be refused with an error that says so. A shape that begins to work fails
its test until its entry is gone.
"""

from __future__ import annotations

from support.shapes import LARGE, SHAPES

VERSIONS = ["2.0", "2.1", "2.2"]
# Names of shapes, and of two tables that are made of all shapes.
ALL = set(SHAPES) | set(LARGE) | {"no-rows", "one-row"}

MAPS = {"map", "map-of-structs"}
NULL_STRUCTS = {"struct-nulls", "struct-all-null", "struct-of-lists", "list-struct", "deep", "deep-list"}
# Shapes that the reference cannot write, by version.
NOT_IN_FORMAT: dict[str, set[str]] = {
    "2.0": MAPS | {"fsl-of-structs"} | NULL_STRUCTS,
    "2.1": MAPS | {"fsl-of-structs"},
    "2.2": set(),
}
# Cases of `lance-encoding:*` options that the reference cannot write.
OPTIONS_NOT_IN_FORMAT: dict[str, set[str]] = {
    "2.0": {"packed-text", "fullzip-struct"},
    "2.1": {"packed-text"},
    "2.2": set(),
}

# Shapes that Pennon refuses so far.
REFUSED: dict[tuple[str, str], set[str]] = {
    ("reads", "2.0"): set(),
    ("writes", "2.0"): set(),
    ("reads", "2.1"): set(),
    ("writes", "2.1"): set(),
    ("reads", "2.2"): set(),
    ("writes", "2.2"): set(),
}
# Cases of options whose files Pennon refuses to read so far.
OPTIONS_REFUSED: dict[str, set[str]] = {"2.0": set(), "2.1": set(), "2.2": set()}
# Cases of options that Pennon refuses to write, by the format or so far; None stands for all.
OPTIONS_NOT_WRITTEN: dict[str, set[str]] = {
    "2.0": {"packed-text", "fullzip-struct"},
    "2.1": {"packed-text"},
    "2.2": set(),
}

# Shapes that the reference cannot read next to other columns.
ALONE = {"fsl-of-structs"}


def works(version: str, direction: str) -> list[str]:
    """Shapes that both sides know in a version and that can be in one table."""
    return sorted(set(SHAPES) - NOT_IN_FORMAT[version] - REFUSED[direction, version] - ALONE)
