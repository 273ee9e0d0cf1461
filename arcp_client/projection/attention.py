"""Decides by rules whether a job needs a look, and says why. It reads no clock.

Each rule has a reason that a person can check, and the time since when it holds. There is no score.
The first rule that holds counts; `reason_of` lists them in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from arcp_client._wire.names import ENDED
from arcp_client.projection.values import in_utc

if TYPE_CHECKING:
    from arcp_client.projection.fold import JobProjection
    from arcp_client.projection.money import Meter

__all__ = ["Level", "Reason", "reason_of", "span"]

Level = Literal["alert", "warn", "note"]

SILENCE = 60.0
"""Seconds without an event after which a job counts as silent, if heartbeats are unknown."""
_QUEUED = 15.0
_TOOL_NOTED = 10.0
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
    """Why a job needs a look.

    Attributes:
        code: ``asks``, ``lost``, ``failed``, ``spent``, ``budget``, ``lease``, ``silent``,
            ``queued``, ``tool`` or ``low``.
        level: ``alert``: it does not go on by itself · ``warn``: it will stop soon, or may have
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


def reason_of(
    seen: JobProjection,
    now: datetime,
    *,
    status: str = "",
    created_at: datetime | None = None,
    silence: float = SILENCE,
    waits: Reason | None = None,
) -> Reason | None:
    """The first reason, of these, why a job needs a look; ``None`` if it needs none.

    1. The runtime no longer knows it; it failed or timed out.
    2. Its agent has asked a question that is not answered; or ``waits``.
    3. Its budget is spent.
    4. Its budget ends within a minute, or its lease has expired.
    5. It has sent nothing for ``silence`` seconds, and no tool call is open.
    6. Its budget ends within ten minutes, or its lease within five. A speed of spending counts once
       the job has run for a minute, or a quarter of the budget is left.
    7. It was accepted more than 15 seconds ago and has not begun.
    8. A tool call has been open for more than ten seconds. However long it takes, that is no alarm.
    9. Less than a tenth of its budget is left.

    Args:
        seen: the events of the job so far.
        now: the time, by the runtime's clock.
        status: the status, if it is known better than from the events.
        created_at: when the job was accepted.
        silence: seconds without an event after which a job counts as silent.
        waits: another reason why the job waits for a person.
    """
    status = status or seen.status
    if status == "lost":
        return Reason("lost", "alert", "the runtime no longer knows it")
    if status in ENDED:
        return _failure(seen, status)
    return (
        waits
        or _asks(seen)
        or _money(seen, now, _BUDGET_NOW, 0.0)
        or _silent(seen, now, status, silence)
        or _money(seen, now, _BUDGET_SOON, _LEASE_SOON)
        or _queued(status, now, created_at)
        or _tool(seen, now)
        or _low(seen)
    )


def _failure(seen: JobProjection, status: str) -> Reason | None:
    if status not in ("error", "timed_out"):
        return None
    error = seen.error
    words = "timed out" if status == "timed_out" else "failed"
    told = f"{error.code}: {error.message}".strip(": ") if error is not None else ""
    return Reason("failed", "alert", told or words)


def _asks(seen: JobProjection) -> Reason | None:
    question = seen.activity.question
    if question is None:
        return None
    text, since = question
    return Reason("asks", "alert", f"waiting for you: {text}" if text else "waiting for you", since)


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


def _silent(seen: JobProjection, now: datetime, status: str, silence: float) -> Reason | None:
    if status != "running" or seen.last_at is None or seen.running:
        return None
    if (now - seen.last_at).total_seconds() < silence:
        return None
    return Reason("silent", "warn", "silent", since=seen.last_at)


def _queued(status: str, now: datetime, created_at: datetime | None) -> Reason | None:
    created = in_utc(created_at)
    if status != "pending" or created is None or (now - created).total_seconds() < _QUEUED:
        return None
    return Reason("queued", "note", "waiting to begin", since=created)


def _tool(seen: JobProjection, now: datetime) -> Reason | None:
    waits = [(call.began, call.tool) for call in seen.running if call.began is not None]
    if not waits:
        return None
    began, tool = min(waits)
    if (now - began).total_seconds() < _TOOL_NOTED:
        return None
    return Reason("tool", "note", f"waiting for {tool or 'a tool'}", since=began)


def _low(seen: JobProjection) -> Reason | None:
    for meter in seen.meters:
        if meter.left is not None and meter.granted and meter.left / meter.granted < _LOW:
            share = int(meter.left / meter.granted * 100)
            return Reason("low", "note", f"{share} % of the {meter.currency} left")
    return None


def span(seconds: float) -> str:
    """A time in one unit: ``40 s``, ``3 min``, ``2 h``, ``5 d``."""
    whole = max(int(seconds), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"
