"""Parts of pages that say what the product knows: storage options, functions of SQL, types, names with an example.

    python tests/pages.py            names the parts that are not current, and exits with 1 if there is one
    python tests/pages.py --write    writes them

A part lies between `<!-- begin: NAME -->` and `<!-- end -->`. Storage options are read from the source, functions
are those of the DataFusion that Pennon is built with, as far as Pennon plans them; types are tried. Figures, and
the plot of them, are those of `benches/results`: `figure_pages.py`.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import figure_pages
import pennon
import pyarrow as pa

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
OPTIONS = ROOT / "rust" / "table" / "src" / "store" / "options.rs"
JSON = ROOT / "rust" / "table" / "src" / "json" / "functions.rs"
PART = re.compile(r"(?<=<!-- begin: {} -->\n).*?(?=<!-- end -->)", re.DOTALL)
TEXT = re.compile(r'"([a-z0-9_]+)"')


# Storage options.


def constant(name: str) -> str:
    """The text of a constant of the source."""
    found = re.search(
        rf"^(?:pub\(super\) )?const {name}: .*?= (.*?);$", OPTIONS.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None, name
    return found[1]


def by_prefix() -> dict[str, list[str]]:
    """Options that have a prefix: it may be left out."""
    groups = re.findall(r'\(\s*"([a-z_]+_)",\s*&\[(.*?)\],?\s*\)', constant("BY_PREFIX"), re.DOTALL)
    assert len(groups) == 4
    return {prefix: TEXT.findall(names) for prefix, names in groups}


def storage_options() -> set[str]:
    """All names, those with a prefix in their long form."""
    names = {f"{prefix}{name}" for prefix, names in by_prefix().items() for name in names}
    for group in ("CLIENT", "REQUESTS", "OTHERS", "VERIFY_READS"):
        names |= set(TEXT.findall(constant(group)))
    return names


def options_part() -> str:
    """Tables of the names."""
    titles = {
        "aws_": "S3",
        "azure_": "Azure",
        "azure_storage_": "Azure, accounts",
        "google_": "Google Cloud Storage",
    }
    lines = ["| store | prefix | names |", "|---|---|---|"]
    for prefix, names in by_prefix().items():
        lines.append(f"| {titles[prefix]} | `{prefix}` | {', '.join(f'`{prefix}{name}`' for name in names)} |")
    client = ", ".join(f"`{name}`" for name in TEXT.findall(constant("CLIENT")))
    lines.append(f"| clients of all stores | `aws_`, `azure_`, `google_` or none | {client} |")
    requests = ", ".join(f"`{name}`" for name in TEXT.findall(constant("REQUESTS")))
    lines.append(f"| requests to any store | none | {requests} |")
    reads = ", ".join(f"`{name}`" for name in TEXT.findall(constant("VERIFY_READS")))
    lines.append(f"| reads of any store | none | {reads} |")
    manifests = ", ".join(f"`{name}`" for name in TEXT.findall(constant("DYNAMODB_ENDPOINT")))
    lines.append(f"| manifest stores of `s3+ddb` addresses | none | {manifests} |")
    others = ", ".join(f"`{name}`" for name in TEXT.findall(constant("OTHERS")))
    lines.append(f"| accepted, for programs that hand dictionaries on | none | {others} |")
    return "\n".join(lines) + "\n"


# Functions.


def probe() -> Callable[[str], str]:
    """The error of an expression, empty if there is none."""
    table = pennon.write_dataset({"a": [1]}, "memory://pages-functions", mode="overwrite")

    def error(expression: str) -> str:
        try:
            table.to_table(columns={"x": expression})
        except pennon.PennonError as failed:
            return str(failed)
        return ""

    return error


def catalogue() -> list[dict[str, Any]]:
    """The scalar functions of DataFusion, by name."""
    import datafusion

    context = datafusion.SessionContext(datafusion.SessionConfig().with_information_schema(True))
    query = """
        SELECT DISTINCT routine_name AS name, description, syntax_example AS syntax
        FROM information_schema.routines WHERE function_type = 'SCALAR' ORDER BY 1
    """
    rows: dict[str, dict[str, Any]] = {}
    for row in context.sql(query).to_arrow_table().to_pylist():
        rows.setdefault(row["name"], row)
    return list(rows.values())


# Functions of the files of a query are planned, and cannot be evaluated.
UNKNOWN = re.compile(r"Invalid function|source dependent", re.IGNORECASE)


def functions() -> list[dict[str, Any]]:
    """Those that Pennon plans."""
    error = probe()
    assert UNKNOWN.search(error("no_such_function(a)"))
    found = [row for row in catalogue() if not UNKNOWN.search(error(f"{row['name']}()"))]
    assert len(found) > 150
    return found


def json_functions() -> list[tuple[str, str]]:
    """The table in the source of the functions over JSON columns."""
    rows = re.findall(r"^//! \| (`json_.*?) \| (.*?) \|$", JSON.read_text(), re.MULTILINE)
    assert len(rows) >= 6
    return rows


def one_line(text: str | None) -> str:
    """The first sentence of a description, in one line of a table."""
    flat = " ".join((text or "").split()).replace("|", "\\|")
    plain = re.sub(r"\[`?([^]`]*)`?\]\([^)]*\)", r"\1", flat)
    return re.split(r"(?<=\w|\)|`)\. ", plain)[0].removesuffix(".")


def functions_part() -> str:
    """A table of functions, with what they do in the words of DataFusion; aliases are in one line."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in functions():
        groups.setdefault(row["syntax"] or f"{row['name']}(...)", []).append(row)
    lines = ["| function | gives | other names |", "|---|---|---|"]
    for syntax, rows in sorted(groups.items()):
        own = syntax.partition("(")[0]
        names = {row["name"] for row in rows}
        twins = {name.replace("array_", "list_", 1) for name in names if name.startswith("array_")}
        others = names - {own} - twins
        shown = " ".join(syntax.split()).replace("|", "\\|")
        gives = one_line(rows[0]["description"])
        lines.append(f"| `{shown}` | {gives} | {', '.join(f'`{name}`' for name in sorted(others))} |")
    return "\n".join(lines) + "\n"


