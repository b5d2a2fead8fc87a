"""Draws the imports of `rust/table` and `python/pennon` and checks their floors: no file uses one above, no circle.

Verbs of a table (`rust/table/src/ops`) use what they share, and no other verb except as `BETWEEN_VERBS` lists.

The package for Spark has one floor, above both: its files form no circle, and use no private name of `pennon`. Nor
do the files of any other crate form a circle.

Tables of files at the top of `lib.rs` and `mod.rs` name only files that are there; that of `rust/py` names all.

A floor may use itself and the floors below it (`FLOORS` and `PYTHON_FLOORS`, lowest first). Inside a floor the
files may use each other, but not in a circle. Paths that are written out in Rust (`crate::store::Store` in a body)
count like `use`; in Python imports in functions, for type checkers and in stubs count like others. Files of tests
are left out.

    python tests/floors.py            # exits with 1 if an arrow climbs or files form a circle
    python tests/floors.py --show     # every arrow between floors, with its number of imports
"""

import ast
import re
import sys
from pathlib import Path

RUST = Path(__file__).parents[1] / "rust"
# Lowest first. `lib` only re-exports.
FLOORS = [
    "runtime",
    "batches",
    "spill",
    "store",
    "session",
    "versions",
    "json",
    "expr",
    "blobs",
    "indices",
    "scan",
    "write",
    "commit",
    "refs",
    "dataset",
    "file",
    "inventory",
    "ops",
    "jobs",
    "lib",
]
# What verbs share, by its file; and which verb uses which other one.
SHARED_BY_VERBS = {"commit", "evolve", "field_trail", "with_columns"}
BETWEEN_VERBS = {
    ("commit", "config"),
    ("compact", "index"),
    ("config", "cleanup"),
    ("repair", "index"),
    ("repair", "restore_rows"),
    ("repair", "verify"),
    ("scrub", "verify"),
    ("seal", "verify"),
}
# What a `Dataset` is called in their code.
HANDLES = "self|Self|Dataset|base|current|dataset|handle|latest|newest|table"
# Encodings within encodings: the files of each decode what the other one holds.
RECURSIVE = [
    ["array_encoding::decode::array", "array_encoding::decode::dictionary"],
    ["encodings::codec", "encodings::packed_struct::decode"],
]
PACKAGE = Path(__file__).parents[1] / "python" / "pennon"
BINDING = RUST / "py" / "src"
PLUGIN = Path(__file__).parents[1] / "spark-plugin" / "pyspark_pennon"
# All stubs of the compiled module count as one file, which it is.
COMPILED = "_native"
# Lowest first: files and folders of the package by floor.
PYTHON_FLOORS = {
    "native": ["_native"],
    "values": [
        *["errors", "types", "blob", "metadata", "processors", "schema", "session", "stats", "transaction"],
        *["_address", "_c_data", "_compatibility", "_exact_casts", "_expression", "_field_paths", "_input"],
        *["_lazy", "_logging", "_native_loading", "_optional", "_options", "_ordering", "_predicate"],
        *["_progress", "_protocols", "_python_values", "_readers", "_registration", "_render", "_schema_json"],
        *["_file_reader", "_file_writer", "_text", "_time", "_whole_files", "arrow", "bitmap", "hf"],
        *["indices", "log", "progress", "pydantic", "vector"],
    ],
    "nouns": [
        *["_compaction", "_table", "branches", "cleanup", "file", "merge_insert", "optimize", "tags", "udf"],
        *["verification"],
    ],
    "repairs": ["repairing", "scrubbing", "sealing"],
    "dataset": [
        *["_fragment_columns", "_fragment_rows", "_fragment_state", "_lance_api", "_lance_scanner", "_methods"],
        *["_sql_functions", "_sql_row_columns", "dataset", "delta", "fragment", "scanner", "sql"],
    ],
    "package": ["__init__", "commit", "jobs", "open", "write"],
    "training and debugging": ["_sample", "debug", "sampler", "torch", "util"],
    "commands": ["__main__", "cli"],
}


