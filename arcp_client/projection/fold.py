"""`JobProjection`: computes the state of one job from its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any

from arcp_client import _digits as digits
from arcp_client._wire.names import ENDED
from arcp_client.events import (
    Completed,
    Delegate,
    Event,
    Failed,
    Gap,
    Log,
    Metric,
    Progress,
    ResultChunk,
    Status,
    Thought,
    ToolCall,
    ToolResult,
)
from arcp_client.models import Budget, Lease, LeaseConstraints
from arcp_client.projection.activity import Activity
from arcp_client.projection.money import WINDOW, Account, Meter, amount_of, budgeted
from arcp_client.projection.values import (
    Bar,
    Call,
    Child,
    Fault,
    Hole,
    as_json,
    in_utc,
    iso,
    number,
    plain,
    seconds,
    short,
)

if TYPE_CHECKING:
    from arcp_client.job import JobHandle

__all__ = ["JobProjection"]

BARS = 8
METERS = 16
CALLS = 64
CHILDREN = 64
HOLES = 32
MOST_KINDS = 64

OTHER = "other"
"""The name that counts events of further kinds, once there are `MOST_KINDS` kinds."""

_REMAINING = "cost.budget.remaining"
_COST = "cost."
_MESSAGES = frozenset({Log, Thought})
_SHORTEST = 10.0  # seconds: costs over a shorter time give no meaningful rate


class JobProjection:
    """The state of one job for display. See `of` and `apply`.

    Args:
        job_id: the job. Events of other jobs are ignored.
        agent: the agent of the job.
        status: the status so far.
        lease: the granted lease; `meters` start from its ``cost.budget``.
        constraints: bounds on the lease.
        budget: the remaining amount of each currency, if it is known more precisely than from the
            lease.

    Attributes:
        job_id: the job.
        agent: the agent of the job.
        status: ``pending``, ``running`` or the final status, by the events so far.
        phase: the latest reported phase; ``None`` before the first.
        message: the message of that phase.
        lease: the granted lease.
        expires_at: the expiry of the lease, in UTC; ``None`` if it does not expire.
        credentials: the ids of the job's provisioned credentials, without the values.
        events: how many events were applied.
        counts: events by kind, up to 64 kinds and ``other``.
        children: its delegated jobs, the last 64.
        gaps: the gaps in its events, the last 32.
        error: the failure; ``None`` if it did not fail.
        summary: the summary of its result.
        chunks: number of received pieces of a streamed result.
        streamed: number of bytes in these pieces.
        began_at: the timestamp of its first event, by the runtime's clock.
        last_at: the timestamp of its newest event.
        activity: what it did last, in words.
    """

    def __init__(
        self,
        job_id: str,
        *,
        agent: str = "",
        status: str = "pending",
        lease: Lease | None = None,
        constraints: LeaseConstraints | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.job_id = job_id
        self.agent = agent
        self.status = status
        self.phase: str | None = None
        self.message: str | None = None
        self.lease = Lease()
        self.expires_at: datetime | None = None
        self.credentials: tuple[str, ...] = ()
        self.events = 0
        self.counts: dict[str, int] = {}
        self.children: list[Child] = []
        self.gaps: list[Hole] = []
        self.error: Fault | None = None
        self.summary: str | None = None
        self.chunks = 0
        self.streamed = 0
        self.began_at: datetime | None = None
        self.last_at: datetime | None = None
        self.activity = Activity()
        self._bars: dict[str, tuple[int, Bar]] = {}
        self._calls: dict[str, Call] = {}
        self._accounts: dict[str, Account] = {}
        self._grant(lease or Lease(), constraints or LeaseConstraints(), budget or {})

    @classmethod
    def of(cls, job: JobHandle, *, history: bool = True) -> JobProjection:
        """Start from the known state of a job.

        Args:
            job: the job; the projection keeps no reference to it.
            history: whether the events to apply begin with the job's first one. If so, budgets
                start at the granted amounts, else at the remaining amounts.
        """
        projection = cls(job.id)
        projection.describe(job, history=history)
        return projection

    def describe(self, job: JobHandle, *, history: bool = True) -> None:
        """Update properties that became known later, such as the lease; see `of`."""
        self.agent = job.agent or self.agent
        if self.status == "pending":
            self.status = job.status
        self.credentials = tuple(sorted(job.credentials))
        for child in job.children:
            self._child(child, "")
        self._grant(job.lease, job.lease_constraints, {} if history else job.budget)
        if history:
            for currency in set(job.budget) - set(self._accounts):
                self._account(currency, left=job.budget[currency])

    def _grant(self, lease: Lease, constraints: LeaseConstraints, budget: Budget) -> None:
        if len(lease):
            self.lease = lease
        self.expires_at = constraints.expires_at or self.expires_at
        for currency, granted in budgeted(lease):
            account = self._account(currency, left=budget.get(currency, granted))
            if account is not None:
                account.grant(granted)
        for currency, left in budget.items():
            self._account(currency, left=left)

    def apply(self, event: Event) -> None:
        """Update the state from one event. Events of other jobs are ignored, session gaps are not.

        Never raises, whatever values an agent sent.
        """
        if event.job_id != self.job_id and not (event.job_id is None and isinstance(event, Gap)):
            return
        self._at(event.ts)
        if self.status == "pending" and not isinstance(event, Gap):
            self.status = "running"
        self._count(event.kind, 1)
        self.activity.apply(event, self._tool_of)
        if type(event) not in _MESSAGES:
            self._fold(event)

    def _at(self, moment: datetime | None) -> None:
        at = in_utc(moment)
        if at is not None:
            self.last_at = at
            self.began_at = self.began_at or at

    def _count(self, kind: str, count: int) -> None:
        kind = short(kind)
        if kind not in self.counts and len(self.counts) >= MOST_KINDS:
            kind = OTHER
        self.counts[kind] = self.counts.get(kind, 0) + count
        self.events += count

    def apply_all(self, events: Sequence[Event]) -> None:
        """Do the same as `apply` for each event, in less time for a long history."""
        for kind, group in groupby(events, key=type):
            if kind not in _MESSAGES:
                for event in group:
                    self.apply(event)
                continue
            run = list(group)
            if any(event.job_id != self.job_id for event in run):
                run = [event for event in run if event.job_id == self.job_id]
            if run:
                self._skim(run)

    def _skim(self, run: Sequence[Event]) -> None:
        """Apply messages of the job: of all but the last, only kinds and times count."""
        for kind, count in Counter(event.kind for event in run).items():
            self._count(kind, count)
        dated = next((event for event in run if event.ts is not None), None)
        if dated is not None:
            newest = next(event for event in reversed(run) if event.ts is not None)
            self._at(dated.ts)
            self._at(newest.ts)
            self.activity.apply(newest, self._tool_of)
        if self.status == "pending":
            self.status = "running"
        self.activity.apply(run[-1], self._tool_of)

    def _tool_of(self, call_id: str) -> str:
        call = self._calls.get(short(call_id))
        return "" if call is None else call.tool

    def _fold(self, event: Event) -> None:
        match event:
            case Progress():
                self._progress(event)
            case ResultChunk():
                self._chunk(event)
            case Metric():
                self._metric(event)
            case ToolCall():
                self._tool_call(event)
            case ToolResult():
                self._tool_result(event)
            case Status():
                self._status(event)
            case Delegate(child_job_id=str(child)):
                self._child(child, event.agent or "")
            case Completed():
                self._completed(event)
            case Failed():
                self._failed(event)
            case Gap():
                self._gap(event)

    # ------------------------------------------------------------------------- what is seen

    @property
    def ended(self) -> bool:
        """Whether the job has ended."""
        return self.status in ENDED

    @property
    def progress(self) -> list[Bar]:
        """One bar for each unit of reported progress, in order of appearance."""
        return [bar for _, bar in self._bars.values()]

    @property
    def calls(self) -> list[Call]:
        """The last 64 tool calls, oldest first; finished calls are dropped before running ones."""
        return list(self._calls.values())

    @property
    def running(self) -> list[Call]:
        """The tool calls without a result; none once the job has ended."""
        return [] if self.ended else [call for call in self._calls.values() if call.running]

    @property
    def meters(self) -> list[Meter]:
        """Spending, one meter for each currency, as of the newest event."""
        return self.meters_at(None)

    def meters_at(self, now: datetime | None) -> list[Meter]:
        """Spending at a time of the runtime's clock. While a job is silent, its rate decreases."""
        at = seconds(now or self.last_at)
        began = seconds(self.began_at)
        span = WINDOW
        if at is not None and began is not None:
            span = min(max(at - began, _SHORTEST), WINDOW)
        return [one.meter(currency, at, span) for currency, one in self._accounts.items()]

    def to_dict(self, now: datetime | None = None) -> dict[str, Any]:
        """Return all values in JSON form.

        Amounts of money are strings with exact decimals such as ``"4.25"``. Rates are numbers per
        second, durations are seconds. Times are ISO 8601 strings.

        Args:
            now: the time for the meters; by default that of the newest event.
        """
        return {
            "job_id": self.job_id,
            "agent": self.agent,
            "status": self.status,
            "phase": self.phase,
            "message": self.message,
            "began_at": iso(self.began_at),
            "last_at": iso(self.last_at),
            "expires_at": iso(self.expires_at),
            "lease": {name: list(self.lease[name]) for name in self.lease.namespaces()},
            "credentials": list(self.credentials),
            "progress": [{**asdict(bar), "share": bar.share} for bar in self.progress],
            "meters": [plain(meter) for meter in self.meters_at(now)],
            "calls": [{**plain(call), "running": call.running} for call in self.calls],
            "children": [asdict(child) for child in self.children],
            "counts": dict(self.counts),
            "events": self.events,
            "gaps": [asdict(hole) for hole in self.gaps],
            "error": None if self.error is None else asdict(self.error),
            "summary": self.summary,
            "chunks": self.chunks,
            "streamed": self.streamed,
        }

    # ------------------------------------------------------------------------- one kind each

    def _status(self, event: Status) -> None:
        self.phase = short(event.phase)
        self.message = event.message and short(event.message)

    def _progress(self, event: Progress) -> None:
        current = number(event.current)
        if current is None:
            return
        units = event.units and short(event.units)
        key = units or ""
        if key not in self._bars and len(self._bars) >= BARS:
            stalest = min(self._bars, key=lambda each: self._bars[each][0])
            del self._bars[stalest]
        bar = Bar(current, number(event.total), units, event.message and short(event.message))
        self._bars[key] = (self.events, bar)

    def _metric(self, event: Metric) -> None:
        if not event.name.startswith(_COST) or not event.unit:
            return
        amount = amount_of(digits.value_of(event, "value"))
        if amount is None:
            return
        account = self._account(short(event.unit), left=None)
        if account is None:
            return
        at = seconds(event.ts) or seconds(self.last_at)
        if event.name == _REMAINING:
            account.report(amount, at)
        elif amount > 0:
            account.spend(amount, at)

    def _tool_call(self, event: ToolCall) -> None:
        key = short(event.call_id)
        self._calls.pop(key, None)
        if len(self._calls) >= CALLS:
            done = (each for each, call in self._calls.items() if not call.running)
            del self._calls[next(done, next(iter(self._calls)))]
        args = as_json(event, "args")
        self._calls[key] = Call(key, short(event.tool), args, in_utc(event.ts))

    def _tool_result(self, event: ToolResult) -> None:
        key = short(event.call_id)
        call = self._calls.get(key)
        if call is None or not call.running:
            return
        failed = event.error is not None
        outcome = as_json(event, "error" if failed else "result")
        ended = in_utc(event.ts)
        self._calls[key] = replace(call, ended=ended, outcome=outcome, failed=failed)

    def _chunk(self, event: ResultChunk) -> None:
        self.chunks += 1
        if event.encoding == "base64":
            self.streamed += len(event.data.rstrip("=")) * 3 // 4
        else:
            self.streamed += len(event.data.encode("utf-8", "surrogatepass"))

    def _completed(self, event: Completed) -> None:
        if self.error is None:
            self.status = "success"
            self.summary = event.summary and short(event.summary)

    def _failed(self, event: Failed) -> None:
        if self.status != "success" and self.error is None:
            self.status = event.status
            self.error = Fault(short(event.code), short(event.message), event.retryable)

    def _gap(self, event: Gap) -> None:
        self.gaps.append(Hole(event.first, event.last, event.reason))
        del self.gaps[:-HOLES]
        for account in self._accounts.values():
            account.anchored = False

    def _child(self, job_id: str, agent: str) -> None:
        job_id = short(job_id)
        for n, known in enumerate(self.children):
            if known.job_id == job_id:
                self.children[n] = Child(job_id, short(agent) or known.agent)
                return
        self.children.append(Child(job_id, short(agent)))
        del self.children[:-CHILDREN]

    def _account(self, currency: str, *, left: Decimal | None) -> Account | None:
        """Return the account of a currency; a new one if there is room for it."""
        if currency not in self._accounts:
            if len(self._accounts) >= METERS:
                return None
            self._accounts[currency] = Account(left)
        return self._accounts[currency]
