"""Keeps words of the house out of sources and documents: one word for one thing, and that of the field.

`python tests/glossary.py` reads all files of Rust, Python and Markdown and prints each word that is left behind
with what to write instead; it exits with 1 if there is one. The lists below are the glossary. Four kinds of rules:

| list | matches |
|---|---|
| `NAMES` | a whole identifier or the name of a file |
| `PARTS` | consecutive parts of such a name, in snake or camel case: `unit` is in `UnitPrice` and `unit_price` |
| `TYPES` | the name of a type where it is defined: it needs a word before it that says of what |
| `PHRASES` | words in comments, in strings and in documents |

In Python a local variable may have an ordinary word for its name: `NAMES` and `TYPES` are for what is defined with
`def` or `class`. The names of tests are sentences, so in them only phrases are looked for.

`ELSEWHERE` lists where a word of these has its ordinary meaning. `TO_DO` lists the files and folders that still
have to be converted.
"""

from __future__ import annotations

import functools
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

ROOTS = ("rust", "tests/rust", "benches/rust")
# Where names of Python are looked at.
PACKAGES = ("python/", "spark-plugin/pyspark_pennon/", "demo/", "examples/", "benches/")
FOLDERS = (*PACKAGES, "tests", "docs", "requirements", ".github")
# They have all the words.
LISTS = ("tests/glossary.py", "tests/python/test_glossary.py")
# Made from the format's .proto files.
GENERATED = ("rust/core/src/wire/generated/",)
TO_DO: tuple[str, ...] = ()

NAMES = {
    "Before": "Occupied",
    "Fate": "Disposition",
    "Here": "Inline",
    "Known": "Bounds",
    "Seen": "Entry",
    "There": "Pooled",
    "Under": "LockOutcome",
    "about": "a noun",
    "again": "retryable",
    "hand_in": "submit_page",
    "holds": "contains",
    "leftovers": "orphans",
    "less": "without",
    "numbers": "row_numbers",
    "one": "a noun",
    "relieve": "flush_largest",
    "settle": "mark_not_committed",
    "some": "a noun",
    "straight": "realign",
    "there": "a noun",
    "thin_out": "downsample",
    "those": "a noun",
    "twice": "a noun, as in duplicate_id",
    "whole": "a noun",
    "wide": "simd",
}

PARTS = {
    "beside": "next_to",
    "anew": "again",
    "brings_versions": "writes_version_column",
    "crooked": "misaligned",
    "goes_on": "should_continue",
    "in_the_way": "blocking",
    "is_near": "is_local",
    "made_up": "generated",
    "near": "local",
    "picked": "Selection",
    "place": "the noun of what it is: position, address, slot, destination, location",
    "places": "the noun of what they are: positions, addresses, slots, destinations, locations",
    "repetition": "retry",
    "repetitions": "retries",
    "second_kind": "blob_v2",
    "side_by_side": "concurrently",
    "stretch": "Run",
    "stretches": "runs",
    "suspect": "candidate",
    "told": "recorded, or what it is: rows",
    "unspilled": "without_lineage_columns",
}
# Ordinary words that have such a part.
ORDINARY = ("in_place",)
# Repetition levels are those of nested columns.
NESTED = ("rust/core/src/file/", "rust/core/src/wire/", "rust/datafile/", "ARCHITECTURE.md")
# The text of a known hash value has the word.
HASHED = ("rust/core/src/transaction/key_filter.rs",)
# The report of a verification lists them under this name.
REPORTED = (
    "rust/py/src/verify.rs",
    "rust/table/src/ops/verify/",
    "python/pennon/verification.py",
    "python/pennon/_native/_verify.pyi",
    "tests/rust/clones.rs",
)
# Benchmarks measure two libraries next to each other.
MEASURED = ("benches/",)
# Regular expressions have repetitions as well.
REPEATED = ("tests/python/test_bombs.py",)
# Names that are nearly the one that was given.
SUGGESTED = ("spark-plugin/pyspark_pennon/",)
ELSEWHERE = {
    "repetition": NESTED + HASHED,
    "repetitions": NESTED + REPEATED,
    "near": SUGGESTED,
    "leftovers": REPORTED,
    "side_by_side": MEASURED,
}

TYPES = ("Change", "Columns", "Found", "Kind", "Merged", "Part", "Plan", "Rows", "Source")
# Names of operations, which a worker must not have as well.
OPERATIONS = ("Merge", "Rewrite")
OPERATIONS_IN = ("rust/core/src/transaction/",)

PHRASES = {
    "anew": "again",
    "beside": "next to",
    "but for": "except",
    "is begun": "starts",
    "is_near": "is_local",
    "knows of": "contains",
    "made_up": "generated",
    "makes no sense any more": "incompatible: cannot be retried",
    "of the first kind": "legacy blob",
    "of the second kind": "blob v2",
    "repetition": "retry",
    "repetitions": "retries",
    "second kind": "blob v2",
    "side by side": "concurrently",
    "told to": "recorded in",
    "under way": "in flight",
}

TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<text> \b[bc]?r(?P<fence>\#*)".*?"(?P=fence) | \b[bc]?"(?:\\.|[^"\\])*" | "(?:\\.|[^"\\])*" )
  | (?P<char> \bb?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\])' | '(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\])' )
  | (?P<lifetime> '[A-Za-z_]\w*\b )
  | (?P<name> \b(?:r\#)?[A-Za-z_]\w*\b )
    """,
    re.VERBOSE | re.DOTALL,
)
PARTS_OF_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+")
DEFINES = ("enum", "struct", "trait", "type", "union", "as")
NAME = re.compile(r"[A-Za-z_]\w*")
QUOTED = re.compile(r"`([^`\n]+)`")
# Between two words of a phrase: a blank, or a line break with the marks of a comment or a continued string.
BLANK = r"(?:\\?\s+(?:(?://[/!]?|\#)\s*)?)"
GAP = re.compile(BLANK)
# Since Python 3.12 the texts of an f-string are tokens of their own.
TEXTS = (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
PHRASE = re.compile(
    rf"\b(?:{'|'.join(phrase.replace(' ', BLANK) for phrase in sorted(PHRASES, reverse=True))})\b", re.IGNORECASE
)

Finding = tuple[int, str, str]


@functools.cache
def in_name(name: str, path: str = "") -> list[tuple[str, str]]:
    """What an identifier in a file has of the lists, with what to write instead."""
    found = [(name, NAMES[name])] if name in NAMES and is_meant(name, path) else []
    parts = "_".join(part.lower() for part in PARTS_OF_NAME.findall(name))
    for ordinary in ORDINARY:
        parts = re.sub(rf"(?<![a-z0-9]){ordinary}(?![a-z0-9])", "", parts)
    for part, instead in PARTS.items():
        if part in parts and re.search(rf"(?<![a-z0-9]){part}(?![a-z0-9])", parts) and is_meant(part, path):
            found.append((name, instead))
    return found


def in_text(text: str, line: int, path: str = "") -> Iterator[Finding]:
    """Phrases of a comment or a string, also those that a line break cuts."""
    for found in PHRASE.finditer(text):
        phrase = GAP.sub(" ", found[0]).lower()
        if is_meant(phrase, path):
            yield line + text.count("\n", 0, found.start()), phrase, PHRASES[phrase]


def in_comment(text: str, line: int, path: str = "") -> Iterator[Finding]:
    """As `in_text`, and identifiers that a comment quotes."""
    yield from in_text(text, line, path)
    for code in QUOTED.finditer(text):
        for name in NAME.findall(code[1]):
            for word, instead in in_name(name, path):
                yield line + text.count("\n", 0, code.start()), word, instead


def in_source(source: str, path: str = "") -> Iterator[Finding]:
    """Line, words and what to write instead, in a file of this path."""
    operations = path.startswith(OPERATIONS_IN)
    # Comments on consecutive lines are one text.
    previous, comments, first, last = "", "", 0, 0
    at, line = 0, 1
    for token in TOKEN.finditer(source):
        line += source.count("\n", at, token.start())
        at = token.start()
        if comment := token["comment"]:
            if comments and line > last + 1:
                yield from in_comment(comments, first, path)
                comments = ""
            first = first if comments else line
            comments = f"{comments}\n{comment}" if comments else comment
            last = line + comment.count("\n")
        elif text := token["text"]:
            yield from in_text(text, line, path)
        elif name := token["name"]:
            for word, instead in in_name(name, path):
                yield line, word, instead
            if previous in DEFINES and (name in TYPES or (name in OPERATIONS and not operations)):
                yield line, name, f"a name that says of what, as in {'Scan' if name in TYPES else 'Sorted'}{name}"
            previous = name
    yield from in_comment(comments, first, path)


def in_python(source: str, path: str = "") -> Iterator[Finding]:
    """As `in_source`, in a file of Python."""
    previous, comments, first, last = "", "", 0, 0
    has_names = path.startswith(PACKAGES)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line, text = token.start[0], token.string
        if token.type == tokenize.COMMENT:
            if comments and line > last + 1:
                yield from in_comment(comments, first, path)
                comments = ""
            first, last = first if comments else line, line
            comments = f"{comments}\n{text}" if comments else text
        elif token.type in TEXTS:
            yield from in_text(text, line, path)
        elif token.type == tokenize.NAME and has_names:
            for word, instead in in_name(text, path):
                if previous in ("class", "def") or word not in NAMES:
                    yield line, word, instead
            if previous == "class" and text in TYPES:
                yield line, text, f"a name that says of what, as in Scan{text}"
            previous = text
    yield from in_comment(comments, first, path)


READERS: dict[str, Callable[[str, str], Iterator[Finding]]] = {
    ".rs": in_source,
    ".py": in_python,
    ".pyi": in_python,
    ".md": lambda source, path: in_text(source, 1, path),
}


def is_meant(word: str, path: str) -> bool:
    """Whether a word of the lists is not an ordinary one in this file."""
    return not path.startswith(ELSEWHERE.get(word, ("\0",)))


def sources(root: Path) -> Iterator[Path]:
    """All files that are read."""
    yield from (file for folder in ROOTS for file in (root / folder).rglob("*.rs"))
    yield from root.glob("*.md")
    for ending in ("py", "pyi", "md"):
        yield from (file for folder in FOLDERS for file in (root / folder).rglob(f"*.{ending}"))


def findings(root: Path) -> Iterator[str]:
    """All of the tree."""
    for file in sorted(sources(root)):
        path = file.relative_to(root).as_posix()
        if path.startswith((*GENERATED, *TO_DO)) or path in LISTS:
            continue
        if file.suffix == ".rs" or path.startswith(PACKAGES):
            for word, instead in in_name(file.stem, path):
                yield f"{path}: {word}: write {instead}"
        for line, word, instead in sorted(READERS[file.suffix](file.read_text(), path)):
            yield f"{path}:{line}: {word}: write {instead}"


if __name__ == "__main__":
    count = 0
    for finding in findings(Path(__file__).parent.parent):
        print(finding)
        count += 1
    sys.exit(count > 0)