def module_of(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return "::".join(parts[:-1] if parts[-1] == "mod" else parts)


def without_tests(text: str) -> str:
    """The text up to the inline tests, without comments and strings."""
    text = text.split("#[cfg(test)]\nmod tests {")[0]
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', text)


def expand(tree: str) -> list[str]:
    """The paths of a use tree: `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`."""
    tree = tree.strip()
    start = tree.find("{")
    if start < 0:
        return [re.sub(r"\s+as\s+\w+$", "", tree)]
    head, body = tree[:start], tree[start + 1 : tree.rindex("}")]
    depth, part, parts = 0, "", []
    for char in body:
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += char
    return [head + path for item in [*parts, part] if item.strip() for path in expand(item)]


def paths_in(module: str, text: str) -> set[str]:
    """All paths below `crate` that a file names, absolute and without `crate::`."""
    found = set()
    for tree in re.findall(r"\buse\s+((?:crate|self|super)\b[^;]*);", text):
        found.update(expand(tree))
    body = re.sub(r"\buse\s+[^;]*;", "", text)
    found.update(re.findall(r"\b(?:crate|super)(?:::\w+)+", body))
    absolute = set()
    for path in found:
        parts = [part.strip() for part in path.split("::")]
        base = module.split("::") if module else []
        if parts[0] == "crate":
            base, parts = [], parts[1:]
        elif parts[0] == "self":
            parts = parts[1:]
        while parts and parts[0] == "super":
            base, parts = base[:-1], parts[1:]
        absolute.add("::".join([*base, *parts]))
    return absolute


def rust_arrows(source: Path) -> dict[str, set[str]]:
    """The files of a crate, and what each uses of it."""
    files = [p for p in source.rglob("*.rs") if not re.search(r"(^|_)tests?\.rs$", p.name)]
    modules = {module_of(path, source): path for path in files}
    reexports: dict[str, str] = {}
    texts = {module: without_tests(path.read_text()) for module, path in modules.items()}
    for module, text in texts.items():
        for tree in re.findall(r"\bpub(?:\(crate\)|\(super\))?\s+use\s+([^;]*);", text):
            for path in expand(tree):
                parts = path.split("::")
                origin = "::".join(parts[1:] if parts[0] in ("crate", "self") else parts)
                if parts[0] != "crate":
                    origin = f"{module}::{origin}" if module else origin
                reexports[f"{module}::{parts[-1]}" if module else parts[-1]] = origin

    def resolve(path: str) -> str | None:
        for _ in range(6):
            parts = path.split("::")
            for end in range(len(parts), 0, -1):
                prefix = "::".join(parts[:end])
                if prefix in reexports and reexports[prefix] != prefix:
                    path = "::".join([reexports[prefix], *parts[end:]])
                    break
            else:
                break
        parts = path.split("::")
        for end in range(len(parts), 0, -1):
            if "::".join(parts[:end]) in modules and parts[:end] != ["lib"]:
                return "::".join(parts[:end])
        return "lib" if path else None

    graph = {}
    for module, text in texts.items():
        targets = {resolve(path) for path in paths_in("" if module == "lib" else module, text)}
        # A folder names its own files: that is no arrow.
        graph[module] = {t for t in targets if t and t != module and not t.startswith(f"{module}::")}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one file (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = []
            while not component or component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    sys.setrecursionlimit(10_000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def verb_arrows(source: Path, graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Which verb of a table uses which other file or folder of `ops`: by a path, or by a method of `Dataset`."""

    def verb(module: str) -> str:
        parts = module.split("::")
        return parts[1] if parts[0] == "ops" and len(parts) > 1 else ""

    files = [p for p in source.rglob("*.rs") if not re.search(r"(^|_)tests?\.rs$", p.name)]
    texts = {module_of(path, source): without_tests(path.read_text()) for path in files}
    owners: dict[str, set[str]] = {}
    for module, text in texts.items():
        for block in re.findall(r"^impl Dataset \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            for name in re.findall(r"\bfn (\w+)", block):
                owners.setdefault(name, set()).add(verb(module))
    found = {(verb(module), verb(target)) for module, targets in graph.items() for target in targets}
    for module, text in texts.items():
        called = re.findall(rf"(?:\b(?:{HANDLES})|\?)(?:\s*\.|::)\s*(\w+)\(", text)
        found.update((verb(module), owner) for name in called for owner in owners.get(name, ()))
    return {(user, used) for user, used in found if user and used and user != used}


def python_arrows(package: Path = PACKAGE) -> dict[str, set[str]]:
    """The files of a Python package, stubs included, and what each imports of it."""
    files = [path for path in package.rglob("*.py*") if path.suffix in (".py", ".pyi")]
    modules: dict[str, list[Path]] = {}
    for path in files:
        parts = path.relative_to(package).with_suffix("").parts
        if parts[0] == COMPILED:
            parts = (COMPILED,)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        modules.setdefault(name, []).append(path)

    def resolve(name: str) -> str:
        """The file of an absolute name, which may go on with a name in that file."""
        parts = name.split(".")[1:]
        found = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return next((module for module in found if module in modules), "__init__")

    graph = {}
    for module, paths in modules.items():
        named = set()
        for path, node in ((file, node) for file in paths for node in ast.walk(ast.parse(file.read_text()))):
            if isinstance(node, ast.Import):
                named.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    above = [package.name, *path.relative_to(package).parts[:-1]]
                    above = above[: len(above) - node.level + 1]
                    base = ".".join([*above, *([base] if base else [])])
                named.update(f"{base}.{alias.name}" for alias in node.names)
        targets = {resolve(name) for name in named if name.split(".")[0] == package.name}
        # A folder names its own files: that is no arrow.
        graph[module] = {t for t in targets if t != module and not t.startswith(f"{module}.")}
    return graph


def faults(graph: dict[str, set[str]], floor_of: dict[str, int], folder: str, separator: str) -> list[str]:
    """Files without a floor, arrows that climb and circles; `floor_of` has the floor of a file or folder."""

    def floor(module: str) -> int | None:
        return floor_of.get(module.split(separator)[0])

    unknown = sorted({module.split(separator)[0] for module in graph} - set(floor_of))
    found = [f"{folder}/{name}: not on a floor; on floors are {', '.join(floor_of)}" for name in unknown]
    for source in sorted(graph):
        for target in sorted(graph[source]):
            lower, upper = floor(source), floor(target)
            if lower is not None and upper is not None and upper > lower:
                found.append(f"{folder}: {source} uses {target}, which is a floor above")
    return found + [f"{folder}: circle of {len(ring)}: {', '.join(ring)}" for ring in circles(graph)]


def private_imports(package: Path) -> list[str]:
    """Imports of private modules and names of `pennon` in another package."""
    found = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{name}" for name in names]
            private = [name for name in names if re.match(r"pennon\.(\w+\.)*_", name)]
            found += [f"{package.name}: {path.stem} imports {name}, which is private" for name in private]
    return found


def stale_tables(source: Path) -> list[str]:
    """Files that a table at the top of `lib.rs` or `mod.rs` names and that are not there.

    That of `BINDING` names every file, too.
    """
    found = []
    for path in sorted([*source.rglob("lib.rs"), *source.rglob("mod.rs")]):
        rows = re.findall(r"^//! \|.*", path.read_text(), re.MULTILINE)
        named = {name for row in rows for name in re.findall(r"`(\w+)\.rs`", row)}
        there = {file.stem for file in path.parent.glob("*.rs")} - {path.stem}
        where = path.relative_to(RUST.parent)
        found += [f"{where}: its table names {name}.rs, which is not there" for name in sorted(named - there)]
        if source == BINDING:
            found += [f"{where}: its table lacks {name}.rs" for name in sorted(there - named)]
    return found


def show(graph: dict[str, set[str]], floor_of: dict[str, int], names: list[str], separator: str) -> None:
    counts: dict[tuple[int, int], int] = {}
    for source, targets in graph.items():
        for target in targets:
            pair = tuple(floor_of.get(module.split(separator)[0], len(names)) for module in (source, target))
            if pair[0] != pair[1]:
                counts[pair] = counts.get(pair, 0) + 1
    shown = [*names, "?"]
    for (source, target), count in sorted(counts.items()):
        print(f"{shown[source]} -> {shown[target]}: {count}")


def main() -> int:
    floor_of = {name: at for at, name in enumerate(FLOORS)}
    python_floor_of = {name: at for at, names in enumerate(PYTHON_FLOORS.values()) for name in names}
    failed = False
    for graph, floors, names, folder, separator in (
        (rust_arrows(RUST / "table" / "src"), floor_of, FLOORS, "rust/table/src", "::"),
        (python_arrows(), python_floor_of, list(PYTHON_FLOORS), "python/pennon", "."),
    ):
        if "--show" in sys.argv:
            show(graph, floors, names, separator)
        found = faults(graph, floors, folder, separator)
        for line in found:
            print(line)
        print(f"{folder}: {len(graph)} files, {sum(map(len, graph.values()))} arrows, {len(found)} faults")
        failed = failed or bool(found)
    table = RUST / "table" / "src"
    between = verb_arrows(table, rust_arrows(table))
    for user, used in sorted(pair for pair in between - BETWEEN_VERBS if pair[1] not in SHARED_BY_VERBS):
        print(f"rust/table/src/ops: {user} uses {used}, which is another verb")
        failed = True
    for user, used in sorted(BETWEEN_VERBS - between):
        print(f"rust/table/src/ops: {user} does not use {used} any more: BETWEEN_VERBS lists it")
        failed = True
    for source in sorted(RUST.glob("*/src")):
        stale = stale_tables(source)
        print(*stale, sep="\n", end="\n" if stale else "")
        failed = failed or bool(stale)
        if source.parent.name == "table":
            continue
        folder = source.relative_to(RUST.parent)
        graph = rust_arrows(source)
        rings = [ring for ring in circles(graph) if ring not in RECURSIVE]
        for ring in rings:
            print(f"{folder}: circle of {len(ring)}: {', '.join(ring)}")
        print(f"{folder}: {len(graph)} files, {len(rings)} faults")
        failed = failed or bool(rings)
    # The package itself is imported for its release alone, the table by its builder for the type of the result.
    graph = {module: targets - {"__init__"} for module, targets in python_arrows(PLUGIN).items()}
    graph["builders"].discard("table")
    found = private_imports(PLUGIN)
    found += [f"{PLUGIN.name}: circle of {len(ring)}: {', '.join(ring)}" for ring in circles(graph)]
    print(*found, f"{PLUGIN.name}: {len(graph)} files, {len(found)} faults", sep="\n")
    return failed or bool(found)


if __name__ == "__main__":
    sys.exit(main())
