"""The reconnect manager: when it tries again, when it does not, and what it says meanwhile (S8)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

import pytest
from pydantic import SecretStr
from tenacity import stop_after_attempt, wait_fixed, wait_random_exponential

from arcp_client import Client, Closed, Live, Reconnect, Runtime, Timeouts
from arcp_client._link.reconnect import Backoff, may_retry
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
from arcp_client.testing import VirtualClock
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


def test_delays_stay_below_the_cap_have_no_rhythm_and_never_overflow() -> None:
    backoff = Backoff(Reconnect(wait=wait_random_exponential(multiplier=0.5, max=30.0)))
    delays = [backoff.next(float(n)) for n in range(5000)]
    assert all(delay is not None and 0.0 <= delay <= 30.0 for delay in delays)
    late = sorted(delay for delay in delays[100:] if delay is not None)
    assert len(set(late)) > 4000
    assert late[len(late) // 4] < 10 < 20 < late[3 * len(late) // 4]  # full jitter: uniform


def test_delays_start_anew_after_a_link_that_was_stable_only() -> None:
    backoff = Backoff(Reconnect(wait=wait_fixed(1), reset_after=10.0))
    for n in range(5):
        backoff.next(float(n))
        backoff.lived(9.9)
    assert backoff.attempt == 5
    backoff.lived(10.0)
    assert backoff.attempt == 0


def test_many_clients_do_not_come_back_in_step() -> None:
    bins: dict[int, int] = {}
    for _ in range(200):
        backoff = Backoff(Reconnect())
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
        line = Line(runtime)
        attempts: list[int] = []
        client = Client(line, reconnect=Reconnect(wait=wait_fixed(1.0), reset_after=10.0))

        def note(state: LinkState) -> None:
            if isinstance(state, Reconnecting):
                attempts.append(state.attempt)

        client.states.subscribe(note)
        async with client:
            for _ in range(3):
                await line.cut()
                await clock.advance(2.0)
                await client.connected()
            await clock.advance(11.0)
            await line.cut()
            await clock.advance(2.0)
            await client.connected()
        assert attempts == [1, 2, 3, 1]


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
        with pytest.raises(ConnectFailed, match="a token is a str") as caught:
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
