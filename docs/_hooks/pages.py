"""Pages of the site that are files elsewhere in the repository, and links between them and those of `docs/`.

Links in the sources are those of the repository, so that they work where it is browsed: `../ARCHITECTURE.md` in a
page of `docs/`, `docs/spark.md` in the changelog. They are written again as links of the site. One that leads to a
file that is not a page is a warning, which `--strict` makes an error.

In tables a figure stays on one line with its unit.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

LOG = logging.getLogger("mkdocs.hooks.pages")
ROOT = Path(__file__).resolve().parents[2]
# The file in the repository, and its page.
ELSEWHERE = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benches/README.md": "benchmarks.md",
    "spark-plugin/README.md": "spark-plugin.md",
}
PROGRAMS = tuple(f"examples/{path.name}" for path in sorted((ROOT / "examples").glob("*.py")))
PAGES = ELSEWHERE | {path: f"{path.removesuffix('.py')}.md" for path in PROGRAMS} | {"README.md": "index.md"}
SOURCES = {page: source for source, page in PAGES.items() if source != "README.md"}
FENCE = re.compile(r"^(```+|~~~+).*?^\1`*[ \t]*$", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"(?<=\d) (?=(?:ns|µs|ms|s|h|B|kB|MB|GB|GiB)\b|%)")
CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\))")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for program in PROGRAMS:
        text = (ROOT / program).read_text()
        content = f"# `{program}`\n\n```python\n{text}```\n"
        files.append(File.generated(config, PAGES[program], content=content))
    return files


def linked(page: str, path: str) -> str:
    """The link of the site for one of the repository."""
    source = SOURCES.get(page, f"docs/{page}")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if target in PAGES:
        found = PAGES[target]
    elif target.startswith("docs/"):
        found = target.removeprefix("docs/")
    else:
        LOG.warning("%s has a link to %s, which is not a page of the site", source, target)
        return path
    return os.path.relpath(found, posixpath.dirname(page) or ".")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Writes the links outside of code again."""

    def rewritten(text: str) -> str:
        return LINK.sub(lambda link: linked(page.file.src_uri, link["path"]) + (link["anchor"] or ""), text)

    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [rewritten(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, rewritten(markdown[end:])])


def on_page_content(html: str, **_: Any) -> str:
    """Keeps figures in tables and their units together."""
    return CELL.sub(lambda cell: FIGURE.sub("&nbsp;", cell[0]), html)
