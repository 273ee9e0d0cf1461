"""The reconnect manager: when it tries again, when it does not, and what it says meanwhile (S8)."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr
from tenacity import stop_after_attempt, stop_after_delay, wait_fixed, wait_random_exponential

from arcp_client import Client, Closed, Live, Reconnect, Runtime, Timeouts, events
from arcp_client._link.reconnect import RetryDelays, may_retry
from arcp_client.errors import (
    AgentNotFound,
    ArcpError,
    ConnectFailed,
    HandshakeTimeout,
    HeartbeatLost,
    LinkLost,
    RemoteProtocolError,
    ResumeExpired,
    SessionClosed,
    Unauthenticated,
    request_error,
)
from arcp_client.state import Connecting, LinkState, Reconnecting
from arcp_client.testing import FaultyProxy, ScriptedRuntime, VirtualClock
from arcp_client.testing.scripted import Raw
from arcp_client.transports import memory_pair
from arcp_client.transports.base import Transport
from tests.unit.link.line import Line, Step

FOREVER = Timeouts(open=1e9)


def refused() -> ConnectFailed:
    return ConnectFailed("nobody listens")


# -- values


@pytest.mark.parametrize(
    ("failure", "retry"),
    [
        (ConnectFailed("x"), True),
        (ConnectFailed("x", permanent=True), False),
        (LinkLost("x"), True),
        (HeartbeatLost("x"), True),
        (HandshakeTimeout("x"), True),
        (ResumeExpired("x"), True),
        (SessionClosed("x"), True),
        (Unauthenticated("x"), False),
        (RemoteProtocolError("x"), False),
        (AgentNotFound("x"), False),
        (request_error("INTERNAL_ERROR", "x", retryable=True), True),
        (ValueError("x"), False),
    ],
)
def test_whether_to_try_again_is_a_function_of_the_failure(
    failure: BaseException, retry: bool
) -> None:
    assert may_retry(failure) is retry


CELLS = [
    # failure, again in a first connect, again once the client was live
    (ConnectFailed("refused"), True, True),
    (ConnectFailed("a wrong path", permanent=True), False, True),
    (LinkLost("cut"), True, True),
    (HeartbeatLost("silent"), True, True),
    (HandshakeTimeout("no welcome"), True, True),
    (ResumeExpired("refused"), True, True),
    (ResumeExpired("a fresh hello, too", permanent=True), False, False),
    (SessionClosed("bye"), True, True),
    (Unauthenticated("refused"), False, False),
    (RemoteProtocolError("another protocol"), False, True),
    (AgentNotFound("odd"), False, True),
    (request_error("PERMISSION_DENIED", "not now"), False, True),
    (request_error("INTERNAL_ERROR", "busy", retryable=True), True, True),
    (request_error("NO_SUCH_CODE", "odd"), False, True),
    (ValueError("no error of this package"), False, False),
]


@pytest.mark.parametrize(("failure", "first", "later"), CELLS, ids=lambda cell: str(cell)[:30])
def test_s16_whether_to_try_again_is_a_table_of_state_and_failure(
    failure: BaseException, first: bool, later: bool
) -> None:
    assert may_retry(failure) is first
    assert may_retry(failure, live_before=True) is later


@pytest.mark.parametrize(("failure", "first", "later"), CELLS[:-1], ids=lambda cell: str(cell)[:30])
@pytest.mark.parametrize("live_before", [False, True], ids=["first connect", "live before"])
async def test_s16_a_client_does_what_the_table_says(
    clock: VirtualClock, failure: ArcpError, first: bool, later: bool, live_before: bool
) -> None:
    """In each state, with each failure: again, its cause in the state, or the end with it."""
    again = later if live_before else first
    async with Runtime() as runtime:
        line = Line(runtime, [*[None] * live_before, failure, failure])
        client = Client(line, reconnect=Reconnect(wait=wait_fixed(1.0)))
        states: list[LinkState] = []
        client.states.subscribe(states.append)
        if live_before:
            await client.connect()
            await line.cut()
        if again:
            await client.connect()
            await clock.advance(5.0)
            await client.connected()
            assert len(line.attempts) == 3 + live_before
            causes = [state.cause for state in states if isinstance(state, Reconnecting)]
            assert causes[1:] == [failure, failure] * live_before
        else:
            with pytest.raises(ArcpError) as caught:
                while True:
                    await client.connect()
                    await clock.advance(1.0)
                    await client.connected()
            told = caught.value  # or, before the first welcome, that none could be had
            assert failure in (told, told.__cause__) or str(told) == str(failure)
            assert len(line.attempts) == 1 + live_before
        await client.close()


async def test_s16_a_warning_says_once_that_what_looks_wrong_is_tried_again(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Runtime() as runtime:
        gone = ConnectFailed("HTTP 404 Not Found", permanent=True)
        line = Line(runtime, [None, gone, gone, gone, None, refused(), None, gone])
        async with Client(line, reconnect=Reconnect(wait=wait_fixed(1.0))) as client:
            for expected in (1, 1, 2):
                await line.cut()
                await clock.advance(10.0)
                await client.connected()
                assert caplog.text.count("HTTP 404 Not Found") == expected


def test_delays_stay_below_the_cap_have_no_rhythm_and_never_overflow() -> None:
    backoff = RetryDelays(Reconnect(wait=wait_random_exponential(multiplier=0.5, max=30.0)))
    delays = [backoff.next(float(n)) for n in range(5000)]
    assert all(delay is not None and 0.0 <= delay <= 30.0 for delay in delays)
    late = sorted(delay for delay in delays[100:] if delay is not None)
    assert len(set(late)) > 4000
    assert late[len(late) // 4] < 10 < 20 < late[3 * len(late) // 4]  # full jitter: uniform


def test_delays_start_anew_after_a_link_that_was_stable_only() -> None:
    backoff = RetryDelays(Reconnect(wait=wait_fixed(1), reset_after=10.0))
    for n in range(5):
        backoff.next(float(n))
        backoff.link_ended(9.9)
    assert backoff.attempt == 5
    backoff.link_ended(10.0)
    assert backoff.attempt == 0


def test_delays_start_anew_after_a_link_that_brought_events() -> None:
    backoff = RetryDelays(Reconnect(wait=wait_fixed(1), reset_after=10.0))
    backoff.next(0.0)
    backoff.next(1.0)
    backoff.link_ended(0.0, brought_events=True)
    assert backoff.attempt == 0


@pytest.mark.parametrize(("seconds", "events"), [(7200.0, False), (1.0, True)])
def test_a_bound_on_the_time_of_retrying_starts_anew_after_a_good_link(
    seconds: float, events: bool
) -> None:
    backoff = RetryDelays(Reconnect(wait=wait_fixed(1), stop=stop_after_delay(60.0)))
    for outage in range(3):
        start = outage * 10_000.0
        assert backoff.next(start) is not None
        assert backoff.next(start + 59.0) is not None
        backoff.link_ended(seconds, brought_events=events)
    assert backoff.next(50_000.0) is not None
    assert backoff.next(50_060.0) is None


async def test_with_a_bound_on_retrying_a_client_outlives_many_outages(
    clock: VirtualClock,
) -> None:
    async with Runtime() as runtime:
        line = Line(runtime)
        policy = Reconnect(wait=wait_fixed(1.0), stop=stop_after_delay(60.0))
        async with Client(line, reconnect=policy) as client:
            for _ in range(3):
                await clock.advance(3600.0)
                await line.cut()
                await clock.advance(2.0)
                await client.connected()


def test_many_clients_do_not_come_back_in_step() -> None:
    bins: dict[int, int] = {}
    for _ in range(200):
        backoff = RetryDelays(Reconnect())
        at = 0.0
        for attempt in range(6):
            at += backoff.next(at) or 0.0
            if attempt > 2:
                bins[int(at * 10)] = bins.get(int(at * 10), 0) + 1
    assert max(bins.values()) <= 0.1 * 600


# -- the loop, in virtual time


async def test_2500_refused_connects_then_success(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime, [refused() for _ in range(2500)])
        async with Client(line, timeouts=FOREVER) as client:
            assert client.state == Live(resumed=False)
        assert len(line.attempts) == 2501
        pairs = zip(line.attempts, line.attempts[1:], strict=False)
        delays = [later - earlier for earlier, later in pairs]
        assert max(delays) <= 30.0 + 1e-6
        assert len({round(delay, 3) for delay in delays[10:]}) > 1000


async def test_the_first_connect_gives_up_within_its_bound(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime, [refused() for _ in range(1000)])
        client = Client(line, timeouts=Timeouts(open=20.0))
        with pytest.raises(ConnectFailed, match="nobody listens") as caught:
            await client.connect()
        assert clock.time() <= 20.0
        assert caught.value.attempts == len(line.attempts)
        assert isinstance(caught.value.__cause__, ConnectFailed)


async def _never(*_: object) -> Any:
    await asyncio.get_running_loop().create_future()


def _deaf(transport: Transport) -> None:
    transport.receive = _never  # type: ignore[method-assign]


@pytest.mark.parametrize("step", [_never, _deaf], ids=["no connection", "no welcome"])
async def test_too_little_time_for_a_last_attempt_hides_no_failure_that_says_more(
    clock: VirtualClock, step: Step
) -> None:
    retry = Reconnect(wait=wait_fixed(0.9))
    async with Runtime() as runtime:
        line = Line(runtime, [refused(), step])
        with pytest.raises(ConnectFailed, match="nobody listens") as caught:
            await Client(line, reconnect=retry, timeouts=Timeouts(open=1.0)).connect()
        assert clock.time() == pytest.approx(1.0)
        assert caught.value.attempts == len(line.attempts) == 2
        with pytest.raises(ConnectFailed, match=r"within 1 s"):
            await Client(Line(runtime, [step]), timeouts=Timeouts(open=1.0)).connect()


EVERY_FAILURE: list[BaseException] = [
    socket.gaierror(socket.EAI_AGAIN, "try again"),
    ConnectionRefusedError("refused"),
    ssl.SSLError("handshake"),
    ConnectFailed("HTTP 503"),
    ConnectionResetError("reset"),
    LinkLost("closed early"),
    TimeoutError("slow"),
    RuntimeError("a bug in a connector"),
    EOFError(),
]


async def test_every_failure_of_a_connector_leads_back_to_the_loop(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime, EVERY_FAILURE)
        async with Client(line, timeouts=FOREVER) as client:
            await line.cut()
            while line.attempts[-1] == line.attempts[len(EVERY_FAILURE)]:
                await asyncio.sleep(0.1)
            await client.connected()
        assert len(line.attempts) == len(EVERY_FAILURE) + 2


async def test_a_permanent_failure_is_tried_once(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime, [ConnectFailed("a wrong path", permanent=True)])
        with pytest.raises(ConnectFailed, match="a wrong path"):
            await Client(line).connect()
        assert len(line.attempts) == 1


async def test_a_first_attempt_that_is_final_counts_as_one(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime, [RemoteProtocolError("not ARCP")])
        with pytest.raises(ConnectFailed, match="after 1 attempt: not ARCP") as raised:
            await Client(line).connect()
        assert raised.value.attempts == 1


async def test_each_attempt_is_counted_in_states_and_in_the_log(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "arcp_client.link")

    def logged() -> list[str]:
        found = [r.getMessage() for r in caplog.records if r.message.startswith("no link to")]
        caplog.clear()
        return found

    async with Runtime() as runtime:
        line = Line(runtime, [refused(), refused(), None, refused()])
        client = Client(line, reconnect=Reconnect(wait=wait_fixed(1.5), reset_after=5.0))
        seen: list[LinkState] = []
        client.states.subscribe(seen.append)
        async with client:
            connecting = [s for s in seen if isinstance(s, Connecting)]
            assert [(s.attempt, str(s.cause)) for s in connecting] == [
                *((0, "None"), (1, "None"), (2, "nobody listens"), (3, "nobody listens"))
            ]
            assert logged() == [
                f"no link to test://line: nobody listens; attempt {n} in 1.5 s" for n in (2, 3)
            ]
            await clock.advance(6.0)
            await line.cut()
            await clock.advance(4.0)
            await client.connected()
            again = [s for s in seen if isinstance(s, Reconnecting)]
            assert [(s.attempt, s.delay) for s in again] == [(1, 1.5), (2, 1.5)]
            assert [text[-20:] for text in logged()] == [f"; attempt {n} in 1.5 s" for n in (1, 2)]


async def test_a_close_waits_for_no_delay_of_an_earlier_outage(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime)
        async with Client(line, reconnect=Reconnect(wait=wait_fixed(60.0))) as client:
            await line.cut()
            await clock.advance(61.0)
            await client.connected()
            began = clock.time()
        assert clock.time() - began < 1.0


async def test_a_close_between_two_links_waits_for_neither(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime)
        async with Client(line, reconnect=Reconnect(wait=wait_fixed(60.0))) as client:
            await line.cut()
            await clock.advance(1.0)
            assert isinstance(client.state, Reconnecting)
            began = clock.time()
        assert clock.time() - began < 1.0


async def close_at_once(transport: Transport) -> None:
    await transport.close(timeout=0.0)


async def test_accept_then_close_makes_the_delays_grow(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime, [close_at_once] * 10)
        wait = wait_random_exponential(multiplier=1, max=1000, min=0)
        async with Client(line, timeouts=FOREVER, reconnect=Reconnect(wait=wait)) as client:
            assert isinstance(client.state, Live)
        delays = [b - a for a, b in zip(line.attempts, line.attempts[1:], strict=False)]
        assert sum(delays[5:]) > sum(delays[:5])


async def test_a_welcome_alone_does_not_reset_the_delays(clock: VirtualClock) -> None:
    async with Runtime() as runtime:

        @runtime.agent("echo")
        async def echo(input: Any, job: Any) -> Any:
            return input

        line = Line(runtime)
        attempts: list[int] = []
        client = Client(line, reconnect=Reconnect(wait=wait_fixed(1.0), reset_after=10.0))

        def note(state: LinkState) -> None:
            if isinstance(state, Reconnecting):
                attempts.append(state.attempt)

        client.states.subscribe(note)
        async with client:
            await (await client.submit("echo", 1)).result()  # only the first link brings events
            for _ in range(3):
                await line.cut()
                await clock.advance(2.0)
                await client.connected()
            await clock.advance(11.0)
            await line.cut()
            await clock.advance(2.0)
            await client.connected()
        assert attempts == [1, 2, 3, 1]


async def test_s8_links_that_bring_events_are_made_anew_without_growing_delays(
    clock: VirtualClock,
) -> None:
    """Twenty cuts, each after fifty events: no wait is longer than a first one may be."""
    async with Runtime() as runtime:

        @runtime.agent("count")
        async def count(input: Any, job: Any) -> None:
            for n in range(1, 1001):
                await job.progress(n, total=1000)
                if n % 50 == 0:
                    await steps.get()

        steps: asyncio.Queue[None] = asyncio.Queue()
        line = Line(runtime)
        delays: list[float] = []
        async with Client(line) as client:
            client.states.subscribe(
                lambda state: (
                    delays.append(state.delay) if isinstance(state, Reconnecting) else None
                )
            )
            job = await client.submit("count")
            numbers: list[int] = []
            async for event in job:
                if isinstance(event, events.Progress):
                    numbers.append(int(event.current))
                    if event.current % 50 == 0:
                        await line.cut()
                        steps.put_nowait(None)
                        await clock.settle()
                        await client.connected()
        assert numbers == list(range(1, 1001))
        assert len(delays) == 20
        assert max(delays) <= 0.5
        assert sum(delays) <= 20 * 0.5


def expired(kind: str = "session.error") -> Raw:
    payload = {"code": "RESUME_WINDOW_EXPIRED", "message": "too late", "retryable": False}
    return Raw({"type": kind, "payload": payload})


def note_delays(client: Client) -> list[tuple[int, float]]:
    """The number and the delay of every attempt, from now on."""
    noted: list[tuple[int, float]] = []

    def note(state: LinkState) -> None:
        if isinstance(state, Reconnecting):
            noted.append((state.attempt, state.delay))

    client.states.subscribe(note)
    return noted


async def test_s8_a_gap_is_no_new_event(clock: VirtualClock) -> None:
    """A runtime that welcomes new sessions and hangs up brings a gap each time, and no event."""
    async with ScriptedRuntime() as runtime:
        client = Client(runtime, reconnect=Reconnect(wait=wait_fixed(1.0)))
        noted = note_delays(client)
        async with client:
            for links in range(1, 7):
                runtime.next("session.hello", expired(), None)
                runtime.drop()
                await runtime.until_linked(1 + 2 * links)
                await client.connected()
            assert client.stats().gaps == 6
        numbers = [number for number, _ in noted]
        assert numbers == list(range(1, 13))


@pytest.mark.parametrize("dialect", ["spec", "python", "csharp", "ruby"])
async def test_s8_after_a_refused_resume_the_fresh_hello_goes_at_once(
    clock: VirtualClock, dialect: str
) -> None:
    async with ScriptedRuntime(dialect) as runtime:
        client = Client(runtime, reconnect=Reconnect(wait=wait_fixed(20.0)))
        noted = note_delays(client)
        async with client:
            runtime.next("session.hello", expired())
            runtime.drop()
            await runtime.until_linked(3)
            await client.connected()
            assert not client.resumed
        assert [delay for _, delay in noted] == [20.0, 0.0]


async def test_s8_a_fresh_hello_that_is_refused_as_expired_is_made_once_more(
    clock: VirtualClock,
) -> None:
    async with ScriptedRuntime() as runtime:
        client = Client(runtime, reconnect=Reconnect(wait=wait_fixed(20.0)))
        noted = note_delays(client)
        async with client:
            runtime.next("session.hello", expired(), expired())
            runtime.drop()
            await runtime.until_linked(4)
            await client.connected()
        assert [delay for _, delay in noted] == [20.0, 0.0, 20.0]


@pytest.mark.parametrize("live_before", [False, True])
async def test_s8_fresh_hellos_that_stay_refused_end_with_the_error_of_that_name(
    clock: VirtualClock, live_before: bool
) -> None:
    async with ScriptedRuntime() as runtime:
        client = Client(runtime, reconnect=Reconnect(wait=wait_fixed(1.0)))
        if live_before:
            await client.connect()
        runtime.next("session.hello", *[expired()] * 10)
        runtime.drop()
        with pytest.raises(ResumeExpired, match="RESUME_WINDOW_EXPIRED: too late") as caught:
            while True:
                await client.connect()
                await clock.advance(1.0)
        assert caught.value.permanent
        assert runtime.links == (4 if live_before else 2)
        await client.close()


@pytest.mark.parametrize("status", [404, 403, 401, 302, 200, 500, 503])
async def test_s16_a_deployment_that_answers_oddly_for_a_while_is_outlived(status: int) -> None:
    """Over real sockets: the path is served, then answers that status, then is served again."""
    deploying = 0

    @web.middleware
    async def deployment(request: web.Request, handler: Any) -> web.StreamResponse:
        nonlocal deploying
        if deploying:
            deploying -= 1
            return web.Response(status=status, headers={"Location": "/login"}, text="soon")
        return await handler(request)  # type: ignore[no-any-return]

    async with Runtime() as runtime:
        gate = asyncio.Event()

        @runtime.agent("gated")
        async def gated(input: Any, job: Any) -> str:
            await gate.wait()
            return "done"

        app = web.Application(middlewares=[deployment])
        runtime.add_routes(app)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        proxy = FaultyProxy(f"ws://127.0.0.1:{port}/arcp")
        try:
            async with proxy:
                policy = Reconnect(wait=wait_fixed(0.01))
                async with Client(proxy.url, reconnect=policy) as client:
                    job = await client.submit("gated")
                    deploying = 3
                    proxy.cut()
                    while deploying:
                        await asyncio.sleep(0)
                    gate.set()
                    assert (await job.result()).value == "done"
                    assert client.resumed
        finally:
            await runner.cleanup()


async def test_the_policy_stops_reconnects(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        down = [refused() for _ in range(100)]
        line = Line(runtime, [None, *down])
        policy = Reconnect(wait=wait_fixed(1.0), stop=stop_after_attempt(5))
        client = Client(line, reconnect=policy)
        await client.connect()
        await line.cut()
        with pytest.raises(ArcpError, match="nobody listens"):
            while True:
                await client.connected()
                await clock.advance(1.0)
        assert len(line.attempts) == 1 + 4
        assert isinstance(client.state, Closed)
        await client.close()


async def test_a_stop_condition_also_ends_the_attempts_of_the_first_connect(
    clock: VirtualClock,
) -> None:
    async with Runtime() as runtime:
        line = Line(runtime, [refused() for _ in range(100)])
        policy = Reconnect(wait=wait_fixed(1.0), stop=stop_after_attempt(3))
        client = Client(line, reconnect=policy)
        connecting = asyncio.create_task(client.connect())
        await clock.advance(2.0)
        with pytest.raises(ConnectFailed, match="after 3 attempts"):
            await connecting
        assert len(line.attempts) == 3
        await client.close()


async def test_classify_replaces_the_built_in_rule(clock: VirtualClock) -> None:
    asked: list[BaseException] = []

    def never(failure: BaseException) -> bool:
        asked.append(failure)
        return False

    async with Runtime() as runtime:
        line = Line(runtime)
        client = Client(line, reconnect=Reconnect(classify=never))
        await client.connect()
        await line.cut()
        with pytest.raises(LinkLost):
            while True:
                await client.connected()
                await asyncio.sleep(0)
        assert [type(failure) for failure in asked] == [LinkLost]
        assert len(line.attempts) == 1


async def test_a_policy_that_raises_ends_the_client_and_says_so(clock: VirtualClock) -> None:
    def broken(failure: BaseException) -> bool:
        raise ZeroDivisionError

    async with Runtime() as runtime:
        line = Line(runtime, [refused()])
        client = Client(line, reconnect=Reconnect(classify=broken))
        with pytest.raises(LinkLost, match="ZeroDivisionError"):
            await client.connect()


# -- states


async def test_the_state_is_honest_from_the_moment_a_link_is_lost(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime)
        states: list[LinkState] = []
        client = Client(line, reconnect=Reconnect(wait=wait_fixed(3.0)))
        client.states.subscribe(states.append)
        async with client:
            await line.cut()
            await clock.settle()
            assert isinstance(client.state, Reconnecting)
            assert (client.state.attempt, client.state.delay) == (1, 3.0)
            assert isinstance(client.state.cause, LinkLost)
            await client.connected()
            assert client.state == Live(resumed=True)
            assert client.resumed
            assert clock.time() >= 3.0
        kinds = [type(state) for state in states]
        assert kinds == [Connecting, Connecting, Live, Reconnecting, Live, Closed]


async def test_waiting_for_connected_is_level_based(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        line = Line(runtime, [None, refused(), refused()])
        async with Client(line, reconnect=Reconnect(wait=wait_fixed(1.0))) as client:
            await client.connected()  # at once: it is
            await line.cut()
            await clock.settle()
            waiting = [asyncio.ensure_future(client.connected()) for _ in range(3)]
            await asyncio.gather(*waiting)
            assert client.resumed


async def test_a_hook_may_submit_and_close(clock: VirtualClock) -> None:
    async with Runtime() as runtime:

        @runtime.agent("echo")
        async def echo(input: Any, job: Any) -> Any:
            return input

        line = Line(runtime)
        client = Client(line)
        results: list[Any] = []
        closed = asyncio.Event()

        @client.on_state
        async def changed(state: LinkState) -> None:
            if isinstance(state, Live) and not state.resumed:
                job = await client.submit("echo", 7)
                results.append((await job.result()).value)
                await line.cut()
            elif isinstance(state, Live):
                await client.close()
                closed.set()

        await client.connect()
        await closed.wait()
        assert results == [7]
        assert client.state == Closed(None)


# -- tokens


def provider(*tokens: str, kind: str) -> Any:
    left = iter(tokens)
    if kind == "sync":
        return lambda: next(left)

    async def give() -> SecretStr:
        await asyncio.sleep(0.01)
        return SecretStr(next(left))

    return give


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_token_refused_at_a_reconnect_is_asked_for_once_more(
    clock: VirtualClock, kind: str
) -> None:
    accepted = {"first": "alice", "second": "alice"}

    async def check(token: str) -> str | None:
        return accepted.get(token)

    async with Runtime(auth=check) as runtime:
        line = Line(runtime)
        token = provider("first", "first", "second", kind=kind)
        async with Client(line, token=token) as client:
            del accepted["first"]
            await line.cut()
            await clock.settle()
            await client.connected()
        # A refused resume may mean the resume token: one hello without it tells (S5).
        assert len(line.attempts) == 3


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_token_that_stays_refused_ends_the_client(clock: VirtualClock, kind: str) -> None:
    accepted = {"first": "alice"}

    async def check(token: str) -> str | None:
        return accepted.get(token)

    async with Runtime(auth=check) as runtime:
        line = Line(runtime)
        client = Client(line, token=provider(*["first"] * 10, kind=kind))
        await client.connect()
        accepted.clear()
        await line.cut()
        await clock.settle()
        with pytest.raises(Unauthenticated):
            await client.connected()
        assert isinstance(client.state, Closed)
        assert len(line.attempts) <= 3


async def test_a_provider_that_raises_is_tried_again(clock: VirtualClock) -> None:
    answers: list[Any] = [RuntimeError("vault is sealed"), "right"]

    def give() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    async with Runtime(auth={"right": "alice"}) as runtime, Client(runtime, token=give) as client:
        assert isinstance(client.state, Live)
    assert not answers


async def test_a_provider_whose_own_wait_was_cancelled_is_tried_again(clock: VirtualClock) -> None:
    answers: list[str | None] = [None, "right"]

    async def give() -> str:
        answer = answers.pop(0)
        if answer is None:
            refresh: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            refresh.cancel()
            return await refresh
        return answer

    async with Runtime(auth={"right": "alice"}) as runtime, Client(runtime, token=give) as client:
        assert isinstance(client.state, Live)
    assert not answers


async def test_a_token_of_another_type_says_so(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        with pytest.raises(ConnectFailed, match="the token must be a str") as caught:
            await Client(runtime, token=lambda: b"secret").connect()  # type: ignore[arg-type,return-value]
        assert caught.value.permanent
        assert "secret" not in str(caught.value)


async def test_a_cancelled_connector_ends_the_client(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        client = Client(Line(runtime, [asyncio.CancelledError()]))
        with pytest.raises(LinkLost, match="cancelled from outside"):
            await client.connect()
        await client.close()


async def test_a_provider_that_hangs_is_bounded(clock: VirtualClock) -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    async with Runtime() as runtime:
        client = Client(runtime, token=never, timeouts=Timeouts(connect=2.0, open=5.0))
        with pytest.raises(ConnectFailed):
            await client.connect()
        assert clock.time() <= 5.0


# -- leaving


@pytest.mark.parametrize("leave", ["close", "detach"])
async def test_leaving_interrupts_a_backoff_at_once(clock: VirtualClock, leave: str) -> None:
    async with Runtime() as runtime:
        steps: list[Step] = [None, refused()]
        line = Line(runtime, steps)
        client = Client(line, reconnect=Reconnect(wait=wait_fixed(60.0)))
        await client.connect()
        await line.cut()
        await clock.advance(1.0)
        assert isinstance(client.state, Reconnecting)
        before = clock.time()
        await getattr(client, leave)()
        assert clock.time() == before
        await clock.advance(200.0)
        assert len(line.attempts) == 1


async def test_a_transport_that_never_closes_does_not_stop_the_loop(clock: VirtualClock) -> None:
    async with Runtime() as runtime:

        def stuck(transport: Transport) -> None:
            really = transport.close

            async def close(*, timeout: float = 5.0) -> None:
                await really(timeout=0.0)
                await asyncio.Event().wait()

            transport.close = close  # type: ignore[method-assign]

        line = Line(runtime, [stuck])
        async with Client(line) as client:
            cut = asyncio.ensure_future(line.cut())
            await clock.advance(0.1)
            await client.connected()
            assert client.resumed
            cut.cancel()


async def test_a_peer_that_never_says_welcome_is_quoted_with_its_last_words(
    clock: VirtualClock,
) -> None:
    class Silent:
        target = "test://silent"

        async def connect(self) -> Transport:
            near, self.far = memory_pair()
            near.stderr = "no such agent"  # type: ignore[attr-defined]
            return near

    with pytest.raises(ConnectFailed) as caught:
        await Client(Silent(), timeouts=Timeouts(connect=1.0, open=1.5)).connect()
    cause = caught.value.__cause__
    while not isinstance(cause, HandshakeTimeout):
        assert cause is not None
        cause = cause.__cause__
    assert cause.stderr == "no such agent"
