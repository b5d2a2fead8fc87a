"""Small tables and texts that claim to be huge: an error with a type, or work that grows with the bytes there are.

Cases run in processes of their own, whose memory and time are limited: far above what is needed, far below what a
quadratic walk or an allocation of the claimed size takes. A process starts in half a second, so cases share one.
"""

from __future__ import annotations

import json
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lance
import pennon
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter
from support import forge, forge_pages
from support.forge_file import ZSTD_MAGIC, ForgedFile, lz4_bomb, zstd_bomb
from support.forge_pages import LZ4, ZSTD, flat, fsst, general, mini_block, rle, texts
from support.long import LONG
from support.tables import numbers

SECONDS = 60
"""Of processors, not of the clock."""
ADDRESS_SPACE, SMALL_SPACE = 8 << 30, 4 << 30
GROWTH = 2 << 30
"""Bytes that the resident memory may grow by."""

PROGRAM = f"""
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
import pennon, pennon.file
tried = json.load(sys.stdin)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
for call, argument in tried:
    try:
        found = eval(call)
        outcome = dict(found=found if isinstance(found, int) else str(found))
    except Exception as error:
        outcome = dict(error=type(error).__name__, text=str(error)[-300:])
    print(json.dumps(dict(outcome, growth=peak() - before)), flush=True)
"""

Outcome = dict[str, object]


def run_all(tried: list[tuple[str, str]], space: int = ADDRESS_SPACE, most: int = GROWTH) -> list[Outcome]:
    """What came of expressions over arguments, in a process of so much memory that grew by `most` at most."""
    command = [sys.executable, "-c", PROGRAM, str(space)]
    done = subprocess.run(command, input=json.dumps(tried), capture_output=True, text=True, check=False)
    outcomes: list[Outcome] = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (f"number {len(outcomes)} of {len(tried)}", done.stderr[-2000:])
    for outcome in outcomes:
        growth = outcome.pop("growth")
        assert isinstance(growth, int)
        assert growth < most, outcome
    return outcomes


def run(call: str, argument: str | Path, space: int = ADDRESS_SPACE, most: int = GROWTH) -> Outcome:
    return run_all([(call, str(argument))], space, most)[0]


COUNT = "pennon.dataset(argument).count_rows()"
READ = "pennon.dataset(argument).to_table(with_row_id=True).num_rows"


def with_rows(uri: str, rows: int) -> str:
    """A table of six rows whose only fragment says that it has another number of them."""
    pennon.write_dataset(numbers(6), uri)
    forge.forge_fragments(uri, lambda fragment: [*forge.without(fragment, 4, 5, 7, 8), forge.number(4, rows)])
    return uri


def test_fragments_of_more_rows_than_have_addresses(uri: str) -> None:
    counts = [2**33, 2**60, 2**64 - 1]
    outcomes = run_all([(COUNT, with_rows(f"{uri}-{rows}", rows)) for rows in counts])
    for rows, outcome in zip(counts, outcomes, strict=True):
        assert outcome["error"] == "CorruptError"
        assert f"fragment 0: {rows} physical rows" in str(outcome["text"])


def test_fragments_of_more_rows_than_their_files(uri: str) -> None:
    """The number is possible, so it is believed until a file is opened."""
    tables = {rows: with_rows(f"{uri}-{rows}", rows) for rows in (7, 2**31, 2**32)}
    calls = (
        "pennon.dataset(argument).to_table().num_rows",
        "pennon.dataset(argument).delete('id = 1')",
        "pennon.dataset(argument).take([0, 5]).num_rows",
    )
    assert run_all([(COUNT, table) for table in tables.values()]) == [{"found": rows} for rows in tables]
    tried = [(call, table) for table in tables.values() for call in calls]
    for call, outcome in zip(tried, run_all(tried), strict=True):
        assert outcome == {"found": 2} or outcome.get("error") == "CorruptError", (call, outcome)


