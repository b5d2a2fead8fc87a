"""Writes the signatures of the methods that scan, which Python and its tools can only show if they are written out.

They are those of pylance and our own, so names, order and defaults come from the table of `compatibility.py`; the
types come from `ScanOptions`, where each option stands once. Of a method this script owns the parameters; the rest
is written by hand.

    python tests/scan_signatures.py            # exits with 1 if a signature is not what it would write
    python tests/scan_signatures.py --write    # writes them
"""

import ast
import re
import sys
from pathlib import Path

import compatibility

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "pennon"
METHODS = {
    "_methods/scans.py": ("LanceDataset", ["scanner", "to_table", "to_batches", "to_pandas"]),
    "fragment.py": ("LanceFragment", ["scanner", "to_table", "to_batches", "to_pandas"]),
}
# What pylance's signatures have besides the options of a scan.
OTHER_TYPES = {"blob_mode": "BlobMode", "kwargs": "Any", "schema": "pa.Schema | None"}


def option_types() -> dict[str, str]:
    tree = ast.parse((PACKAGE / "_table" / "scans.py").read_text())
    (options,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ScanOptions")
    return {
        ast.unparse(node.target): ast.unparse(node.annotation)
        for node in options.body
        if isinstance(node, ast.AnnAssign)
    }


def parameters(signature: dict[str, tuple[str, str]], types: dict[str, str]) -> str:
    lines, keyword_only = ["self"], False
    for name, (kind, default) in signature.items():
        if kind == "named" and not keyword_only:
            lines.append("*")
            keyword_only = True
        if kind == "**":
            lines.append(f"**kwargs: {types['kwargs']}")
        else:
            shown = default.replace("'", '"')
            lines.append(f"{name}: {types[name]} = {shown}")
    return "".join(f"        {line},\n" for line in lines)


def rewritten(text: str, owner: str, methods: list[str]) -> str:
    options = option_types()
    table, _ = compatibility.load()
    for method in methods:
        row = table[f"{owner}.{method}"]
        signature = compatibility.parameters(row.get("here", row["takes"]))
        pattern = rf"(    def {method}\(\n).*?(    \) -> )"
        new = rf"\g<1>{parameters(signature, {**options, **OTHER_TYPES})}\g<2>"
        text, count = re.subn(pattern, new, text, count=1, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"{owner}.{method}: no such method found")
    return text


def main() -> int:
    stale = []
    for file, (owner, methods) in METHODS.items():
        path = PACKAGE / file
        text = path.read_text()
        new = rewritten(text, owner, methods)
        if new != text:
            stale.append(file)
            if "--write" in sys.argv:
                path.write_text(new)
    for file in stale:
        print(f"python/pennon/{file}: signatures differ from ScanOptions: run tests/scan_signatures.py --write")
    return bool(stale) and "--write" not in sys.argv


if __name__ == "__main__":
    sys.exit(main())
