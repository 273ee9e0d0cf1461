"""Examines whether a runtime conforms to the specification, capability by capability.

The probes read the frames of an ordinary client. They start and cancel no jobs and change no state.
For capabilities without a probe, the diagnosis lists the known deviations of the runtime, from its
file in `_dialects`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import SecretStr
from tenacity import wait_fixed

from arcp_client import (
    ArcpError,
    Client,
    ClientInfo,
    Connector,
    LinkState,
    Live,
    Reconnect,
    SessionInfo,
    Timeouts,
    Transport,
    __version__,
)
from arcp_client._dialects import DIALECTS
from arcp_client.errors import AgentNotFound, FeatureNotNegotiated, RequestError, RequestTimeout

__all__ = ["Diagnosis", "Finding", "examine"]

Verdict = Literal["ok", "deviates", "broken", "not offered", "not examined"]

_NOBODY = "arcp-client-doctor-asks-for-nobody"
_PAUSE = 0.1


@dataclass(frozen=True)
class Finding:
    """The finding about one capability.

    Attributes:
        capability: its name.
        verdict: ``ok``, ``deviates``, ``broken``, ``not offered`` (not a fault), or ``not
            examined``.
        section: the section of the specification.
        seen: the behaviour of the runtime.
        remedy: how the client handles it.
    """

    capability: str
    verdict: Verdict
    section: str
    seen: str = ""
    remedy: str = ""


@dataclass
class Diagnosis:
    """All findings about one runtime.

    Attributes:
        session: the session, from the welcome.
        mark: the property by which its dialect was recognised.
        findings: findings of the probes, then known deviations.
    """

    session: SessionInfo
    mark: str = ""
    findings: list[Finding] = field(default_factory=list)

    @property
    def conforms(self) -> bool:
        """Whether each examined capability conforms or is not offered."""
        return all(finding.verdict not in ("deviates", "broken") for finding in self.findings)

    @property
    def not_examined(self) -> list[str]:
        """The capabilities that were not examined and have no known deviation."""
        return [f.capability for f in self.findings if f.verdict == "not examined"]


async def examine(
    target: Connector, *, token: SecretStr | None = None, patience: float = 5.0
) -> Diagnosis:
    """Connect to a runtime and run every probe.

    Args:
        target: the runtime.
        token: the bearer token.
        patience: seconds for each answer, and for the first connection.

    Raises:
        ConnectFailed: no session was opened within ``patience``.
        Unauthenticated: the runtime refused the token.
    """
    tap = _Tap(target)
    client = Client(
        tap,
        token=token,
        info=ClientInfo(name="arcp-client-doctor", version=__version__),
        reconnect=Reconnect(wait=wait_fixed(_PAUSE)),
        timeouts=Timeouts(open=patience, request=patience, close=patience),
    )
    try:
        await client.connect()
        diagnosis = Diagnosis(client.session, DIALECTS[client.session.dialect].mark)
        note = diagnosis.findings.append
        note(_handshake(tap))
        note(await _ping(client))
        note(await _listing(client, tap))
        note(await _refusal(client, tap))
        note(await _resume(client, tap, patience))
    finally:
        await client.close()
    known = _known(client.session.dialect)
    note(_close(tap, known.get("close")))
    for finding in _NOT_EXAMINED:
        note(known.get(finding.capability, finding))
    examined = {finding.capability for finding in diagnosis.findings}
    diagnosis.findings += [it for name, it in known.items() if name not in examined]
    return diagnosis


# ------------------------------------------------------------------ looking at frames


class _Tap:
    """A connector that records the frames of its links."""

    def __init__(self, inner: Connector) -> None:
        self._inner = inner
        self._link: _TappedLink | None = None
        self.frames: list[tuple[Literal["in", "out"], dict[str, Any]]] = []

    @property
    def target(self) -> str:
        return self._inner.target

    async def connect(self) -> Transport:
        self._link = _TappedLink(await self._inner.connect(), self)
        return self._link

    async def cut(self) -> None:
        """Break the link, like a network failure."""
        if self._link is not None:
            await self._link.close(timeout=1.0)

    def keep(self, way: Literal["in", "out"], data: bytes) -> None:
        """Record a frame, if it can be decoded."""
        try:
            frame = json.loads(data)
        except ValueError:
            return
        if isinstance(frame, dict) and isinstance(frame.get("payload"), dict):
            self.frames.append((way, frame))

    def said(self, *kinds: str, after: int = 0) -> list[dict[str, Any]]:
        """Return the runtime's frames of these types, oldest first."""
        return [f for way, f in self.frames[after:] if way == "in" and f.get("type") in kinds]

    def sent(self, kind: str) -> list[dict[str, Any]]:
        """Return the client's frames of one type, oldest first."""
        return [f for way, f in self.frames if way == "out" and f.get("type") == kind]


