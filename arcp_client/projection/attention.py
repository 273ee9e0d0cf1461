"""Decides by rules whether a job needs attention, and says why. It reads no clock.

What a job is doing is its `Verdict`, from the rules of `_verdict`; the rules for money and leases
are here. Each rule has a reason that a person can check, and the time since when it holds. There is
no score. The first rule that holds counts; `reason_of` lists them in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from arcp_client._verdict import Awaited, FactsOfClient, FactsOfJob
from arcp_client._verdict import verdict_of as judge
from arcp_client._wire.names import ENDED
from arcp_client.models import Verdict, VerdictKind, span
from arcp_client.projection.values import in_utc

if TYPE_CHECKING:
    from arcp_client.projection.fold import JobProjection
    from arcp_client.projection.money import Meter

__all__ = ["Level", "Reason", "reason_of", "span", "verdict_of"]

Level = Literal["alert", "warn", "note"]

_LOOKS: dict[VerdictKind, tuple[str, Level, float]] = {
    "agent_dead": ("lost", "alert", 0.0),
    "failed": ("failed", "alert", 0.0),
    "timed_out": ("failed", "alert", 0.0),
    "waiting_for_you": ("asks", "alert", 0.0),
    "silent": ("silent", "warn", 0.0),
    "slowed_by_you": ("slowed", "warn", 0.0),
    "link_down": ("link", "note", 0.0),
    "queued": ("queued", "note", 15.0),
    "waiting_for_tool": ("tool", "note", 10.0),
    "waiting_for_job": ("child", "note", 10.0),
}
"""Verdicts that are reasons: code, level, and the seconds for which they must have held."""
_OVER = ("agent_dead", "done", "failed", "cancelled", "timed_out")
_BUDGET_SOON = 600.0
_BUDGET_NOW = 60.0
_LEASE_SOON = 300.0
_LOW = 0.1
_MEASURED = 60.0
"""Seconds after which the speed of spending is known well enough to warn."""
_PLENTY = Decimal("0.25")
"""The share of a budget below which a warning does not wait for that."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a job needs attention.

    Attributes:
        code: ``asks``, ``lost``, ``failed``, ``spent``, ``budget``, ``lease``, ``silent``,
            ``slowed``, ``link``, ``queued``, ``tool``, ``child`` or ``low``.
        level: ``alert``: it does not continue by itself · ``warn``: it will stop soon, or may have
            stopped · ``note``: it waits, which may be right.
        text: the reason in words, without a time.
        since: since when it holds.
        until: when what it announces happens.
    """

    code: str
    level: Level
    text: str
    since: datetime | None = None
    until: datetime | None = None

    def words(self, now: datetime) -> str:
        """The reason with its time, such as ``waiting for fs.read for 40 s``."""
        if self.until is not None:
            left = (self.until - now).total_seconds()
            return f"{self.text} in {span(left)}" if left > 0 else f"{self.text} now"
        if self.since is not None:
            return f"{self.text} for {span((now - self.since).total_seconds())}"
        return self.text


def verdict_of(
    seen: JobProjection,
    now: datetime,
    *,
    status: str = "",
    created_at: datetime | None = None,
    heartbeat: float | None = None,
) -> Verdict:
    """What a job is doing, by its events alone: the rules of `Verdict` without those of a client.

    Args:
        seen: the events of the job so far.
        now: the time, by the runtime's clock.
        status: the status, if it is known better than from the events.
        created_at: when the job was accepted.
        heartbeat: the interval of heartbeats in seconds, if it is known.
    """
    status = status or seen.status
    over = status in ENDED or status == "lost"
    calls = [call for call in seen.running if not over]
    oldest = min(calls, key=lambda call: call.began or now, default=None)
    asked = None if over else seen.activity.question
    facts = FactsOfJob(
        status=status,
        since=_since(seen, over, status, created_at),
        failure=_failure(seen),
        question=None if asked is None else Awaited(*asked),
        call=None if oldest is None else Awaited(oldest.tool, oldest.began),
        heard=seen.last_at if status == "running" else None,
    )
    return judge(facts, FactsOfClient(heartbeat=heartbeat), now)


def _since(
    seen: JobProjection, over: bool, status: str, created_at: datetime | None
) -> datetime | None:
    if over:
        return seen.last_at
    if status == "pending":
        return in_utc(created_at)
    ends = [call.ended for call in seen.calls if call.ended is not None]
    return max(ends, default=seen.began_at)


def _failure(seen: JobProjection) -> str:
    error = seen.error
    return "" if error is None else f"{error.code}: {error.message}".strip(": ")


def reason_of(
    seen: JobProjection,
    now: datetime,
    *,
    verdict: Verdict | None = None,
    status: str = "",
    created_at: datetime | None = None,
) -> Reason | None:
    """The first reason, of these, why a job needs attention; ``None`` if it needs none.

    1. Its verdict says that it does not continue by itself: it failed or timed out, the runtime no
       longer knows it, or its agent waits for a person.
    2. Its budget is spent, or ends within a minute, or its lease has expired.
    3. Its verdict says that it may have stopped: it is silent, or slowed by the client's handlers.
    4. Its budget ends within ten minutes, or its lease within five. A speed of spending counts once
       the job has run for a minute, or a quarter of the budget is left.
    5. Its verdict says that it waits, which may be right: for its beginning (after 15 seconds), a
       tool or a delegated job (after ten), or the link.
    6. Less than a tenth of its budget is left.

    Args:
        seen: the events of the job so far.
        now: the time, by the runtime's clock.
        verdict: what the job is doing, such as ``job.verdict``; by default that of `verdict_of`.
        status: the status, if it is known better than from the events.
        created_at: when the job was accepted.
    """
    if verdict is None:
        verdict = verdict_of(seen, now, status=status, created_at=created_at)
    told = _told(verdict, now)
    level = None if told is None else told.level
    if level == "alert" or verdict.kind in _OVER:
        return told
    return (
        _money(seen, now, _BUDGET_NOW, 0.0)
        or (told if level == "warn" else None)
        or _money(seen, now, _BUDGET_SOON, _LEASE_SOON)
        or told
        or _low(seen)
    )


def _told(verdict: Verdict, now: datetime) -> Reason | None:
    """The reason that a verdict is, if it is one."""
    if verdict.kind not in _LOOKS:
        return None
    code, level, least = _LOOKS[verdict.kind]
    since = verdict.since
    if least and (since is None or (now - since).total_seconds() < least):
        return None
    return Reason(code, level, verdict.text, None if code in ("failed", "lost") else since)


def _money(seen: JobProjection, now: datetime, budget: float, lease: float) -> Reason | None:
    """What ends within these seconds: a budget, or the lease."""
    ends: list[tuple[float, str]] = []
    for meter in seen.meters_at(now):
        if meter.left is not None and meter.left <= 0 and meter.granted:
            return Reason("spent", "alert", f"budget in {meter.currency} is spent")
        left = meter.seconds_left
        if left is not None and left <= budget and (_measured(seen, now) or _scarce(meter)):
            ends.append((left, meter.currency))
    level: Level = "alert" if budget <= _BUDGET_NOW else "warn"
    if ends:
        soonest, currency = min(ends)
        until = now + timedelta(seconds=soonest)
        return Reason("budget", level, f"budget in {currency} ends", until=until)
    expires = in_utc(seen.expires_at)
    if expires is None or (expires - now).total_seconds() > lease:
        return None
    if expires <= now:
        return Reason("lease", level, "lease has expired")
    return Reason("lease", level, "lease ends", until=expires)


def _measured(seen: JobProjection, now: datetime) -> bool:
    return seen.began_at is not None and (now - seen.began_at).total_seconds() >= _MEASURED


def _scarce(meter: Meter) -> bool:
    left, granted = meter.left, meter.granted
    return left is not None and granted is not None and left < granted * _PLENTY


def _low(seen: JobProjection) -> Reason | None:
    for meter in seen.meters:
        if meter.left is not None and meter.granted and meter.left / meter.granted < _LOW:
            share = int(meter.left / meter.granted * 100)
            return Reason("low", "note", f"{share} % of the {meter.currency} left")
    return None