def test_ranges_of_row_ids(uri: str) -> None:
    tables = []
    for start, end in [(0, 2**63), (0, 2**64 - 1), (1, 2**64 - 1), (5, 1), (2**64 - 1, 0), (0, 7)]:
        span = forge.encode([forge.number(1, start), forge.number(2, end)])
        segment = forge.text(5, forge.encode([forge.text(1, forge.encode([forge.text(1, span)]))]))
        tables.append(f"{uri}-{start}-{end}")
        pennon.write_dataset(numbers(6), tables[-1], enable_stable_row_ids=True)
        forge.forge_fragments(tables[-1], lambda fragment, segment=segment: [*forge.without(fragment, 5), segment])
    tried = [(call, table) for table in tables for call in (READ, "pennon.dataset(argument)._take_rows([1])")]
    for call, outcome in zip(tried, run_all(tried), strict=True):
        assert outcome.get("error") == "CorruptError", (call, outcome)
        assert "fragment 0" in str(outcome["text"])


def columns(count: int, *, nested: bool) -> Callable[[forge.Message], forge.Message]:
    def column(at: int) -> forge.Field:
        parent = at - 1 if nested else -1
        kind = "struct" if nested and at < count - 1 else "int64"
        fields = [forge.text(2, f"c{at}"), forge.number(3, at), forge.number(4, parent % 2**64)]
        return forge.text(1, forge.encode([*fields, forge.text(5, kind), forge.number(6, 1)]))

    return lambda manifest: [*map(column, range(count)), *forge.without(manifest, 1)]


def test_deep_schemas(uri: str) -> None:
    pennon.write_dataset(numbers(6), uri)
    forge.forge(uri, columns(100_000, nested=True))
    outcome = run(COUNT, uri)
    assert outcome["error"] == "CorruptError"
    assert "nested deeper than 100 levels" in str(outcome["text"])


@pytest.mark.slow
def test_many_columns(uri: str) -> None:
    count = 1_000_000 if LONG else 200_000
    pennon.write_dataset(numbers(6), uri)
    forge.forge(uri, columns(count, nested=False))
    names = "len(pennon.dataset(argument).schema)"
    assert run_all([(COUNT, uri), (names, uri)]) == [{"found": 6}, {"found": count}]


@pytest.mark.slow
def test_many_fragments(uri: str) -> None:
    count = 1_000_000 if LONG else 200_000
    pennon.write_dataset(numbers(6), uri)

    def many(manifest: forge.Message) -> forge.Message:
        fragment = forge.without(forge.parse(forge.get(manifest, 2)), 1, 5, 7, 8)
        fragments = (forge.text(2, forge.encode([forge.number(1, id), *fragment])) for id in range(count))
        return [*forge.without(manifest, 2, 11), *fragments, forge.number(11, count - 1)]

    forge.forge(uri, many)
    few = "pennon.dataset(argument).to_table(limit=3).num_rows"
    assert run_all([(COUNT, uri), (few, uri)]) == [{"found": 6 * count}, {"found": 3}]


def test_many_files_of_a_fragment(uri: str) -> None:
    pennon.write_dataset(numbers(6), uri)
    forge.forge_fragments(uri, lambda fragment: fragment + [field for field in fragment if field[0] == 2] * 200_000)
    assert run(COUNT, uri) == {"found": 6}


@pytest.mark.slow
def test_many_base_paths(uri: str) -> None:
    """Whether an id is taken, and whether a file names one, is looked up."""
    pennon.write_dataset(numbers(6), uri)
    bases = [forge.base_path(id, f"/base/{id}", is_dataset_root=True) for id in range(300_000)]
    forge.forge(uri, lambda manifest: manifest + bases)
    assert run(READ, uri) == {"found": 6}
    outside = forge.number(7, 299_999)

    def many(fragment: forge.Message) -> forge.Message:
        file = forge.parse(forge.get(fragment, 2))
        return [*fragment, *[forge.text(2, forge.encode([*file, outside]))] * 100_000]

    forge.forge_fragments(uri, many)
    assert run(COUNT, uri) == {"found": 6}