def json_part() -> str:
    """A table of the functions over JSON columns."""
    return "\n".join(["| function | gives |", "|---|---|", *(f"| {a} | {b} |" for a, b in json_functions())]) + "\n"


# Types.

VERSIONS = ("2.0", "2.1", "2.2")
KINDS = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "LABEL_LIST")
ONE = [1, None]
SAMPLES: dict[str, list[pa.Array]] = {
    "null": [pa.nulls(2)],
    "bool": [pa.array([True, None])],
    "int8, int16, int32, int64": [pa.array(ONE, kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
    "uint8, uint16, uint32, uint64": [
        pa.array(ONE, kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ],
    "float16": [pa.array(ONE, pa.float16())],
    "float32, float64": [pa.array(ONE, kind) for kind in (pa.float32(), pa.float64())],
    "decimal32, decimal64": [pa.array(ONE, kind) for kind in (pa.decimal32(5, 2), pa.decimal64(10, 2))],
    "decimal128": [pa.array(ONE, pa.decimal128(20, 2))],
    "decimal256": [pa.array(ONE, pa.decimal256(50, 2))],
    "string, large_string": [pa.array(["a", None], kind) for kind in (pa.string(), pa.large_string())],
    "binary, large_binary": [pa.array([b"a", None], kind) for kind in (pa.binary(), pa.large_binary())],
    "binary of a fixed size": [pa.array([b"ab", None], pa.binary(2))],
    "date32, date64": [pa.array([1, None], pa.date32()).cast(kind) for kind in (pa.date32(), pa.date64())],
    "time32, time64": [pa.array(ONE, kind) for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"))],
    "timestamp, with a zone or without": [
        pa.array(ONE, pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")
    ],
    "duration": [pa.array(ONE, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")],
    "dictionary of strings": [pa.array(["a", None], pa.dictionary(pa.int8(), pa.string()))],
    "list, large_list": [
        pa.array([[1, 2], None], kind) for kind in (pa.list_(pa.int64()), pa.large_list(pa.int64()))
    ],
    "list of structs": [pa.array([[{"x": 1}], None], pa.list_(pa.struct({"x": pa.int64()})))],
    "list of a fixed size": [pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2))],
    "struct": [pa.array([{"x": 1}, None], pa.struct({"x": pa.int64()}))],
    "map": [pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))],
    "string_view": [pa.array(["a", None], pa.string_view())],
    "binary_view": [pa.array([b"a", None], pa.binary_view())],
    "list_view": [pa.array([[1], None], pa.list_view(pa.int64()))],
    "month_day_nano_interval": [pa.array([(1, 2, 3), None], pa.month_day_nano_interval())],
    "run-end encoded": [pa.RunEndEncodedArray.from_arrays([2], [1])],
    "union": [pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])],
}


def stored(array: pa.Array, version: str) -> str:
    """Whether an array is read as it was written."""
    data = pa.table({"a": array})
    try:
        table = pennon.write_dataset(data, "memory://pages-types", mode="overwrite", data_storage_version=version)
    except pennon.PennonError:
        return "without nulls" if array.null_count and stored(array.drop_null(), version) == "yes" else "no"
    found = table.to_table()
    return "yes" if found == data else f"as `{found.schema.field('a').type}`"


def indexed(array: pa.Array) -> list[str]:
    """The kinds of indices over values that can be made."""
    made = []
    for kind in KINDS:
        try:
            table = pennon.write_dataset(pa.table({"a": array}), "memory://pages-types", mode="overwrite")
            table.create_scalar_index("a", kind)
        except (pennon.PennonError, TypeError):
            continue
        made.append(f"`{kind}`")
    return made


def types_part() -> str:
    """A table of types: whether each file version stores them, and indices over values."""
    lines = ["| Arrow type | file 2.0 | file 2.1 | file 2.2 | indices |", "|---|---|---|---|---|"]
    for name, arrays in SAMPLES.items():
        outcomes = {(*(stored(array, version) for version in VERSIONS), *indexed(array)) for array in arrays}
        assert len(outcomes) == 1, f"{name}: {outcomes}"
        found = outcomes.pop()
        lines.append(f"| {name} | {' | '.join(found[:3])} | {', '.join(found[3:])} |")
    return "\n".join(lines) + "\n"


# Conflicts.

Verb = Callable[[pennon.LanceDataset], object]


def upsert(table: pennon.LanceDataset) -> object:
    """A merge that inserts a key."""
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute({"id": [50], "n": [9]})


CHANGES: dict[str, Verb] = {
    "append": lambda table: table.insert({"id": [40], "n": [1]}),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"n": "n + 1"}, where="id < 3"),
    "merge": upsert,
    "compaction": lambda table: table.optimize.compact_files(materialize_deletions_threshold=0.0),
    "new column": lambda table: table.add_columns({"more": "id * 2"}),
    "dropped column": lambda table: table.drop_columns(["spare"]),
    "new index": lambda table: table.create_scalar_index("id", "BTREE"),
    "overwrite": lambda table: table.insert({"id": [1], "n": [1], "spare": [0]}, mode="overwrite"),
    "restore": lambda table: table.checkout_version(1).restore(),
}


