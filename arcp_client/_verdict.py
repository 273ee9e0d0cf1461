"""Decides by rules what a job is doing, from what is known of it and of the client.

It reads no clock and keeps no state: `JobRecord` (``job.verdict``) and `JobProjection` pass the
facts. All times of one call must be from the same clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from arcp_client.models import Verdict, VerdictKind

__all__ = ["HEARTBEATS", "RULES", "SILENCE", "Awaited", "FactsOfClient", "FactsOfJob", "verdict_of"]

SILENCE = 60.0
"""Seconds without an event after which a job counts as silent, if heartbeats are unknown."""
HEARTBEATS = 2
"""Heartbeat intervals without an event after which a job counts as silent."""

_ENDS: dict[str, tuple[VerdictKind, str]] = {
    "success": ("done", "done"),
    "error": ("failed", "failed"),
    "cancelled": ("cancelled", "cancelled"),
    "timed_out": ("timed_out", "timed out"),
}


@dataclass(frozen=True, slots=True)
class Awaited:
    """Something that is waited for, and since when.

    Attributes:
        what: the name of a tool, the text of a question, or a reason in words.
        since: when it began; ``None`` if that is unknown.
    """

    what: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsOfJob:
    """What is known of one job.

    Attributes:
        status: ``pending``, ``running``, ``lost`` or the final status.
        since: since when the job has been in this status, or was last seen to continue.
        failure: why it failed, as code and message.
        question: the oldest open question: its text, and when it was asked.
        call: the oldest open tool call: its tool, and when it began.
        child: the oldest delegated job that has not ended: its agent, and when it was delegated.
        heard: since when an event could have arrived, and none did; ``None`` if nothing can be said
            of its silence.
    """

    status: str
    since: datetime | None = None
    failure: str = ""
    question: Awaited | None = None
    call: Awaited | None = None
    child: Awaited | None = None
    heard: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsOfClient:
    """What a client knows of itself that concerns all its jobs.

    Attributes:
        down: why there is no link to the runtime, and since when; ``None`` if there is one.
        slowed: what keeps the client from reading, and since when; ``None`` if it reads.
        heartbeat: the interval of heartbeats in seconds; ``None`` if there are none.
    """

    down: Awaited | None = None
    slowed: Awaited | None = None
    heartbeat: float | None = None


Rule = Callable[[FactsOfJob, FactsOfClient, datetime], Verdict | None]


def verdict_of(job: FactsOfJob, client: FactsOfClient, now: datetime) -> Verdict:
    """What a job is doing: the verdict of the first of `RULES` that holds."""
    for rule in RULES:
        found = rule(job, client, now)
        if found is not None:
            return found
    return Verdict("working", "working", job.since)


def _over(job: FactsOfJob, _client: FactsOfClient, _now: datetime) -> Verdict | None:
    if job.status == "lost":
        return Verdict("agent_dead", "the runtime no longer knows it", job.since)
    end = _ENDS.get(job.status)
    return None if end is None else Verdict(end[0], job.failure or end[1], job.since)


def _link(_job: FactsOfJob, client: FactsOfClient, _now: datetime) -> Verdict | None:
    down = client.down
    if down is None:
        return None
    why = f": {down.what}" if down.what else ""
    return Verdict("link_down", f"no link to the runtime{why}", down.since)


def _question(job: FactsOfJob, _client: FactsOfClient, _now: datetime) -> Verdict | None:
    asked = job.question
    if asked is None:
        return None
    text = f"waiting for you: {asked.what}" if asked.what else "waiting for you"
    return Verdict("waiting_for_you", text, asked.since)


def _slowed(_job: FactsOfJob, client: FactsOfClient, _now: datetime) -> Verdict | None:
    slowed = client.slowed
    if slowed is None:
        return None
    why = f": {slowed.what}" if slowed.what else ""
    return Verdict("slowed_by_you", f"slowed by you{why}", slowed.since)


def _queued(job: FactsOfJob, _client: FactsOfClient, _now: datetime) -> Verdict | None:
    return Verdict("queued", "waiting to begin", job.since) if job.status == "pending" else None


def _tool(job: FactsOfJob, _client: FactsOfClient, _now: datetime) -> Verdict | None:
    return _awaits("waiting_for_tool", job.call, "a tool")


def _child(job: FactsOfJob, _client: FactsOfClient, _now: datetime) -> Verdict | None:
    return _awaits("waiting_for_job", job.child, "a delegated job")


def _awaits(
    kind: Literal["waiting_for_tool", "waiting_for_job"], wait: Awaited | None, name: str
) -> Verdict | None:
    return None if wait is None else Verdict(kind, f"waiting for {wait.what or name}", wait.since)


def _silent(job: FactsOfJob, client: FactsOfClient, now: datetime) -> Verdict | None:
    if job.heard is None:
        return None
    seconds = (now - job.heard).total_seconds()
    if not client.heartbeat:
        return Verdict("silent", "silent", job.heard) if seconds >= SILENCE else None
    count = int(seconds // client.heartbeat)
    return Verdict("silent", "silent", job.heard, count) if count >= HEARTBEATS else None


RULES: tuple[Rule, ...] = (_over, _link, _question, _slowed, _queued, _tool, _child, _silent)
"""The rules in their order. If none holds, the job is working."""