COUNT_WHERE = """
pennon.write_dataset({"a": range(9), "s": ["x" * 50] * 9}, "memory://t", mode="overwrite").count_rows(argument)
""".strip()
SQL: dict[str, tuple[str, object]] = {
    "parentheses": ("(" * 500_000 + "a > 1" + ")" * 500_000, "InvalidInputError"),
    "few parentheses": ("(" * 20_000 + "a > 1" + ")" * 20_000, "InvalidInputError"),
    "only open": ("(" * 1_000_000, "InvalidInputError"),
    "not": ("NOT " * 40_000 + "a > 1", "InvalidInputError"),
    "minus": ("a > " + "- " * 40_000 + "1", "InvalidInputError"),
    "functions": ("abs(" * 100_000 + "a" + ")" * 100_000 + " > 1", "InvalidInputError"),
    "or": (" OR ".join(f"a = {i}" for i in range(12_000)), 9),
    "more or": (" OR ".join(f"a = {i}" for i in range(100_000)), "InvalidInputError"),
    "in": (f"a IN ({','.join(map(str, range(150_000)))})", 9),
    "texts": ("s NOT IN (" + ",".join(f"'{i}'" for i in range(100_000)) + ")", 9),
    "plus": ("a > 0" + " + 1" * 40_000, "InvalidInputError"),
    "texts put together": ("s " + "|| 'x' " * 40_000 + "= 'y'", "InvalidInputError"),
    "casts": ("a" + "::bigint" * 20_000 + " = 1", "InvalidInputError"),
    "tests": ("a" + " IS NULL" * 20_000, "InvalidInputError"),
    "path": ("a" + ".b" * 500_000 + " = 1", "InvalidInputError"),
    "letters": (f"s = '{'x' * 1_000_000}'", 0),
    "digits": ("a > " + "1" * 1_000_000, 0),
    "comments": ("a > 1 " + "/*" * 500_000, "InvalidInputError"),
    "pattern": (f"s LIKE '{'%x' * 10_000}%'", 0),
    "long pattern": (f"s LIKE '{'%_' * 500_000}'", "InvalidInputError"),
    "regular expression": ("regexp_like(s, '^(x+)+y$')", 0),
    "repeated repetitions": ("regexp_like(s, '(((x{1000}){1000}){1000})')", "InvalidInputError"),
}


@pytest.mark.parametrize("names", [[name] for name in SQL] if LONG else [list(SQL)], ids=lambda names: names[0])
def test_texts(names: list[str]) -> None:
    outcomes = run_all([(COUNT_WHERE, SQL[name][0]) for name in names])
    for name, outcome in zip(names, outcomes, strict=True):
        assert outcome.get("found", outcome.get("error")) == SQL[name][1], name


# Data files.

READ_FILE = "pennon.file.LanceFileReader(argument).read_all().to_table().num_rows"
TAKE_OF_FILE = "pennon.file.LanceFileReader(argument).take_rows([5]).to_table().num_rows"
ROWS = 1_000
HUGE = 8 << 30
BOMB = zstd_bomb(HUGE)
"""A 32,768th of what it stands for."""
SIZED = HUGE.to_bytes(8, "little") + BOMB
CLAIM = (2**60).to_bytes(8, "little") + zstd_bomb(1 << 20)
LZ4_CLAIM = (2**32 - 1).to_bytes(4, "little") + lz4_bomb(100_000)
LITTLE = 64 << 20
"""Bytes that the memory may grow by if nothing of the claimed size is made."""
VALUES: dict[str, tuple[pa.DataType, str]] = {
    "numbers": (pa.int64(), "2.2"),
    "texts": (pa.utf8(), "2.2"),
    "lists": (pa.list_(pa.int64()), "2.2"),
    "numbers of 2.0": (pa.int64(), "2.0"),
}

