"""Handlers of a blocking client, in the loop thread and in threads of their own."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from arcp_client._dispatch import deadlock
from arcp_client.sync import (
    Batch,
    Buffer,
    Client,
    Closed,
    Event,
    Order,
    Portal,
    Registration,
    Runtime,
    Timeouts,
    _threads,
    errors,
    events,
)
from tests.unit.sync.conftest import Gate

LIMIT = 60


class Recorder:
    """A handler that records when it starts and ends, and where; it can be held."""

    def __init__(self) -> None:
        self.log: list[tuple[str, Any]] = []
        self.threads: list[str] = []
        self.running = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, event: events.Progress) -> None:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self.log.append(("start", event.current))
        self.threads.append(threading.current_thread().name)
        self.log.append(("end", event.current))
        with self._lock:
            self.running -= 1


def one_at_a_time(count: int) -> list[tuple[str, int]]:
    return [(what, number) for number in range(count) for what in ("start", "end")]


@pytest.fixture
def no_run_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_AHEAD", 1)


@pytest.mark.parametrize("thread", [False, True], ids=["loop", "thread"])
def test_handlers_run_one_at_a_time_in_order(client: Client, thread: bool) -> None:
    recorder = Recorder()
    client.on(events.Progress, thread=thread)(recorder)
    client.submit("say", 200).result()
    assert recorder.log == one_at_a_time(200)
    name = "arcp_client:Recorder" if thread else "arcp_client.sync"
    assert set(recorder.threads) == {name}
    assert recorder.most == 1


def test_each_registration_has_a_thread_of_its_own(client: Client) -> None:
    """A handler that blocks holds back neither the loop nor another registration."""
    held, seen = threading.Event(), threading.Event()

    @client.on(events.Progress, thread=True, barrier=False)
    def slow(event: events.Progress) -> None:
        assert held.wait(LIMIT)

    @client.on(events.Progress, thread=True)
    def quick(event: events.Progress) -> None:
        if event.current == 2:
            seen.set()

    client.submit("say", 3).result()
    assert seen.is_set()
    assert client.ping() >= 0
    held.set()


def test_under_order_job_jobs_run_side_by_side_and_each_in_order(client: Client) -> None:
    meeting = threading.Barrier(3, timeout=LIMIT)
    seen: dict[str, list[int]] = {}

    @client.on(events.Progress, thread=True, order=Order.JOB)
    def handler(event: events.Progress) -> None:
        assert event.job_id is not None
        seen.setdefault(event.job_id, []).append(event.current)
        if event.current == 1:
            meeting.wait()  # of the handlers of three jobs

    jobs = [client.submit("say", 70) for _ in range(3)]
    for job in jobs:
        job.result()
    assert seen == {job.id: list(range(70)) for job in jobs}


def test_a_handler_in_a_thread_uses_the_client(client: Client) -> None:
    values: list[Any] = []

    @client.on(events.Completed, thread=True)
    def follow_up(event: events.Completed) -> None:
        if event.value == 3:
            values.append(client.submit("echo", "next").result().value)
            values.append(client.ping() >= 0)

    client.submit("say", 3).result()
    client.drain(timeout=LIMIT)
    assert values == ["next", True]


def test_a_handler_that_would_wait_for_itself_is_told(portal: Portal, runtime: Runtime) -> None:
    told: list[str] = []
    with Client(runtime, portal=portal, timeouts=Timeouts(deadlock=0.01)) as client:

        @client.on(events.Progress, thread=True)
        def waits(event: events.Progress) -> None:
            assert event.job_id is not None
            job = client.job(event.job_id)
            assert job is not None
            with pytest.raises(errors.WouldDeadlock) as error:
                job.result()
            told.append(str(error.value))

        assert client.submit("say", 2).result().value == 2
    assert len(told) == 2
    assert "waits" in told[0]


def test_a_call_of_a_handler_that_runs_ahead_waits_for_its_turn(
    client: Client, portal: Portal
) -> None:
    """Deadlock detection and ``close`` see the handler that really calls (D10)."""
    calls: list[tuple[int, int]] = []

    async def where() -> None:
        call = deadlock.calling()
        assert call is not None
        calls.append((call.number, call.lane.done))

    @client.on(events.Progress, thread=True)
    def handler(event: events.Progress) -> None:
        if event.current % 7 == 6:
            client._access.run(where)

    client.submit("say", 30).result()
    assert calls == [(number, number) for number in (6, 13, 20, 27)]


def test_a_context_is_that_of_the_registration(client: Client) -> None:
    """D19."""
    variable = contextvars.ContextVar[str]("variable")
    seen: list[str] = []
    variable.set("registered")
    client.on(events.Progress, thread=True)(lambda event: seen.append(variable.get()))
    client.on(events.Progress)(lambda event: seen.append(variable.get()))
    variable.set("later")
    client.submit("say", 1).result()
    assert seen == ["registered"] * 2


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize("fast", [True, False], ids=["ahead", "one by one"])
def test_a_failure_is_reported_before_the_next_event(
    client: Client, monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    if not fast:
        monkeypatch.setattr(_threads, "_AHEAD", 1)
    log: list[tuple[str, int]] = []
    places: set[str] = set()

    def failed(event: Any, error: Exception) -> None:
        assert isinstance(error, ZeroDivisionError)
        places.add(threading.current_thread().name)
        log.append(("failed", event.current))

    @client.on(events.Progress, thread=True, on_error=failed)
    def handler(event: events.Progress) -> None:
        log.append(("start", event.current))
        if event.current % 2:
            raise ZeroDivisionError

    client.submit("say", 4).result()
    assert log == [
        ("start", 0), ("start", 1), ("failed", 1), ("start", 2), ("start", 3), ("failed", 3)
    ]  # fmt: skip
    assert len(places) == 1
    assert places.pop().startswith("arcp_client:")


def test_an_async_on_error_stays_in_the_loop(client: Client) -> None:
    seen: list[str] = []

    async def failed(event: Event, error: Exception) -> None:
        seen.append(threading.current_thread().name)

    @client.on(events.Progress, thread=True, on_error=failed)
    def handler(event: events.Progress) -> None:
        raise ZeroDivisionError

    client.submit("say", 1).result()
    assert seen == ["arcp_client.sync"]


def test_stop_ends_the_client_before_the_next_event(portal: Portal, runtime: Runtime) -> None:
    handled: list[int] = []
    with Client(runtime, portal=portal) as client:

        @client.on(events.Progress, thread=True, on_error="stop")
        def handler(event: events.Progress) -> None:
            handled.append(event.current)
            if event.current == 1:
                raise ZeroDivisionError

        with pytest.raises(errors.HandlerFailed, match="handler"):
            client.submit("say", 5).result()
        assert isinstance(client.state, Closed)
    assert handled == [0, 1]


def test_whatever_a_handler_raises_is_a_failure_of_that_call(client: Client) -> None:
    """D15."""
    failures: list[str] = []
    client.on_error(lambda failure: failures.append(type(failure.__cause__).__name__))

    @client.on(events.Progress, thread=True)
    def handler(event: events.Progress) -> None:
        raise [SystemExit, StopIteration, GeneratorExit][event.current]

    client.submit("say", 3).result()
    client.submit("echo").result()
    assert len(failures) == 3


def test_a_function_that_would_never_run_is_refused(client: Client) -> None:
    """D16."""

    async def later(event: Event) -> None: ...

    def generator(event: Event) -> Iterator[None]:
        yield

    with pytest.raises(TypeError, match="coroutine function"):
        client.on(thread=True)(later)
    with pytest.raises(TypeError, match="would never run"):
        client.on(thread=True)(generator)
    with pytest.raises(TypeError, match="with parentheses"):
        client.on(generator)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="thread must be"):
        client.on(thread="yes")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="order must be"):
        client.on(order="job")  # type: ignore[call-overload]
    failures: list[errors.HandlerError] = []
    client.on_error(failures.append)
    client.on(events.Progress, thread=True)(lambda event: later(event))
    client.submit("say", 1).result()
    client.close()
    [failure] = failures
    assert "returned an awaitable" in str(failure.__cause__)


def test_after_its_time_a_handler_fails_and_the_next_event_waits_for_it(
    portal: Portal, runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    reported, log = threading.Event(), []
    begun, held = threading.Event(), threading.Event()
    with Client(runtime, portal=portal, handler_timeout=0.01) as client:

        @client.on(events.Progress, thread=True, barrier=False)
        def handler(event: events.Progress) -> None:
            log.append(("start", event.current))
            begun.set()
            if event.current == 0:
                assert held.wait(LIMIT)
                log.append(("end", 0))
                raise ZeroDivisionError

        @client.on_error
        def failed(failure: errors.HandlerError) -> None:
            if isinstance(failure.__cause__, TimeoutError):
                reported.set()

        client.submit("say", 1).result()
        assert reported.wait(LIMIT)
        assert begun.wait(LIMIT)  # on a busy machine the time is over before the thread begins
        assert log == [("start", 0)]
        held.set()
        client.submit("say", 2).result()
        client.drain(timeout=LIMIT)
    assert log[:2] == [("start", 0), ("end", 0)]
    assert "failed too late" in caplog.text


# ------------------------------------------------------------------ registrations


@pytest.mark.parametrize("thread", [False, True], ids=["loop", "thread"])
def test_a_registration_is_disposed_of(client: Client, thread: bool) -> None:
    seen: list[int] = []
    registration = client.subscribe(
        lambda event: seen.append(event.current), events.Progress, thread=thread
    )
    assert isinstance(registration, Registration)
    assert "lambda" in registration.name
    client.submit("say", 2).result()
    assert registration.lag == 0
    registration.dispose()
    registration.dispose()
    client.submit("say", 2).result()
    assert seen == [0, 1]


def test_a_handler_may_dispose_of_itself_and_runs_to_its_end(client: Client) -> None:
    log: list[str] = []
    ended = threading.Event()

    def once(event: events.Progress) -> None:
        log.append("start")
        registration.dispose()
        log.append("end")
        ended.set()

    registration = client.subscribe(once, events.Progress, thread=True)
    client.submit("say", 5).result()
    assert ended.wait(LIMIT)
    assert log[:2] == ["start", "end"]
    assert log.count("start") == log.count("end")


def test_a_handler_of_one_job_and_one_that_nothing_waits_for(client: Client, gate: Gate) -> None:
    job = client.submit("gated", 1)
    seen: list[str] = []
    client.on(events.Log, job=job)(lambda event: seen.append(event.message))
    gate.open()
    job.result()
    client.submit("gated", 2).result()
    assert seen[-1] == "after"
    assert seen.count("after") == 1


def test_the_slow_registration_is_named(portal: Portal, runtime: Runtime) -> None:
    held, slow = threading.Event(), threading.Event()
    found: list[tuple[Registration, int]] = []
    with Client(runtime, portal=portal, buffer=Buffer(soft=4, hard=64)) as client:
        registration = client.subscribe(
            lambda event: held.wait(LIMIT), events.Progress, thread=True
        )

        @client.on_slow
        def hook(registration: Registration, lag: int, seconds: float) -> None:
            found.append((registration, lag))
            slow.set()

        job = client.submit("say", 400)
        assert slow.wait(LIMIT)
        held.set()
        job.result()
    assert found[0][0] is registration
    assert found[0][1] >= 4


# ------------------------------------------------------------------ closing


def test_close_waits_for_handlers_and_their_threads_end(portal: Portal, runtime: Runtime) -> None:
    log: list[int] = []
    with Client(runtime, portal=portal) as client:
        client.on(events.Progress, thread=True)(lambda event: log.append(event.current))
        client.submit("say", 100).result()
    assert log == list(range(100))
    for thread in threading.enumerate():
        if "lambda" in thread.name:
            thread.join(LIMIT)
            assert not thread.is_alive()


@pytest.mark.parametrize("own", [True, False], ids=["own portal", "shared portal"])
def test_a_handler_in_a_thread_may_close_the_client(own: bool, portal: Portal) -> None:
    runtime = Runtime()

    @runtime.agent("say")
    async def say(input: Any, job: Any) -> Any:
        await job.progress(1)
        return 1

    client = Client(runtime, portal=None if own else portal)
    ended = threading.Event()

    @client.on(events.Completed, thread=True)
    def leave(event: events.Completed) -> None:
        client.close()
        ended.set()

    client.connect()
    client.submit("say")
    assert ended.wait(LIMIT)
    assert isinstance(client.state, Closed)


def test_a_handler_that_blocks_in_a_thread_does_not_hold_close_up(
    portal: Portal, runtime: Runtime
) -> None:
    held, started = threading.Event(), threading.Event()
    client = Client(runtime, portal=portal)

    @client.on(events.Progress, thread=True)
    def handler(event: events.Progress) -> None:
        started.set()
        assert held.wait(LIMIT)

    client.connect()
    client.submit("say", 3)
    assert started.wait(LIMIT)
    client.close(timeout=0.05)
    assert isinstance(client.state, Closed)
    held.set()


def test_a_handler_that_blocks_the_loop_does_not_hold_close_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from arcp_client.sync import _access

    monkeypatch.setattr(_access, "_SLACK", 0.05)
    runtime = Runtime()

    @runtime.agent("say")
    async def say(input: Any, job: Any) -> Any:
        await job.progress(1)
        return 1

    held, started = threading.Event(), threading.Event()
    client = Client(runtime)

    @client.on(events.Progress)
    def handler(event: events.Progress) -> None:
        started.set()
        assert held.wait(LIMIT)

    client.connect()
    job = client.submit("say")
    waiting = Waiting(job.result)
    assert started.wait(LIMIT)
    client.close(timeout=0.05)
    assert "a handler blocks the loop thread" in caplog.text
    assert isinstance(waiting.error(), errors.ClientClosed)
    held.set()


class Waiting:
    """A call in another thread."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self._error = error

    def error(self) -> BaseException | None:
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        return self._error


