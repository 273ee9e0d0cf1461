"""Probes what an application gets from a runtime.

A probe uses a client and returns the outcome in a few words. The usual outcome stands beside the
probe, and what else a runtime leads to in the file of its dialect. The tests compare, and the page
on interoperability shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Protocol

from tenacity import wait_fixed

from arcp_client import (
    Client,
    Connector,
    Gap,
    JobHandle,
    LinkState,
    Live,
    Reconnect,
    Timeouts,
    events,
)
from arcp_client._dialects import DIALECTS, SPECIFICATION
from arcp_client._dialects.own import Own
from arcp_client.errors import ArcpError, JobNotFound
from arcp_client.testing.scripted import Chunk, Emit, Fail, Finish, Script, Wait

__all__ = ["AGENTS", "PROBES", "RUNTIMES", "Peer", "Probe", "linked_again", "outcome_of"]

RUNTIMES: Final = tuple(
    sorted(DIALECTS, key=lambda name: (name not in (Own.name, SPECIFICATION.name), name))
)
"""All dialects: this package's runtime and the specification first."""

AGENTS: Final[Mapping[str, Script]] = {
    "steps": (*(Emit("progress", {"current": n}) for n in range(1, 4)), Finish("done")),
    "gated": (
        Emit("progress", {"current": 1}),
        Wait("first"),
        Emit("progress", {"current": 2}),
        Wait("second"),
        Emit("progress", {"current": 3}),
        Finish("done"),
    ),
    "text": (Chunk("one "), Chunk("två "), Chunk("three"), Finish()),
    "mixed": (Chunk("one "), Chunk(b"\x00\xff"), Finish()),
    "stream": (
        Chunk("one "),
        Wait("first"),
        Chunk("två "),
        Wait("second"),
        Chunk("three"),
        Finish(),
    ),
    "fails": (Fail(),),
    "forever": (Emit("progress", {"current": 0}), Wait("never")),
}
"""What the agents of every peer do."""


class Cable(Connector, Protocol):
    """What leads to a runtime."""

    def hold(self) -> None:
        """Connect no more."""

    def release(self) -> None:
        """Connect again."""

    async def cut(self) -> None:
        """End every link."""


class Peer(Protocol):
    """A runtime of some dialect with `AGENTS`."""

    @property
    def target(self) -> Cable:
        """Where clients connect."""

    def open(self, gate: str) -> None:
        """Let agents go on."""

    def line(self) -> Cable:
        """Another way to the same runtime, which is cut by itself."""

    async def noticed(self, up: int = 0) -> None:
        """Wait until the runtime knows that links have ended, all but so many."""

    async def settled(self, job_id: str) -> None:
        """Wait until a job has ended there."""