FILES: dict[str, tuple[str, forge_pages.Page, int, str]] = {
    "numbers in zstd": (
        "numbers",
        mini_block(general(ZSTD, flat(64)), ROWS, [SIZED]),
        ROWS,
        "at most .* are needed",
    ),
    "numbers in zstd without a size": (
        "numbers",
        mini_block(general(ZSTD, flat(64)), ROWS, [BOMB]),
        ROWS,
        "frame holds more than",
    ),
    "numbers in zstd that claims more": (
        "numbers",
        mini_block(general(ZSTD, flat(64)), ROWS, [CLAIM]),
        ROWS,
        "at most .* are needed",
    ),
    "numbers in LZ4": ("numbers", mini_block(general(LZ4, flat(64)), ROWS, [LZ4_CLAIM]), ROWS, "at most .* needed"),
    "dictionary in zstd that claims more": (
        "texts",
        forge_pages.dictionary(ZSTD, CLAIM, ROWS),
        ROWS,
        "zstd frame is damaged|after decompression",
    ),
    "dictionary in LZ4": (
        "texts",
        forge_pages.dictionary(LZ4, LZ4_CLAIM, ROWS),
        ROWS,
        "cannot hold 4294967295 bytes",
    ),
    "dictionary of many items": (
        "texts",
        forge_pages.dictionary(LZ4, (300).to_bytes(4, "little") + lz4_bomb(300), ROWS, 2**60),
        ROWS,
        "1152921504606846976 items in",
    ),
    "runs of more values": (
        "numbers",
        mini_block(rle(64), ROWS, [bytes(32_000), b"\xff" * 4_000]),
        ROWS,
        "runs of",
    ),
    "runs of many values": (
        "numbers",
        mini_block(rle(64), 2**60, [bytes(32_000), b"\xff" * 4_000]),
        ROWS,
        "ends at value",
    ),
    "symbols of 255 bytes": (
        "texts",
        mini_block(fsst(255, 255), ROWS, [texts(ROWS, 60)]),
        ROWS,
        "symbol of 255 bytes",
    ),
    "no symbols": ("texts", mini_block(fsst(0, 0), ROWS, [texts(ROWS, 60)]), ROWS, "has no symbol"),
    "codes behind their buffer": (
        "texts",
        mini_block(fsst(255, 8), ROWS, [texts(ROWS, 60, 2**32 - 1)]),
        ROWS,
        "string offsets from .* to 4294967295",
    ),
    "many items of a chunk": ("numbers", mini_block(flat(64), 2**60, [bytes(8_000)]), ROWS, "ends at value"),
    "many full-zip items": (
        "numbers",
        forge_pages.full_zip_of_numbers(2**32 - 1, bytes(64)),
        2**32 - 1,
        "of a buffer",
    ),
    "constant of many rows": ("numbers", forge_pages.constant(bytes(8)), 2**40, "a file has at most 4294967296"),
    "nulls of many rows": ("numbers", forge_pages.nulls(), 2**64 - 1, "a file has at most 4294967296"),
    "constant text": ("texts", forge_pages.constant_text(2**31 - 1, b"abc"), ROWS, "2147483647 bytes needed"),
    "few levels": ("lists", forge_pages.lists_of_levels(ROWS, 1), ROWS, "runs of 255 values"),
    "many levels": ("lists", forge_pages.lists_of_levels(2**60, 2_000), ROWS, "1152921504606846976 levels in"),
    "2.0, numbers in zstd": (
        "numbers of 2.0",
        forge_pages.compressed_numbers("zstd", SIZED),
        ROWS,
        "at most 8064 are needed",
    ),
    "2.0, numbers in zstd that claims more": (
        "numbers of 2.0",
        forge_pages.compressed_numbers("zstd", CLAIM),
        ROWS,
        "at most 8064 are needed",
    ),
    "2.0, numbers in LZ4": (
        "numbers of 2.0",
        forge_pages.compressed_numbers("lz4", LZ4_CLAIM),
        ROWS,
        "at most 8064 are needed",
    ),
}


def forged(path: Path, values: str, page: forge_pages.Page, rows: int) -> Path:
    """A file of the reference with one column, whose only page is another one."""
    kind, version = VALUES[values]
    with LanceFileWriter(str(path), pa.schema([pa.field("a", kind)]), version=version) as writer:
        writer.write_batch(pa.table({"a": pa.array([[1], None] if values == "lists" else ["1", "2"]).cast(kind)}))
    file = ForgedFile(path)
    file.replace(0, *page, rows)
    return file.write(rows)