def test_close_ends_the_waits_of_other_threads(portal: Portal, runtime: Runtime) -> None:
    client = Client(runtime, portal=portal)
    client.connect()
    job = client.submit("stuck")
    iterator = client.events(events.Completed)
    calls = [Waiting(job.result), Waiting(lambda: next(iterator)), Waiting(client.close)]
    client.close()
    assert [type(call.error()) for call in calls] == [errors.ClientClosed] * 2 + [type(None)]


def test_a_handler_of_batches_runs_in_its_thread_one_call_at_a_time(client: Client) -> None:
    """D21: the list is handled as a whole; nothing runs ahead."""
    calls: list[list[int | float]] = []
    pings: list[float] = []
    threads: set[str] = set()

    @client.on(events.Progress, batch=Batch(count=7), thread=True)
    def handle(batch: list[events.Progress]) -> None:
        threads.add(threading.current_thread().name)
        calls.append([event.current for event in batch])
        pings.append(client.ping())  # it may use the client

    client.submit("say", 50).result(timeout=LIMIT)
    assert [number for call in calls for number in call] == list(range(50))
    assert max(map(len, calls)) <= 7
    assert len(pings) == len(calls)
    [name] = threads
    assert "handle" in name


def test_a_batch_that_fails_in_its_thread_goes_to_on_error_as_a_list(client: Client) -> None:
    got: list[Any] = []
    threads: set[str] = set()

    def on_error(batch: list[events.Progress], error: Exception) -> None:
        threads.add(threading.current_thread().name)
        got.append(([event.current for event in batch], str(error)))

    @client.on(events.Progress, batch=Batch(count=2), thread=True, on_error=on_error)
    def handle(batch: list[events.Progress]) -> None:
        if batch[0].current == 0:
            raise ValueError("bad")
        got.append(len(batch))

    client.submit("say", 1).result(timeout=LIMIT)
    client.submit("say", 1).result(timeout=LIMIT)
    assert got == [([0], "bad"), ([0], "bad")]
    assert all("handle" in name for name in threads)


def test_a_handler_of_batches_in_the_loop_thread_gets_lists(client: Client) -> None:
    got: list[int | float] = []

    @client.on(events.Progress, batch=True)
    async def handle(batch: list[events.Progress]) -> None:
        got.extend(event.current for event in batch)

    client.submit("say", 5).result(timeout=LIMIT)
    assert got == [0, 1, 2, 3, 4]


def test_batches_of_order_job_are_refused_at_the_decorator(client: Client) -> None:
    with pytest.raises(ValueError, match=r"order=Order\.SESSION"):
        client.on(batch=True, order=Order.JOB, thread=True)
