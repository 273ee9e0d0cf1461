"""Interruptions, leaks, forks, and the end of the program."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from arcp_client.sync import Client, Live, Portal, Runtime, errors, events
from tests.unit.sync.conftest import Gate

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks of POSIX")

CALLS = 10_000


class SoftTimeLimit(Exception):
    """What the signal handler of a worker raises."""


@pytest.fixture
def limit() -> Iterator[None]:
    def raise_it(number: int, frame: object) -> None:
        raise SoftTimeLimit

    before = signal.signal(signal.SIGUSR1, raise_it)
    yield
    signal.signal(signal.SIGUSR1, before)


def interrupted(function: Callable[..., Any], number: signal.Signals) -> Any:
    """The function, which signals the main thread once it runs on the loop thread."""
    main = threading.main_thread().ident
    assert main == threading.get_ident()

    async def call(*args: Any, **kwargs: Any) -> Any:
        assert threading.get_ident() != main
        signal.pthread_kill(main, number)
        return await function(*args, **kwargs)

    return call


# ------------------------------------------------------------------ interruptions


def test_ctrl_c_in_result_ends_the_wait_and_not_the_job(client: Client, gate: Gate) -> None:
    job = client.submit("gated", 7)
    result = job._job.result
    job._job.result = interrupted(result, signal.SIGINT)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        job.result()
    job._job.result = result  # type: ignore[method-assign]
    assert client.state == Live(resumed=False)
    assert client.open_jobs() == [job]
    assert client.ping() >= 0
    gate.open()
    assert job.result().value == 7


@pytest.mark.usefixtures("limit")
def test_an_exception_of_a_signal_handler_ends_any_blocking_call(client: Client) -> None:
    """As Celery's SoftTimeLimitExceeded does."""
    job = client.submit("stuck")
    for owner, name, call in [
        (client._client, "ping", client.ping),
        (client._client, "drain", client.drain),
        (client._client, "connected", client.connected),
        (job._job, "cancel", job.cancel),
    ]:
        original = getattr(owner, name)
        setattr(owner, name, interrupted(original, signal.SIGUSR1))
        with pytest.raises(SoftTimeLimit):
            call()  # type: ignore[operator]
        setattr(owner, name, original)
    job.cancel()
    with pytest.raises(errors.JobCancelled):
        job.result()
    assert client.submit("echo", 1).result().value == 1


def test_an_interrupted_call_has_ended_when_the_exception_arrives(
    client: Client, portal: Portal
) -> None:
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("ended")

    with pytest.raises(KeyboardInterrupt):
        portal.run(interrupted(wait, signal.SIGINT))
    assert ended == ["ended"]


def test_an_interrupted_connect_closes_the_client() -> None:
    client = Client("ws://127.0.0.1:1/arcp")
    connect = client._client.connect
    client._client.connect = interrupted(connect, signal.SIGINT)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt), client:
        raise AssertionError
    client._client.connect = connect  # type: ignore[method-assign]
    with pytest.raises(errors.ClientClosed):
        client.connect()


def test_a_call_that_ends_late_after_an_interruption_is_dropped(portal: Portal) -> None:
    """Code that suppresses its cancellation holds the caller up for a second, and no longer."""
    released = threading.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue

    with pytest.raises(KeyboardInterrupt):
        portal.run(interrupted(stubborn, signal.SIGINT))
    released.set()
    assert portal.call(lambda: 1) == 1


# ------------------------------------------------------------------ leaks


