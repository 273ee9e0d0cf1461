"""One Chromium for each session, and one browser context for each test that must log no error."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    async_playwright,
    expect,
)

from tests.e2e.web.site import STATIC, Site

expect.set_options(timeout=20_000)  # a busy machine is no failure

# The headless shell first: without the windows and the extensions of a whole browser.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ARGS = ["--disable-dev-shm-usage"]


def chromium() -> str:
    """The browser's path; skips the test if there is none."""
    found = os.environ.get("ARCP_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        pytest.skip("no chromium: on Debian, apt-get install chromium (or set ARCP_TEST_CHROMIUM)")
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = chromium()
    async with async_playwright() as playwright:
        # Playwright leaves Chromium's sandbox out, which root and most containers cannot have.
        launched = await playwright.chromium.launch(executable_path=path, args=ARGS)
        yield launched
        await launched.close()


class Complaints(list[str]):
    """What the browser complained of: console errors and warnings, and uncaught exceptions."""

    def watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.append(f"uncaught: {error.stack or error}"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.append(f"{message.type}: {message.text} {message.location}")


@pytest.fixture
def complaints() -> list[str]:
    """A test that provokes a complaint on purpose asks for this and clears it."""
    return Complaints()


MakeContext = Callable[..., Any]


OpenSite = Callable[..., Awaitable[Site]]


@pytest_asyncio.fixture(loop_scope="session")
async def open_site() -> AsyncIterator[OpenSite]:
    """Start a `Site` with these arguments; it ends after the test, and after the test's pages."""
    async with AsyncExitStack() as stack:

        async def start(**options: Any) -> Site:
            return await stack.enter_async_context(Site(**options).running())

        yield start


@pytest_asyncio.fixture(loop_scope="session")
async def new_page(
    browser: Browser, complaints: Complaints, open_site: OpenSite
) -> AsyncIterator[MakeContext]:
    """Make a page in a context of its own; every one is watched, and closed after the test.

    It is closed before the sites, since a page whose server ends complains.
    """
    contexts: list[BrowserContext] = []

    async def make(**options: Any) -> Page:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        options.setdefault("reduced_motion", "reduce")
        context = await browser.new_context(locale="en-GB", **options)
        contexts.append(context)
        context.set_default_timeout(20_000)
        page = await context.new_page()
        complaints.watch(page)
        return page

    yield make
    for context in contexts:
        await context.close()
    assert not complaints, "the browser complained:\n" + "\n".join(complaints)


@pytest_asyncio.fixture(loop_scope="session")
async def page(new_page: MakeContext) -> Page:
    made: Page = await new_page()
    return made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def modules(browser: Browser) -> AsyncIterator[Page]:
    """A page of no server at all that can import the dashboard's modules from disk."""

    async def serve(route: Any) -> None:
        name = route.request.url.rpartition("/")[2]
        if name.endswith(".js"):
            await route.fulfill(path=STATIC / name, content_type="text/javascript")
        else:
            await route.fulfill(body="<!doctype html><title>m</title>", content_type="text/html")

    context = await browser.new_context()
    page = await context.new_page()
    await page.route("http://modules.test/**", serve)
    await page.goto("http://modules.test/")
    yield page
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def site(open_site: OpenSite) -> Site:
    """The dashboard of a client that is linked to its runtime within the process."""
    return await open_site(linked=False)


@pytest_asyncio.fixture(loop_scope="session")
async def linked(open_site: OpenSite) -> Site:
    """The dashboard of a client whose link to the runtime is a socket that can be cut."""
    return await open_site(linked=True)