@contextlib.asynccontextmanager
async def connected(peer: Peer, line: Cable | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client of a peer."""
    options.setdefault("token", "tok-alice")
    async with Client(
        line or peer.target,
        timeouts=Timeouts(open=2, request=5, close=1),
        reconnect=Reconnect(wait=wait_fixed(0.1)),
        **options,
    ) as client:
        yield client


_STREAMED = "one två three"


async def outcome(job: JobHandle) -> str:
    """How a job ended for the application: value or error, and what it missed."""
    seen: list[events.Event] = []
    with contextlib.suppress(ArcpError):  # result() raises it again
        async for event in job:
            seen.append(event)  # noqa: PERF401  what came before the error counts
    numbers = [event.current for event in seen if isinstance(event, events.Progress)]
    gaps = sum(isinstance(event, Gap) for event in seen)
    try:
        value = (await job.result()).value
        text = "its result" if value in ("done", _STREAMED) else repr(value)
    except ArcpError as error:
        text = type(error).__name__
    if gaps:
        return f"{text}, one Gap" if gaps == 1 else f"{text}, {gaps} Gaps"
    return text if numbers == sorted(set(numbers)) else f"{text}, events {numbers}"


async def error_of(doing: Awaitable[Any]) -> str:
    """The error that comes of something."""
    try:
        await doing
    except ArcpError as error:
        return type(error).__name__
    return "no error"


@contextlib.asynccontextmanager
async def linked_again(client: Client) -> AsyncIterator[None]:
    """Wait at the end of the block for the next link, and for what it leads back."""
    again = asyncio.Event()

    @client.on_state
    def changed(state: LinkState) -> None:
        if isinstance(state, Live):
            again.set()

    again.clear()
    yield
    await again.wait()
    _ = [job async for job in client.jobs()]  # answered after what leads jobs back


async def recognised(peer: Peer) -> str:
    async with connected(peer) as client:
        return client.session.dialect


async def wrong_token(peer: Peer) -> str:
    async def connect() -> None:
        async with connected(peer, token="wrong"):
            pass

    return await error_of(connect())


async def round_trip(peer: Peer) -> str:
    async with connected(peer) as client:
        return "ok" if await client.ping() >= 0 else "never"


async def runs(peer: Peer) -> str:
    async with connected(peer) as client:
        job = await client.submit("steps", {"a": 1})
        numbers = [event.current async for event in job.events(events.Progress)]
        assert numbers == [1, 2, 3]
        return await outcome(job)


async def chunked(peer: Peer) -> str:
    async with connected(peer) as client:
        text = await (await client.submit("text")).result()
        mixed = await (await client.submit("mixed")).result()
        right = (text.value, mixed.value) == ("one två three", b"one \x00\xff")
        return "whole" if right else "wrong"


async def fails(peer: Peer) -> str:
    async with connected(peer) as client:
        return await outcome(await client.submit("fails"))


async def cancelled(peer: Peer) -> str:
    async with connected(peer) as client:
        job = await client.submit("forever")
        await job.cancel()
        return await outcome(job)


async def budgets(peer: Peer) -> str:
    async with connected(peer) as client:
        job = await client.submit("steps", lease={"cost.budget": ["USD:1.50"]})
        await job.result()
        return {Decimal("1.5"): "exact"}.get(job.budget.get("USD", Decimal(0)), "not told")


async def refused(peer: Peer) -> str:
    async with connected(peer) as client:
        good, bad, other = await asyncio.gather(
            client.submit("steps"),
            client.submit("nobody"),
            client.submit("text"),
            return_exceptions=True,
        )
        assert not isinstance(good, BaseException)
        assert not isinstance(other, BaseException)
        assert (await good.result()).value == "done"
        return type(bad).__name__


async def listed(peer: Peer) -> str:
    async with connected(peer) as client:
        over = await client.submit("steps")
        await over.result()
        running = await client.submit("forever")
        found = {job.job_id for job in [job async for job in client.jobs()]}
        await running.cancel()
        return {(True, True): "all", (True, False): "running ones"}[
            running.id in found, over.id in found
        ]


async def watched(peer: Peer) -> str:
    async with connected(peer) as submitter, connected(peer) as observer:
        job = await submitter.submit("gated")
        await anext(aiter(job.events(events.Progress)))
        view = await observer.watch(job.id, history=True)
        peer.open("first")
        peer.open("second")
        return await outcome(view)


async def watched_stream(peer: Peer) -> str:
    async with connected(peer) as submitter, connected(peer) as observer:
        job = await submitter.submit("stream")
        await anext(aiter(job.events(events.ResultChunk)))
        await asyncio.sleep(1)  # a client that acknowledges has done so
        view = await observer.watch(job.id, history=True)
        peer.open("first")
        peer.open("second")
        return await outcome(view)


async def watch_dropped(peer: Peer) -> str:
    line = peer.line()
    async with connected(peer) as submitter, connected(peer, line) as observer:
        job = await submitter.submit("gated")
        view = await observer.watch(job.id, history=True)
        await anext(aiter(view.events(events.Progress)))
        async with linked_again(observer):
            line.hold()
            await line.cut()
            await peer.noticed(up=1)
            peer.open("first")
            async for event in job.events(events.Progress):
                if event.current == 2:
                    break
            line.release()
        peer.open("second")
        return await outcome(view)


async def watched_late(peer: Peer) -> str:
    async with connected(peer) as submitter, connected(peer) as observer:
        job = await submitter.submit("steps")
        await job.result()
        try:
            view = await observer.watch(job.id, history=True)
        except ArcpError as error:
            return type(error).__name__
        return await outcome(view)


async def same_key(peer: Peer) -> str:
    async with connected(peer) as client:
        job = await client.submit("steps", 1, idempotency_key="k")
        await job.result()
        again = await client.submit("steps", 1, idempotency_key="k")
        assert again.id == job.id
        assert (await again.result()).value == "done"
        return await error_of(client.submit("steps", 2, idempotency_key="k"))


async def key_later(peer: Peer) -> str:
    async with connected(peer) as client:
        job = await client.submit("steps", 1, idempotency_key="k")
        await job.result()
    async with connected(peer) as client:
        again = await client.submit("steps", 1, idempotency_key="k")
        assert again.id == job.id
        return await outcome(again)


async def dropped(peer: Peer) -> str:
    return await _dropped(peer, "gated")


async def stream_dropped(peer: Peer) -> str:
    return await _dropped(peer, "stream")


async def three_dropped(peer: Peer) -> str:
    return await _dropped(peer, "gated", "gated", "gated")


async def _dropped(peer: Peer, *agents: str) -> str:
    async with connected(peer) as client:
        jobs = [await client.submit(agent) for agent in agents]
        for job in jobs:
            await anext(aiter(job.events(events.Progress, events.ResultChunk)))
        async with linked_again(client):
            await peer.target.cut()
            await peer.noticed()
        peer.open("first")
        peer.open("second")
        (found,) = {await outcome(job) for job in jobs}
        return found


async def ended_while_away(peer: Peer) -> str:
    return await _ended_while_away(peer, "gated")


async def stream_ended_while_away(peer: Peer) -> str:
    return await _ended_while_away(peer, "stream")


async def _ended_while_away(peer: Peer, agent: str) -> str:
    async with connected(peer) as client:
        job = await client.submit(agent)
        await anext(aiter(job.events(events.Progress, events.ResultChunk)))
        peer.target.hold()
        await peer.target.cut()
        await peer.noticed()
        peer.open("first")
        peer.open("second")
        await peer.settled(job.id)
        peer.target.release()
        return await outcome(job)


async def closed(peer: Peer) -> str:
    async with connected(peer) as client:
        job = await client.submit("gated")
        await anext(aiter(job.events(events.Progress)))
    async with connected(peer) as observer:
        try:
            view = await observer.watch(job.id, history=True)
        except JobNotFound:
            return "gone"
        status = view.status
        peer.open("first")
        peer.open("second")
        return f"{status}; {await outcome(view)}"


@dataclass(frozen=True)
class Probe:
    """One thing that an application does.

    Attributes:
        title: its row on the page.
        usual: what comes of it with a runtime that keeps to the specification.
        run: does it, and says what came of it.
    """

    title: str
    usual: str
    run: Callable[[Peer], Awaitable[str]]


PROBES: Final[Mapping[str, Probe]] = {
    "recognised": Probe("Its dialect is recognised as (§6.2)", "", recognised),
    "wrong token": Probe("A wrong token (§6.1)", "Unauthenticated", wrong_token),
    "ping": Probe("A ping (§6.4)", "ok", round_trip),
    "job": Probe("A job with events (§7.1, §8)", "its result", runs),
    "chunks": Probe("Chunked results (§8.4)", "whole", chunked),
    "failure": Probe("A job that fails (§7.3)", "JobFailed", fails),
    "cancel": Probe("A cancelled job (§7.4)", "JobCancelled", cancelled),
    "budget": Probe("A budget in the acceptance (§9.6)", "exact", budgets),
    "unknown agent": Probe(
        "An unknown agent between two known ones (§7.5)", "AgentNotFound", refused
    ),
    "listing": Probe("The listing has (§6.6)", "all", listed),
    "a running job is watched": Probe(
        "A running job watched with history (§7.6)", "its result", watched
    ),
    "a streamed result is watched": Probe(
        "A streamed result watched with history (§7.6, §8.4)", "its result", watched_stream
    ),
    "the link of a watcher drops": Probe(
        "The link of a watcher drops (§6.3, §7.6)", "its result", watch_dropped
    ),
    "an ended job is watched": Probe(
        "An ended job watched with history (§7.6)", "its result", watched_late
    ),
    "a key is used with other parameters": Probe(
        "A used key with other parameters (§7.2)", "DuplicateKey", same_key
    ),
    "a key is used in a later session": Probe(
        "A used key in a later session (§7.2)", "its result", key_later
    ),
    "the link drops": Probe("The link drops, and the job continues (§6.3)", "its result", dropped),
    "the link drops under three jobs": Probe(
        "The link drops, and three jobs continue (§6.3)", "its result", three_dropped
    ),
    "the link drops in a streamed result": Probe(
        "The link drops in a streamed result (§6.3, §8.4)", "its result", stream_dropped
    ),
    "the job ends during a drop": Probe(
        "The link drops, and the job ends meanwhile (§6.3)", "its result", ended_while_away
    ),
    "a streamed result ends during a drop": Probe(
        "The link drops, and a streamed result ends meanwhile (§6.3, §8.4)",
        "its result",
        stream_ended_while_away,
    ),
    "the session is closed": Probe(
        "The session is closed; its job is (§6.7)", "running; its result", closed
    ),
}
"""What is tried, by the name that `Dialect.outcomes` has for it."""


def outcome_of(probe: str, runtime: str) -> str:
    """What an application gets of that runtime."""
    kind = DIALECTS[runtime]
    return kind.name if probe == "recognised" else kind.outcomes.get(probe, PROBES[probe].usual)