@pytest.mark.usefixtures("untraced")
def test_ten_thousand_calls_leave_no_thread_no_task_no_timer_and_no_memory(
    client: Client, portal: Portal
) -> None:
    def tasks() -> int:
        return len(asyncio.all_tasks())

    def timers() -> int:
        # uvloop does not tell its timers.
        scheduled = getattr(asyncio.get_running_loop(), "_scheduled", ())
        return sum(not timer.cancelled() for timer in scheduled)

    job = client.submit("say", 1)
    job.result()
    client.ping()
    threads, before, waiting = threading.active_count(), portal.call(tasks), portal.call(timers)
    gc.collect()
    objects = len(gc.get_objects())
    for number in range(CALLS // 5):
        assert job.result().value == 1
        client.connected()
        assert client.job(job.id) is job
        assert client.stats().queued == 0
        if number % 50:
            assert next(iter(job)).kind == "progress"
        else:
            client.ping()
    assert portal.call(tasks) == before
    assert portal.call(timers) <= waiting + 1  # one may belong to the link
    assert threading.active_count() == threads
    gc.collect()
    assert len(gc.get_objects()) - objects < 500


def test_many_clients_leave_no_thread(portal: Portal) -> None:
    threads = threading.active_count()
    runtimes = [Runtime() for _ in range(20)]
    for runtime in runtimes:
        with Client(runtime) as client:
            client.on(events.Event, thread=True)(lambda event: None)
            client.ping()
    assert threading.active_count() == threads
    for runtime in runtimes:
        with Client(runtime.target and Runtime(), portal=portal) as client:
            client.ping()
    assert threading.active_count() <= threads + 1


# ------------------------------------------------------------------ the end of the program


PROGRAM = """
import os, signal, sys, threading
from arcp_client.sync import *

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits SIG_IGN

runtime = Runtime()

@runtime.agent("stuck")
async def stuck(input, job):
    await job.cancelled.wait()

@runtime.agent("echo")
async def echo(input, job):
    return input

client = Client(runtime)
"""


def ran(
    code: str, *, wrong: bool = False, timeout: float = 100
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-u", "-W", "always::ResourceWarning", "-c", PROGRAM + code],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert bool(done.returncode) is wrong, done.stderr
    return done


def test_clients_that_are_open_at_the_end_warn_and_do_not_hold_the_end_up(tmp_path: Path) -> None:
    done = ran(
        "started = threading.Event()\n"
        "def block(event):\n    started.set()\n    threading.Event().wait()\n"
        "client.on(thread=True)(block)\n"
        "client.on()(lambda event: None)\n"
        "client.connect()\n"
        "iterator = client.events()\n"
        "job = client.submit('stuck')\n"
        "client.submit('echo', 1)\n"
        "started.wait()\n"
        f"store = SqliteStore({str(tmp_path / 'store.db')!r})\n"
        "other = Runtime(name='other')\n"
        "stored = Client(other, store=store)\n"
        "stored.connect()\n"
        "with Client(Runtime(name='third')) as closed:\n    closed.ping()\n"
        "unused = Client(Runtime())\n"
        "print('the end')"
    )
    assert done.stdout == "the end\n"
    assert "Traceback" not in done.stderr
    warnings = [line for line in done.stderr.splitlines() if "ResourceWarning: <Client" in line]
    assert sorted(line.partition("<Client ")[2] for line in warnings) == [
        "runtime://arcp-client Live> was not closed",
        "runtime://other Live> was not closed",
    ]


def test_ctrl_c_leaves_the_block_and_the_program() -> None:
    done = ran(
        "import signal\n"
        "with client:\n"
        "    job = client.submit('stuck')\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))\n"
        "    try:\n        job.result()\n    finally:\n        print('left')\n",
        wrong=True,
    )
    assert done.stdout == "left\n"
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
    assert "ResourceWarning" not in done.stderr


# ------------------------------------------------------------------ forks


FORK = """
def child(function):
    pid = os.fork()
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        return
    try:
        function()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    sys.exit()  # runs all finalizers, as os._exit would not
"""


def test_after_a_fork_a_connected_client_says_so_and_the_parent_goes_on() -> None:
    done = ran(
        FORK + "portal = Portal()\n"
        "async def serve():\n"
        "    return await runtime.serve().__aenter__()\n"
        "server = portal.run(serve)\n"
        "dropped = Client(server.url)\n"
        "dropped.connect()\n"
        "def drop():\n"
        "    del globals()['dropped']\n"
        "    import gc; gc.collect()\n"
        "child(drop)\n"
        "print(dropped.ping() >= 0)\n"
        "dropped.close()\n"
        "unconnected = Client(server.url)\n"
        "unconnected.on(events.Completed, thread=True)(lambda e: print(e.value, flush=True))\n"
        "with Client(server.url) as client:\n"
        "    iterator = client.events()\n"
        "    for call in (client.ping, client.close, lambda: next(iterator),"
        " lambda: client.on()(print), lambda: client.submit('echo')):\n"
        "        child(call)\n"  # leaves the block, too
        "    def work():\n"
        "        with unconnected:\n"
        "            unconnected.submit('echo', 'child').result()\n"
        "            unconnected.drain()\n"
        "    child(work)\n"
        "    new = Portal()\n"
        "    new._lock.acquire()\n"  # as another thread might, at the moment of the fork
        "    child(lambda: print(new.call(str, 'unlocked'), flush=True))\n"
        "    print(client.submit('echo', 'parent').result().value)\n"
        "portal.run(runtime.close)\n"
        "portal.close()\n"
    )
    usable, *told, child, unlocked, parent = done.stdout.splitlines()
    assert usable == "True"
    assert len(told) == 5
    for line in told:
        assert line.startswith("LocalProtocolError: the client was connected in process ")
        assert "make and connect a client after the fork" in line
    assert (child, unlocked, parent) == ("child", "unlocked", "parent")
    assert "Client" not in done.stderr
