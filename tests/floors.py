"""Draws the imports of `rust/table` and checks that its floors hold: no file uses one above it, no circle.

A floor may use itself and the floors below it (`FLOORS`, lowest first). Inside a floor the files may use each
other, but not in a circle. Paths that are written out (`crate::store::Store` in a body) count like `use`. Files of
tests are left out.

    python tests/floors.py            # exits with 1 if an arrow climbs or files form a circle
    python tests/floors.py --show     # every arrow between floors, with its number of imports
"""

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "rust" / "table" / "src"
# Lowest first. `lib` only re-exports.
FLOORS = [
    "runtime",
    "store",
    "session",
    "versions",
    "expr",
    "blobs",
    "scan",
    "write",
    "commit",
    "refs",
    "dataset",
    "file",
    "inventory",
    "ops",
    "lib",
]


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
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


def arrows() -> dict[str, set[str]]:
    files = [p for p in SOURCE.rglob("*.rs") if not re.search(r"(^|_)tests?\.rs$", p.name)]
    modules = {module_of(path): path for path in files}
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


def main() -> int:
    graph = arrows()
    floor = lambda module: module.split("::")[0]  # noqa: E731
    unknown = {floor(module) for module in graph} - set(FLOORS)
    climbing = sorted(
        (source, target)
        for source, targets in graph.items()
        for target in targets
        if floor(source) in FLOORS
        and floor(target) in FLOORS
        and FLOORS.index(floor(target)) > FLOORS.index(floor(source))
    )
    rings = circles(graph)
    if "--show" in sys.argv:
        counts: dict[tuple[str, str], int] = {}
        for source, targets in graph.items():
            for target in targets:
                if floor(source) != floor(target):
                    counts[floor(source), floor(target)] = counts.get((floor(source), floor(target)), 0) + 1
        for (source, target), count in sorted(
            counts.items(), key=lambda item: FLOORS.index(item[0][0]) if item[0][0] in FLOORS else 99
        ):
            print(f"{source} -> {target}: {count}")
    for name in sorted(unknown):
        print(f"rust/table/src/{name}: not a floor; the floors are {', '.join(FLOORS)}")
    for source, target in climbing:
        print(f"{source} uses {target}, which is a floor above")
    for ring in rings:
        print(f"circle of {len(ring)}: {', '.join(ring)}")
    print(
        f"{len(graph)} files, {sum(map(len, graph.values()))} arrows, {len(climbing)} climb, {len(rings)} circles"
    )
    return bool(unknown or climbing or rings)


if __name__ == "__main__":
    sys.exit(main())