@pytest.mark.parametrize("names", [[name] for name in FILES] if LONG else [list(FILES)], ids=lambda names: names[0])
def test_pages_that_claim_more(tmp_path: Path, names: list[str]) -> None:
    """Nothing of the size that a page claims is made, as far as the rows tell how much they need."""
    paths = [forged(tmp_path / f"{at}.lance", *FILES[name][:3]) for at, name in enumerate(names)]
    assert max(path.stat().st_size for path in paths) < 1 << 20
    outcomes = run_all([(READ_FILE, str(path)) for path in paths], most=LITTLE)
    for name, outcome in zip(names, outcomes, strict=True):
        assert outcome.get("error") == "CorruptError", (name, outcome)
        assert re.search(FILES[name][3], str(outcome["text"])), (name, outcome)


@pytest.mark.parametrize("page", [forge_pages.constant(bytes(8)), forge_pages.nulls()], ids=["constant", "nulls"])
def test_few_rows_of_many(tmp_path: Path, page: forge_pages.Page) -> None:
    """A page of 2^32 rows without bytes is as it should be: what is read of it costs what is asked for."""
    path = str(forged(tmp_path / "a.lance", "numbers", page, 2**32))
    part = "pennon.file.LanceFileReader(argument).read_range(2**32 - 10, 10).to_table().num_rows"
    assert run_all([(TAKE_OF_FILE, path), (part, path)], most=LITTLE) == [{"found": 1}, {"found": 10}]


def test_symbols_expand_eightfold(tmp_path: Path) -> None:
    page = mini_block(fsst(255, 8), ROWS, [texts(ROWS, 60)])
    assert run(READ_FILE, forged(tmp_path / "a.lance", "texts", page, ROWS), most=LITTLE) == {"found": ROWS}


LONG_TEXT = b"x" * 100_000
LONG_ROWS = 2**30
SMALLEST_SPACE = 2 << 30
BATCHES = "sum(batch.num_rows for batch, _ in zip({}.to_batches(), range(3)))"


def long_text(path: Path) -> Path:
    """A hundred thousand bytes that are the value of all rows."""
    return forged(path, "texts", forge_pages.constant_text(len(LONG_TEXT), LONG_TEXT), LONG_ROWS)


def long_text_of_table(uri: str) -> str:
    lance.write_dataset(pa.table({"a": ["1", "2"]}), uri, data_storage_version="2.2")
    (path,) = Path(uri, "data").iterdir()
    file = ForgedFile(path)
    file.replace(0, *forge_pages.constant_text(len(LONG_TEXT), LONG_TEXT), LONG_ROWS)
    file.write(LONG_ROWS)

    def rows(fragment: forge.Message) -> forge.Message:
        # Without the size of the file.
        data_file = forge.without(forge.parse(forge.get(fragment, 2)), 6)
        return [*forge.without(fragment, 2, 4), forge.text(2, forge.encode(data_file)), forge.number(4, LONG_ROWS)]

    forge.forge_fragments(uri, rows)
    return uri


def test_batches_of_a_long_text_of_many_rows(uri: str, tmp_path: Path) -> None:
    """They cost what a batch has, however many rows the page has."""
    of_file = BATCHES.format("pennon.file.LanceFileReader(argument).read_all(batch_size=128)")
    assert run(of_file, long_text(tmp_path / "a.lance")) == {"found": 3 * 128}
    of_table = BATCHES.format("pennon.dataset(argument)")
    assert isinstance(run(of_table, long_text_of_table(uri)).get("found"), int)
    taken = "pennon.dataset(argument).take([0, 2**29, 2**30 - 1]).num_rows"
    assert run(taken, uri, most=LITTLE) == {"found": 3}


def test_a_long_text_of_many_rows_ends_at_the_memory(uri: str, tmp_path: Path) -> None:
    for call, argument in (
        (READ_FILE, long_text(tmp_path / "a.lance")),
        ("pennon.dataset(argument).to_table().num_rows", long_text_of_table(uri)),
    ):
        outcome = run(call, argument, SMALLEST_SPACE)
        assert outcome.get("error") == "CorruptError", outcome
        assert "bytes would be needed for the values" in str(outcome["text"])


