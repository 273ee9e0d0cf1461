"""A Firefox that a test drives over WebDriver BiDi, without a driver besides the browser."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

_NAMES = ("firefox-esr", "firefox")
_SOON = 60.0


def firefox() -> str:
    """The browser's path; skips the test if there is none."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no firefox: on Debian, apt-get install firefox-esr")
    return found


class Tab:
    """One tab. Scripts are expressions, and give values of JSON."""

    def __init__(self, bidi: Bidi, context: str) -> None:
        self._bidi = bidi
        self._context = context

    async def goto(self, url: str) -> None:
        """Load a page."""
        await self._bidi.ask(
            "browsingContext.navigate", context=self._context, url=url, wait="complete"
        )

    async def size(self, width: int, height: int) -> None:
        """Set the size of the page."""
        await self._bidi.ask(
            "browsingContext.setViewport",
            context=self._context,
            viewport={"width": width, "height": height},
        )

    async def evaluate(self, script: str) -> Any:
        """The value of an expression, which may be a promise."""
        told = await self._bidi.ask(
            "script.evaluate",
            expression=f"Promise.resolve({script}).then((value) => JSON.stringify(value ?? null))",
            target={"context": self._context},
            awaitPromise=True,
        )
        assert told["type"] == "success", told
        return told["result"]["value"]

    async def until(self, script: str) -> None:
        """Wait until an expression is true."""
        async with asyncio.timeout(_SOON):
            while await self.evaluate(script) != "true":
                await asyncio.sleep(0.05)


class Bidi:
    """The connection to the browser.

    Attributes:
        complaints: what pages have logged as errors and warnings.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tabs: list[str] = []
        self.complaints: list[str] = []

    async def read(self) -> None:
        """Read what the browser sends, until it ends."""
        async for message in self._socket:
            told = message.json()
            if told.get("type") == "event":
                if told["params"].get("level") in ("error", "warn"):
                    self.complaints.append(str(told["params"].get("text")))
            elif told.get("id") in self._waiting:
                self._waiting.pop(told["id"]).set_result(told)

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a command; return its result."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(_SOON):
            told = await answer
        assert told["type"] == "success", told
        return told["result"]

    async def tab(self) -> Tab:
        """Open a tab."""
        made = await self.ask("browsingContext.create", type="tab")
        self._tabs.append(made["context"])
        return Tab(self, made["context"])

    async def close_tabs(self) -> None:
        """Close the tabs that were opened here."""
        while self._tabs:
            await self.ask("browsingContext.close", context=self._tabs.pop())


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Bidi]:
    """A browser with a profile of its own, until the end of the block."""
    profile.mkdir()
    (profile / "user.js").write_text('user_pref("intl.accept_languages", "en-GB");\n')
    process = await asyncio.create_subprocess_exec(
        firefox(),
        "--headless",
        "--no-remote",
        f"--profile={profile}",
        "--remote-debugging-port=0",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SOON):
            url = await _address(process)
        drained = asyncio.create_task(_drain(process))
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(f"{url}/session", max_msg_size=0) as socket,
        ):
            bidi = Bidi(socket)
            reader = asyncio.create_task(bidi.read())
            await bidi.ask("session.new", capabilities={})
            await bidi.ask("session.subscribe", events=["log.entryAdded"])
            yield bidi
            reader.cancel()
            await asyncio.wait({reader})
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    drained.cancel()
    await asyncio.wait({drained})


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        found = re.search(r"BiDi listening on (ws://\S+)", line.decode())
        if found is not None:
            return found[1]
    raise AssertionError("firefox has ended")


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    while await process.stderr.read(65536):
        pass