class _TappedLink:
    def __init__(self, inner: Transport, tap: _Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def send(self, frame: bytes) -> None:
        self._tap.keep("out", frame)
        await self._inner.send(frame)

    async def receive(self) -> bytes:
        data = await self._inner.receive()
        self._tap.keep("in", data)
        return data

    async def close(self, *, timeout: float = 5.0) -> None:
        await self._inner.close(timeout=timeout)


# ------------------------------------------------------------------ probes


def _handshake(tap: _Tap) -> Finding:
    welcome = tap.said("session.welcome")[0]
    payload = welcome["payload"]
    capabilities = payload.get("capabilities") or {}
    odd = []
    if not welcome.get("session_id"):
        odd.append("the session id is not in the envelope")
    runtime = payload.get("runtime")
    if not isinstance(runtime, dict) or not runtime.get("name") or not runtime.get("version"):
        odd.append("the runtime does not name itself under `runtime`")
    if not payload.get("resume_token"):
        odd.append("there is no resume token")
    if any(not isinstance(agent, dict) for agent in capabilities.get("agents") or ()):
        odd.append("agents are not listed as objects")
    if not isinstance(capabilities.get("features"), list):
        odd.append("no features are listed")
    return _finding("handshake", "§6.2", odd, "also reads the other forms")


async def _ping(client: Client) -> Finding:
    return await _asked("ping", "§6.4", client.ping, list, "works without a heartbeat")


async def _listing(client: Client, tap: _Tap) -> Finding:
    start = len(tap.frames)

    async def ask() -> None:
        async for _ in client.jobs():
            return

    def odd() -> list[str]:
        payload = tap.said("session.jobs", after=start)[0]["payload"]
        found = []
        if payload.get("request_id") is None:
            found.append("the reply has no request_id")
        if not isinstance(payload.get("jobs"), list):
            found.append("`jobs` is not a list")
        if any("created_at" not in entry for entry in payload.get("jobs") or ()):
            found.append("entries have no created_at")
        return found

    return await _asked("listing", "§6.6", ask, odd, "also reads the other forms")


async def _refusal(client: Client, tap: _Tap) -> Finding:
    """Probe the refusal of a submit for an unknown agent."""
    start, name, section = len(tap.frames), "refused submit", "§7.5, §12"
    try:
        job = await client.submit(_NOBODY)
    except AgentNotFound:
        odd = []
    except RequestTimeout as error:
        return Finding(name, "broken", section, str(error), "gives up at the deadline")
    except RequestError as error:
        odd = [f"the code is {error.code}, not AGENT_NOT_AVAILABLE"]
    except ArcpError as error:
        return Finding(name, "broken", section, str(error), "gives up at the deadline")
    else:
        await job.cancel()
        return Finding(name, "broken", section, "an unknown agent was accepted", "nothing")
    errors = tap.said("session.error", "job.error", after=start)
    if errors and errors[0]["type"] == "job.error":
        odd.append("it comes as job.error, as if a job had failed")
    for missing in ("code", "message", "retryable"):
        if errors and missing not in errors[0]["payload"]:
            odd.append(f"the error has no {missing}")
    return _finding(name, section, odd, "tells refusals from failures by the request")


async def _resume(client: Client, tap: _Tap, patience: float) -> Finding:
    name, section = "resume", "§6.3"
    before = tap.said("session.welcome")[-1]["payload"].get("resume_token")
    start = len(tap.frames)
    try:
        async with asyncio.timeout(patience), _live_again(client):
            await tap.cut()
    except TimeoutError:
        return Finding(name, "broken", section, "no second link in time", "keeps trying")
    if not client.resumed:
        seen = "the session was not resumed"
        return Finding(name, "broken", section, seen, "starts a new session, reports losses")
    odd = []
    if tap.said("session.welcome", after=start)[-1]["payload"].get("resume_token") == before:
        odd.append("the resume token is not rotated")
    refused = tap.said("session.error", "job.error", after=start)
    if any(error["payload"].get("code") == "RESUME_WINDOW_EXPIRED" for error in refused):
        odd.append("a client that missed nothing is refused")
    return _finding(name, section, odd, "resumes from one event earlier, or keeps the token")


@asynccontextmanager
async def _live_again(client: Client) -> AsyncIterator[None]:
    """At the end of the block, wait until the client is live again."""
    live: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    links = client.stats().reconnects

    @client.on_state
    def changed(state: LinkState) -> None:
        if isinstance(state, Live) and client.stats().reconnects > links and not live.done():
            live.set_result(None)

    yield
    await live


def _close(tap: _Tap, known: Finding | None) -> Finding:
    """Probe how the session ended. ``known`` explains why the client may have sent no message."""
    name, section = "close", "§6.7"
    if tap.said("session.closed"):
        return Finding(name, "ok", section)
    if not tap.sent("session.close") and not tap.sent("session.bye"):
        return known or Finding(name, "broken", section, "there was no link to close", "nothing")
    if not tap.sent("session.close"):
        seen = "session.close is not understood; session.bye is, and has no reply"
        return Finding(name, "deviates", section, seen, "sends session.bye")
    return Finding(name, "broken", section, "session.closed was not received", "drops the link")


_NOT_EXAMINED: Final = (
    Finding("jobs", "not examined", "§7, §8", "no job was run: this command starts nothing"),
    Finding("running jobs", "not examined", "§6.3", "no link was lost while a job ran"),
    Finding("histories", "not examined", "§7.6", "no job was watched"),
)
"""Capabilities that can only be examined with a job."""


def _known(dialect: str) -> dict[str, Finding]:
    """Return the known deviations of a dialect, by capability."""
    return {
        known.capability: Finding(
            known.capability,
            "deviates",
            known.section,
            f"known of this runtime, not tried: {known.seen}",
            known.remedy,
        )
        for known in DIALECTS[dialect].deviations
    }


# ------------------------------------------------------------------ pieces


def _finding(name: str, section: str, odd: list[str], remedy: str) -> Finding:
    if odd:
        return Finding(name, "deviates", section, "; ".join(odd), remedy)
    return Finding(name, "ok", section)


async def _asked(
    name: str,
    section: str,
    ask: Callable[[], Awaitable[Any]],
    odd: Callable[[], list[str]],
    remedy: str,
) -> Finding:
    try:
        await ask()
    except FeatureNotNegotiated:
        return Finding(name, "not offered", section, "", remedy)
    except ArcpError as error:
        return Finding(name, "broken", section, str(error), "gives up at the deadline")
    return _finding(name, section, odd(), remedy)
