"""A person in front of the platform, with a browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Locator, Page, ViewportSize, expect, sync_playwright

from ilyama_resources.settings import REPOSITORY

APPEARS_WITHIN_S = 60
SIZE = ViewportSize(width=1600, height=1000)
ALONE = (
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
)
"""Tests may run as root, and the browser has nobody to talk to but the platform."""


class Viewer:
    """Opens pages, looks at them, keeps pictures of them, and notices errors."""

    def __init__(self, page: Page, site: str) -> None:
        self.page = page
        self._site = site
        self.troubles: list[str] = []
        page.set_default_timeout(APPEARS_WITHIN_S * 1000)
        page.on("pageerror", lambda error: self.troubles.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda told: (
                self.troubles.append(f"{page.url}: {told.text}") if told.type == "error" else None
            ),
        )

    def open(self, path: str) -> None:
        """Go to a page of the site."""
        self.page.goto(f"{self._site}{path}")

    def text(self, text: str) -> Locator:
        """Where the page shows exactly this, the last time."""
        return self.page.get_by_text(text, exact=True).filter(visible=True).last

    def row(self, *texts: str) -> Locator:
        """The first row of a table with all of these texts."""
        found = self.page.get_by_role("row")
        for text in texts:
            found = found.filter(has_text=text)
        return found.first

    def keep(self, name: str) -> None:
        """Keep a picture, for whoever wants to see what the test saw."""
        directory = Path(os.environ.get("SCREENSHOTS", REPOSITORY / "build" / "screenshots"))
        directory.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=directory / f"{name}.png")


@contextmanager
def viewer(browser: Path, site: str) -> Iterator[Viewer]:
    """A viewer with a browser of their own."""
    expect.set_options(timeout=APPEARS_WITHIN_S * 1000)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=ALONE)
        with chromium:
            yield Viewer(chromium.new_page(viewport=SIZE), site)
