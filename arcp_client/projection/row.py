"""`JobRow`: one job in a line, for lists that show many jobs at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from arcp_client import _digits as digits
from arcp_client._wire.names import ENDED
from arcp_client.models import Verdict
from arcp_client.projection.activity import Number
from arcp_client.projection.attention import Reason, reason_of, verdict_of
from arcp_client.projection.money import Meter
from arcp_client.projection.values import in_utc, iso, short

if TYPE_CHECKING:
    from arcp_client.models import JobSummary
    from arcp_client.projection.fold import JobProjection

__all__ = ["JobRow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """The state of a job as one line of a list. Numbers have the digits that the agent sent.

    Attributes:
        job_id: the job.
        label: what to call it: a given label, else the text of its first status; ``None`` if
            neither is known.
        agent: the name of the agent.
        version: the version of the agent.
        status: ``pending``, ``running``, ``lost`` or the final status.
        parent_job_id: the job that delegated it.
        phase: the latest phase.
        current: the newest progress; ``None`` without progress.
        total: where the progress ends, if that is known.
        units: what the progress counts.
        done: the progress as a share from 0 to 1.
        due_at: when the progress reaches its total, at the speed so far.
        last: the newest event, in words.
        last_at: the time of the newest event.
        meters: money, one meter for each currency.
        tokens: how many tokens were counted; ``None`` if the agent reports none.
        created_at: when the job was accepted, or its first event.
        ended_at: when it ended; ``None`` while it runs or if it is unknown.
        failure: how it failed, as code and message.
        verdict: what it is doing; ``None`` if nothing is known but its status.
        reason: why it needs attention; ``None`` if it needs none.
    """

    job_id: str
    label: str | None = None
    agent: str = ""
    version: str | None = None
    status: str = "pending"
    parent_job_id: str | None = None
    phase: str | None = None
    current: Number | None = None
    total: Number | None = None
    units: str | None = None
    done: float | None = None
    due_at: datetime | None = None
    last: str = ""
    last_at: datetime | None = None
    meters: tuple[Meter, ...] = ()
    tokens: Decimal | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None
    failure: str | None = None
    verdict: Verdict | None = None
    reason: Reason | None = None

    @classmethod
    def of(
        cls,
        seen: JobProjection,
        now: datetime,
        *,
        summary: JobSummary | None = None,
        status: str = "",
        label: str | None = None,
        verdict: Verdict | None = None,
    ) -> JobRow:
        """Make the row of a job from its events.

        Args:
            seen: the events of the job so far.
            now: the time, by the runtime's clock.
            summary: the entry of the job in the runtime's listing.
            status: the status, if it is known better than from the events.
            label: a label that counts more than the first status, such as that of the input.
            verdict: what the job is doing, such as ``job.verdict``; by default that of
                `verdict_of`. It counts as long as the job has not ended.
        """
        now = in_utc(now) or now
        status = status or seen.status
        over = status in ENDED
        name, _, version = (seen.agent or (summary.agent if summary else "")).partition("@")
        progress = seen.activity.progress
        current, total, units = progress if progress is not None else (None, None, None)
        bars = [bar for bar in seen.progress if bar.units == units]
        created = in_utc(summary.created_at if summary else None) or seen.began_at
        error = None if seen.error is None else f"{seen.error.code}: {seen.error.message}"
        if verdict is None or over or status == "lost":
            verdict = verdict_of(seen, now, status=status, created_at=created)
        return cls(
            job_id=seen.job_id,
            label=short(label) if label else seen.activity.label,
            agent=name,
            version=version or None,
            status=status,
            parent_job_id=summary.parent_job_id if summary else None,
            phase=seen.phase,
            current=current,
            total=total,
            units=units,
            done=bars[0].share if bars else None,
            due_at=None if over else seen.activity.due_at,
            last=seen.activity.words,
            last_at=seen.activity.at,
            meters=tuple(seen.meters_at(seen.last_at if over else now)),
            tokens=seen.activity.tokens,
            created_at=created,
            ended_at=seen.last_at if seen.ended else None,
            failure=error,
            verdict=verdict,
            reason=reason_of(seen, now, verdict=verdict),
        )

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.status in ENDED or self.status == "lost"

    def seconds(self, now: datetime) -> float | None:
        """How long the job has run, or ran; ``None`` if that is unknown."""
        until = self.ended_at if self.ended else in_utc(now)
        if self.created_at is None or until is None:
            return None
        return max((until - self.created_at).total_seconds(), 0.0)

    def seconds_left(self, now: datetime) -> float | None:
        """Seconds until the progress reaches its total; 0 once that time is over."""
        now = in_utc(now) or now
        return None if self.due_at is None else max((self.due_at - now).total_seconds(), 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return all values in JSON form: times in ISO 8601, amounts of money as strings.

        Progress and tokens have the agent's digits: a `Decimal` stands for a number that a float
        would change.
        """
        reason, verdict = self.reason, self.verdict
        return {
            "job_id": self.job_id,
            "label": self.label,
            "agent": self.agent,
            "version": self.version,
            "status": self.status,
            "parent_job_id": self.parent_job_id,
            "phase": self.phase,
            "progress": None
            if self.current is None
            else {"current": self.current, "total": self.total, "units": self.units},
            "done": self.done,
            "due_at": iso(self.due_at),
            "last": self.last,
            "last_at": iso(self.last_at),
            "meters": [_money(meter) for meter in self.meters],
            "tokens": None if self.tokens is None else _whole(self.tokens),
            "created_at": iso(self.created_at),
            "ended_at": iso(self.ended_at),
            "failure": self.failure,
            "verdict": None
            if verdict is None
            else {"kind": verdict.kind, "text": verdict.text, "since": iso(verdict.since)},
            "reason": None
            if reason is None
            else {
                "code": reason.code,
                "level": reason.level,
                "text": reason.text,
                "since": iso(reason.since),
                "until": iso(reason.until),
            },
        }


def _whole(amount: Decimal) -> Number:
    return int(amount) if amount == int(amount) else digits.Digits(format(amount, "f"))


def _money(meter: Meter) -> dict[str, str | None]:
    """The amounts of a meter. Rates are left out: they change with the time alone."""
    amounts = {"granted": meter.granted, "left": meter.left, "spent": meter.spent}
    shown = {name: None if one is None else format(one, "f") for name, one in amounts.items()}
    return {"currency": meter.currency, **shown}