def outcome(first: Verb, second: Verb) -> str:
    """What becomes of a change that was decided before another one was committed."""
    uri = "memory://pages-conflicts"
    data = {"id": list(range(12)), "n": [0] * 12, "spare": [0] * 12}
    pennon.write_dataset(data, uri, mode="overwrite", max_rows_per_file=4).delete("id = 11")
    before, late = pennon.dataset(uri), pennon.dataset(uri)
    first(before)
    try:
        second(late)
    except pennon.CommitConflictError as error:
        return "again" if error.retryable else "no"
    return "yes"


def conflicts_part() -> str:
    """A table of pairs of changes."""
    lines = [f"| | {' | '.join(CHANGES)} |", "|---" * (len(CHANGES) + 1) + "|"]
    for name, first in CHANGES.items():
        found = [outcome(first, second) for second in CHANGES.values()]
        lines.append(f"| **{name}** | {' | '.join(found)} |")
    return "\n".join(lines) + "\n"


# The reference.

DIRECTIVE = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
OURS = ("pennon", "pyspark_pennon")


def referenced() -> dict[str, str]:
    """The names that pages of the reference show, and their pages."""
    pages = sorted((DOCS / "reference").glob("*.md"))
    return {name: page.stem for page in pages for name in DIRECTIVE.findall(page.read_text())}


