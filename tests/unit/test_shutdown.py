"""A signal that ends the process is also told to open streams, and reaches its own handler."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from arcp_client._shutdown import ShutdownWatch


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    found: int = request.param
    before = signal.getsignal(found)
    yield found
    signal.signal(found, before)


async def test_the_handler_of_the_server_is_called_too(number: int) -> None:
    told: list[str] = []
    signal.signal(number, lambda *_: told.append("server"))
    mine = signal.getsignal(number)
    watch = ShutdownWatch(lambda: told.append("stream"))
    watch.enter()
    os.kill(os.getpid(), number)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == ["server", "stream"]
    watch.leave()
    assert signal.getsignal(number) is mine
    os.kill(os.getpid(), number)
    await asyncio.sleep(0)
    assert told == ["server", "stream", "server"]


@pytest.mark.skipif(sys.platform == "win32", reason="event loops have no signal handlers there")
async def test_a_handler_of_the_event_loop_is_called_too(number: int) -> None:
    loop = asyncio.get_running_loop()
    server, stream = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(number, server.set)
    watch = ShutdownWatch(stream.set)
    watch.enter()
    os.kill(os.getpid(), number)
    async with asyncio.timeout(20):
        await server.wait()
        await stream.wait()
    watch.leave()
    loop.remove_signal_handler(number)


async def test_the_handlers_of_before_are_restored_after_the_last_watch(number: int) -> None:
    def handler(*_: object) -> None: ...

    signal.signal(number, handler)
    first, second = ShutdownWatch(lambda: None), ShutdownWatch(lambda: None)
    first.enter()
    first.enter()
    second.enter()
    first.leave()
    second.leave()
    assert signal.getsignal(number) is not handler
    first.leave()
    assert signal.getsignal(number) is handler


async def test_a_handler_that_was_installed_since_stays(number: int) -> None:
    def later(*_: object) -> None: ...

    signal.signal(number, lambda *_: None)
    watch = ShutdownWatch(lambda: None)
    watch.enter()
    signal.signal(number, later)
    watch.leave()
    assert signal.getsignal(number) is later


async def test_without_a_handler_the_signal_keeps_its_effect() -> None:
    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    watch = ShutdownWatch(lambda: None)
    watch.enter()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    watch.leave()
    signal.signal(signal.SIGTERM, before)


async def test_in_another_thread_nothing_is_changed(number: int) -> None:
    before = signal.getsignal(number)
    failed: list[BaseException] = []

    async def elsewhere() -> None:
        watch = ShutdownWatch(lambda: None)
        watch.enter()
        assert signal.getsignal(number) is before
        watch.leave()

    def run() -> None:
        try:
            asyncio.run(elsewhere())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    await asyncio.to_thread(thread.join)
    assert not failed


def test_importing_the_client_installs_no_handler() -> None:
    code = (
        "import signal; before = [signal.getsignal(n) for n in (2, 15)];"
        "from arcp_client import Client, Runtime; Client(Runtime());"
        "assert before == [signal.getsignal(n) for n in (2, 15)]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
