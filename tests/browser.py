"""The built site in a browser, on a desk and on a phone: pages render without anything from elsewhere, links work,
the search finds.

    make docs docs-browser

Needs Chromium on the path, or its path in `CHROMIUM`.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

SITE = Path(__file__).parent.parent / ".build" / "site"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What a reader looks for, and the page that must be among the first five results.
QUERIES = {
    "restore_rows": "reference/dataset.html",
    "upsert": "guides/upserts.html",
    "regexp_like": "sql.html",
    "max_requests_in_flight": "options.html",
    "CommitUnknownError": "reference/errors.html",
}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and does not log."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def served() -> Iterator[str]:
    """The site at an address of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()


def check_pages(page: Page, root: str) -> int:
    """Each page has a heading, no error in the console, and asks for nothing from elsewhere."""
    wrong: list[str] = []
    page.on("request", lambda request: request.url.startswith(root) or wrong.append(f"asks for {request.url}"))
    page.on("response", lambda answer: answer.status < 400 or wrong.append(f"{answer.status}: {answer.url}"))
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    pages = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if path.name != "404.html")
    for name in pages:
        page.goto(root + name, wait_until="load")
        if not page.locator("article h1").first.inner_text().strip():
            wrong.append(f"{name} has no heading")
        wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        if wide:
            wrong.append(f"{name} is wider than the window")
    assert not wrong, "\n".join(sorted(set(wrong)))
    return len(pages)


def check_search(page: Page, root: str) -> None:
    """Each query has its page among the first results."""
    for query, wanted in QUERIES.items():
        page.goto(f"{root}index.html", wait_until="load")
        page.locator("input.md-search__input").click()
        page.keyboard.type(query)
        results = page.locator(".md-search-result__item > a.md-search-result__link")
        results.first.wait_for(state="attached", timeout=20_000)
        page.wait_for_timeout(300)
        links = [link.get_attribute("href") or "" for link in results.all()[:5]]
        assert any(wanted in link for link in links), f"{query}: {links}"


def check_link(page: Page, root: str) -> None:
    """A name in a docstring leads to its own description."""
    page.goto(f"{root}reference/dataset.html", wait_until="load")
    page.locator("article a", has_text="write_dataset").first.click()
    page.wait_for_url("**/reference/pennon.html#pennon.write_dataset")
    assert page.locator("[id='pennon.write_dataset']").first.is_visible()


def main() -> int:
    """The command."""
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        print("Chromium is missing: install it, or name it with CHROMIUM=...", file=sys.stderr)
        return 1
    with served() as root, sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        check_pages(chromium.new_page(viewport={"width": 390, "height": 844}), root)
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        pages = check_pages(page, root)
        check_search(page, root)
        check_link(page, root)
        check_search(chromium.new_page(), f"{SITE.as_uri()}/")
        chromium.close()
    print(f"{pages} pages render, {len(QUERIES)} queries find their page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