def resolved(name: str) -> Any:
    """The object of a dotted name."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            value = getattr(value, part)
        return value
    raise AssertionError(name)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, those that it inherits from classes of Pennon too."""
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in base.__dict__), None)
        if name.startswith("_") or owner is None or not owner.__module__.startswith(OURS):
            continue
        if name in inspect.get_annotations(owner):  # a value, which may be callable
            continue
        value = inspect.getattr_static(cls, name)
        value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if isinstance(value, property) or inspect.isroutine(value):
            yield name, value


# Names that no program can bring about, so that no example can show them, with the reason.
UNSHOWN = {"InternalError": "only a fault of Pennon itself raises it"}


def documented() -> dict[str, Any]:
    """What the reference documents: functions, classes, their methods and properties. Type aliases are left out."""
    found: dict[str, Any] = {}
    for name in referenced():
        value = resolved(name)
        if not callable(value) or not getattr(value, "__module__", "").startswith(OURS):
            continue
        found[name] = value
        if inspect.isclass(value):
            found |= {f"{name}.{member}": part for member, part in members(value)}
    return found


def has_example(value: Any) -> bool:
    """Whether its docstring has an example that the tests run: those of both packages do."""
    module = getattr(value.fget if isinstance(value, property) else value, "__module__", "")
    text = value.__doc__ or ""
    return module.startswith(OURS) and ">>> " in text and "+SKIP" not in text


def share_part() -> str:
    """How many names have an example of their own."""
    every = documented()
    names = {name: value for name, value in every.items() if name.rpartition(".")[2] not in UNSHOWN}
    groups = {
        "functions": [v for n, v in names.items() if not inspect.isclass(v) and resolved_parent(n) is None],
        "classes": [v for v in names.values() if inspect.isclass(v)],
        "methods and properties": [
            v for n, v in names.items() if not inspect.isclass(v) and resolved_parent(n) is not None
        ],
    }
    lines = ["| | names | with an example in their docstring that the tests run |", "|---|---|---|"]
    for title, values in (groups | {"all": list(names.values())}).items():
        shown = sum(map(has_example, values))
        lines.append(f"| {title} | {len(values)} | {shown} ({shown * 100 // max(len(values), 1)} %) |")
    left_out = ", ".join(f"`{name}`: {reason}" for name, reason in UNSHOWN.items())
    lines += ["", f"Not counted, since no program can show it, is {left_out}."]
    return "\n".join(lines) + "\n"


def resolved_parent(name: str) -> type | None:
    """The class of a method."""
    parent = name.rpartition(".")[0]
    value = resolved(parent) if "." in parent else None
    return value if inspect.isclass(value) else None


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("options.md", "storage options"): options_part,
    ("sql.md", "functions"): functions_part,
    ("sql.md", "JSON functions"): json_part,
    ("types.md", "types"): types_part,
    ("guides/many-writers.md", "conflicts"): conflicts_part,
    ("reference/index.md", "examples"): share_part,
    **figure_pages.PARTS,
}
# Files that are made as a whole.
FILES = figure_pages.FILES


def stale() -> dict[Path, str]:
    """The pages that are not current, with what they should be."""
    wanted: dict[Path, str] = {}
    for (name, part), make in PARTS.items():
        page = DOCS / name
        text = wanted.get(page, page.read_text())
        pattern = re.compile(PART.pattern.format(re.escape(part)), re.DOTALL)
        assert pattern.search(text), f"{name} has no part {part!r}"
        made = make()
        wanted[page] = pattern.sub(lambda _, made=made: made, text, count=1)
    wanted |= {DOCS / name: make() for name, make in FILES.items()}
    return {page: text for page, text in wanted.items() if not page.exists() or page.read_text() != text}


def main() -> int:
    """The command."""
    pages = stale()
    for page, text in pages.items():
        print(f"{page.relative_to(ROOT)} is not current: run tests/pages.py --write")
        if "--write" in sys.argv:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text)
    return int(bool(pages) and "--write" not in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