def test_few_values_with_levels_are_read_in_few_batches(uri: str) -> None:
    """The levels of a page count once, not for every row."""
    rows = 50_000
    for column in (
        pa.array([None if row % 3 else "a text" for row in range(rows)]),
        pa.array([["a text"] * (row % 3) for row in range(rows)]),
    ):
        data = pa.table({"a": column})
        lance.write_dataset(data, uri, mode="overwrite", data_storage_version="2.2")
        batches = list(pennon.dataset(uri).to_batches())
        assert pa.Table.from_batches(batches) == data
        assert len(batches) < 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "page", "rows"),
    [
        ("texts", forge_pages.dictionary(ZSTD, SIZED, ROWS), ROWS),
        ("texts", mini_block(general(ZSTD, forge_pages.variable(32)), ROWS, [BOMB]), ROWS),
        ("texts", forge_pages.full_zip_value(SIZED), 1),
    ],
    ids=["dictionary", "chunk", "value"],
)
def test_texts_end_at_the_memory(tmp_path: Path, values: str, page: forge_pages.Page, rows: int) -> None:
    """How long texts are nobody knows beforehand: what does not fit into the memory of the process is an error."""
    path = forged(tmp_path / "a.lance", values, page, rows)
    outcome = run(READ_FILE, path, SMALL_SPACE if LONG else SMALLEST_SPACE)
    assert outcome.get("error") == "CorruptError", outcome
    assert re.search("zstd frame holds more than|after decompression", str(outcome["text"]))


def test_deletion_files(uri: str) -> None:
    """The length before a buffer that is compressed with zstd."""
    tables = [f"{uri}-{at}" for at in range(5)]
    for claim, table in zip([2**62, 2**31, HUGE, 0, -2], tables, strict=True):
        lance.write_dataset(numbers(ROWS), table).delete("id % 9 = 1")
        (path,) = Path(table, "_deletions").iterdir()
        content = path.read_bytes()
        at = content.index(ZSTD_MAGIC) - 8
        path.write_bytes(content[:at] + claim.to_bytes(8, "little", signed=True) + content[at + 8 :])
    for table, outcome in zip(tables, run_all([(READ, table) for table in tables], most=LITTLE), strict=True):
        assert outcome.get("error") == "CorruptError", (table, outcome)
        assert "bytes of row ids" in str(outcome["text"])


@pytest.mark.slow
@pytest.mark.parametrize(("bomb", "most"), [(CLAIM, LITTLE), (SIZED, GROWTH)], ids=["claim", "bomb"])
def test_index_files(uri: str, bomb: bytes, most: int) -> None:
    """A bitmap is compressed in its index. The index is passed over, and rows are found without it."""
    # Without a pattern, and so many that a bitmap has more bytes than the bomb.
    values = random.Random(0).choices(range(3), k=2_500_000)
    lance.write_dataset(pa.table({"a": values}), uri).create_scalar_index("a", "BITMAP")
    (path,) = Path(uri, "_indices").rglob("*.lance")
    _, (rows, offsets) = ForgedFile(path).page(1)
    start, end = struct.unpack_from("<II", offsets, 4)
    value, content = rows[start + 4 : end], path.read_bytes()
    assert len(bomb) + 8 < len(value)
    # A frame that is to be skipped fills the rest.
    rest = len(value) - len(bomb) - 8
    other = bomb + struct.pack("<II", 0x184D2A50, rest) + bytes(rest)
    path.write_bytes(content.replace(value, other))
    assert path.read_bytes() != content
    calls = "pennon.dataset(argument).scanner(filter='a = 1', columns=['a'], strict_indices={}).to_table().num_rows"
    outcome = run(calls.format(True), uri, SMALL_SPACE, most)
    assert outcome.get("error") == "CorruptError", outcome
    assert path.name in str(outcome["text"])
    assert run(calls.format(False), uri, SMALL_SPACE, GROWTH) == {"found": values.count(1)}
