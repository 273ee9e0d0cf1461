"""Recovery plans: how the session gets the outcome of a job whose events might not arrive.

A plan is a generator. It yields steps, is sent the answer to each, and is closed as soon as the
job's *terminal message* arrives: its result or its error. `Recovery` starts plans, and `PlanRunner`
runs them. The `Peer`, which adapts the session to one kind of runtime, describes the needs of a job
with a `Recover` object.

The usual plan is a ladder of three requests: subscribe, list and resubmit. It begins with the first
one that the runtime supports, or with ``list`` if `Recover.list_first` is set::

    subscribe ──▶ running ──▶ watch, or end the plan if events come by themselves
        │    └──▶ ended ────▶ resubmit under the same key, else subscribe with history;
        ▼ refused             given up if no terminal message follows
      list ─────▶ as above
        │  └────▶ not listed ──▶ `list_first`: subscribe with history; otherwise: given up
        ▼ refused, timed out or not supported
      resubmit under the same key; without a key: given up if ``list`` was refused, else watch

To *watch* means to wait for events, and to poll the job while it is silent. To *resubmit* is to
send the submit again: a runtime that knows the key answers with the job, or with the stored
outcome. The client gives a job up only if the runtime refused a request, does not list the job, or
reported that the job ended and then sent no terminal message.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from arcp_client._protocol.jobs import JobState
from arcp_client._wire import names
from arcp_client.errors import FeatureNotNegotiated, JobNotFound, RequestError, RequestTimeout

__all__ = [
    "PATIENCE",
    "QUIET",
    "TRIES",
    "AwaitSilence",
    "AwaitTerminal",
    "Backoff",
    "EventsLost",
    "GiveUp",
    "ListJobs",
    "Means",
    "OnlyOutcome",
    "Plan",
    "Recover",
    "ReleaseTerminal",
    "Resubmit",
    "Step",
    "StepRefused",
    "Subscribe",
    "await_outcome",
    "expect_first_event",
    "recover",
    "watch_cancelled",
]

PATIENCE: Final = 2.0
"""Seconds in which the terminal message of a job that has ended should follow."""
TRIES: Final = 5
"""How often a subscription is sent that is refused for now, and a silent link is pinged."""
QUIET: Final = 15.0
"""Seconds of silence after which a recovered job is polled; doubles with each poll."""
LONGEST_QUIET: Final = 240.0


# -- steps


class Subscribe(msgspec.Struct, frozen=True):
    """Subscribe to the job (§7.6). The answer is the job's status.

    Attributes:
        history: request the retained events of the job.
        after: with history, only events above this number.
        resubscribe: first end the subscription that a dead link still holds.
        hold_terminal: hold a terminal message until the history has arrived.
    """

    history: bool = False
    after: int | None = None
    resubscribe: bool = False
    hold_terminal: bool = False


class ListJobs(msgspec.Struct, frozen=True):
    """Look the job up in the listing (§6.6). The answer is its status; None if it is not listed."""

    cursor: str | None = None


class Resubmit(msgspec.Struct, frozen=True):
    """Submit again under the same key (§7.2). The answer is the id of the accepted job."""


class Backoff(msgspec.Struct, frozen=True):
    """Wait."""

    seconds: float


class AwaitSilence(msgspec.Struct, frozen=True):
    """Wait until no event of the job has arrived for a time.

    The answer is True if an event arrived before this silence. Each event starts the wait anew, and
    the silence after it is `QUIET` seconds long.

    Attributes:
        seconds: the length of the silence if no event arrives.
        confirmed: a subscription is confirmed. If the link is lost during this step, the plan is
            not restarted.
        until_first: the plan ends with the first event.
    """

    seconds: float
    confirmed: bool = False
    until_first: bool = False


class AwaitTerminal(msgspec.Struct, frozen=True):
    """Wait for the terminal message while the link is alive and events arrive."""


class EventsLost(msgspec.Struct, frozen=True):
    """Deliver a `Gap` if events of the job may be lost. At most one in a plan."""


class ReleaseTerminal(msgspec.Struct, frozen=True):
    """Deliver the held terminal message, if any."""


class OnlyOutcome(msgspec.Struct, frozen=True):
    """From now on deliver only chunks of the job's result and its end."""


class GiveUp(msgspec.Struct, frozen=True):
    """End the job without an outcome. ``status`` is its final status, empty if unknown."""

    status: str
    why: str


Step = (
    Subscribe
    | ListJobs
    | Resubmit
    | Backoff
    | AwaitSilence
    | AwaitTerminal
    | EventsLost
    | ReleaseTerminal
    | OnlyOutcome
    | GiveUp
)
Plan = Generator[Step, Any, None]


class StepRefused(Exception):
    """Thrown into a plan: the runtime refused a step's request, or did not answer in time."""

    def __init__(self, error: RequestError) -> None:
        super().__init__(str(error))
        self.error = error


# -- what a job needs


class Means(msgspec.Struct, frozen=True):
    """The requests by which a runtime can tell the state of one job.

    Attributes:
        subscribe: the runtime has subscriptions.
        list: the runtime lists jobs.
        resubmit: the runtime answers a submit under the same key with the stored outcome, and this
            client knows the key and the payload.
    """

    subscribe: bool = True
    list: bool = True
    resubmit: bool = False

    @property
    def any(self) -> bool:
        """Whether the runtime supports any of these requests."""
        return self.subscribe or self.list or self.resubmit


class Recover(msgspec.Struct, frozen=True, kw_only=True):
    """What the recovery of one job needs.

    Attributes:
        history: request the retained events of the job.
        after: with history, only events above this number.
        may_have_lost_events: deliver a `Gap` before any later event, as soon as the job is known to
            have begun.
        resubscribe: the runtime may have kept a subscription that is bound to a lost link.
        hold_terminal: hold a terminal message back, because it may overtake the history.
        poll_if_silent: poll the job while it is silent; False if its events are known to arrive.
        only_outcome: deliver only the result and the end; the other events were delivered before.
        list_first: look the job up first, and subscribe only if it has ended or is not listed.
    """

    history: bool
    after: int | None = None
    may_have_lost_events: bool = False
    resubscribe: bool = False
    hold_terminal: bool = False
    poll_if_silent: bool = True
    only_outcome: bool = False
    list_first: bool = False


# -- the plans


def recover(job: JobState, means: Means, *, needs: Recover) -> Plan:
    """Recover a job up to its outcome."""
    if needs.only_outcome:
        yield OnlyOutcome()
    yield from _Ladder(job, means, needs).climb()


def await_outcome(job: JobState, means: Means, *, status: str, history: bool) -> Plan:
    """Get the terminal message of a job whose subscription was confirmed with a final status."""
    if not history:
        yield OnlyOutcome()
    ladder = _Ladder(job, means, Recover(history=history))
    yield from ladder.go_on(status)


def expect_first_event(job: JobState, means: Means) -> Plan:
    """Recover an accepted job if no event arrives: it may be an earlier job with the same key."""
    yield AwaitSilence(PATIENCE, until_first=True)
    yield from _Ladder(job, means, Recover(history=True)).climb()


def watch_cancelled(job: JobState, means: Means) -> Plan:
    """Look up a cancelled job: some runtimes forget a job that is cancelled before it begins.

    The plan does not subscribe, because the job's events already arrive.
    """
    means = msgspec.structs.replace(means, subscribe=False)
    ladder = _Ladder(job, means, Recover(history=False))
    yield AwaitSilence(PATIENCE)
    yield from ladder.go_on((yield from ladder.look()))


class _Ladder:
    """The ladder for one job, with its state."""

    def __init__(self, job: JobState, means: Means, needs: Recover) -> None:
        self.job = job
        self.means = means
        self.history = needs.history
        self.after = needs.after
        self.resubscribe = needs.resubscribe
        self.hold_terminal = needs.hold_terminal
        self.poll_if_silent = needs.poll_if_silent
        self.list_first = needs.list_first and means.list
        self.confirmed = False
        self.status = ""
        self.why = "it is not known any more"

    def climb(self) -> Plan:
        """Run the recovery from its first step."""
        if self.list_first or not self.means.subscribe:
            status = yield from self.look()
        else:
            status = yield from self.subscribe(
                history=self.history, hold_terminal=self.hold_terminal
            )
        yield from self.go_on(status)

    def go_on(self, status: str | None) -> Plan:
        """Watch the job while it runs, and fetch its outcome once it has ended."""
        quiet = QUIET
        while status is not None:
            self.status = status
            if status in names.ENDED:
                status = yield from self.outcome()
                continue
            if self.job.cancelled and status == "pending":
                yield GiveUp(names.STATUS_CANCELLED, "cancelled before it began")
            if not self.poll_if_silent:
                return
            if (yield AwaitSilence(quiet, self.confirmed and not self.job.cancelled)):
                quiet = QUIET
                continue
            quiet = min(2 * quiet, LONGEST_QUIET)
            if self.means.subscribe:
                history = self.history and not self.confirmed
                status = yield from self.subscribe(history=history)
            else:
                status = yield from self.look()

    # -- each gives the status of the job, or None when the plan is over

    def subscribe(
        self, *, history: bool, hold_terminal: bool = False
    ) -> Generator[Step, Any, str | None]:
        """Subscribe; the confirmation has the status."""
        resubscribe, self.resubscribe = self.resubscribe, False
        after = self.after if history else None
        tries = TRIES
        while True:
            try:
                status = yield Subscribe(history, after, resubscribe, hold_terminal)
            except StepRefused as refused:
                yield ReleaseTerminal()
                error = refused.error
                tries -= 1
                if not error.retryable or not tries:
                    break
                self.poll_if_silent = True  # its events do not come
                yield Backoff(PATIENCE)
                resubscribe = hold_terminal = False
            else:
                self.confirmed = True
                yield from self._announce(status)
                yield ReleaseTerminal()
                return str(status)
        self.poll_if_silent = True  # its events do not come
        if self._is_final(error):
            yield self._give_up()
        if self.means.list:
            return (yield from self.look())
        return (yield from self._without_status(error))

    def look(self) -> Generator[Step, Any, str | None]:
        """Look the job up in the listing, which has the status."""
        if not self.means.list:
            return (yield from self._resubmit_or_watch())
        try:
            status = yield ListJobs()
        except StepRefused as refused:
            if self._is_final(refused.error):
                yield self._give_up()
            return (yield from self._without_status(refused.error))
        if status is None:
            if not self.list_first or not self.means.subscribe:
                yield self._give_up()
            return (yield from self._all_of_it())  # not every runtime lists what has ended
        yield from self._announce(status)
        return str(status)

    def outcome(self) -> Generator[Step, Any, str | None]:
        """Get the terminal message of a job that has ended."""
        if self.means.resubmit:
            return (yield from self._resubmit())
        if self.means.subscribe and not self.history:
            return (yield from self._all_of_it())
        yield AwaitTerminal()
        yield self._give_up()
        return None

    def _all_of_it(self) -> Generator[Step, Any, str | None]:
        """Subscribe with history, which contains the terminal message."""
        self.list_first = False
        self.history = True
        if self.job.from_now_on:
            yield OnlyOutcome()
        return (yield from self.subscribe(history=True))

    def _resubmit(self) -> Generator[Step, Any, str | None]:
        """Submit again under the job's key; the stored terminal message follows the acceptance."""
        try:
            accepted = yield Resubmit()
        except StepRefused as refused:
            self.why = str(refused.error)
            if isinstance(refused.error, RequestTimeout):
                return "running"
        else:
            if accepted == self.job.job_id:
                yield AwaitTerminal()
                if self.status not in names.ENDED:
                    return "running"
                yield self._give_up()
            self.why = "its idempotency key is forgotten"
        self.means = msgspec.structs.replace(self.means, resubmit=False)
        return (yield from self.outcome())

    def _without_status(self, error: RequestError) -> Generator[Step, Any, str | None]:
        """Continue after the request for the status was refused."""
        if self.means.resubmit or isinstance(error, RequestTimeout | FeatureNotNegotiated):
            return (yield from self._resubmit_or_watch())
        yield self._give_up()
        return None

    def _resubmit_or_watch(self) -> Generator[Step, Any, str | None]:
        if not self.means.resubmit:
            return "running"
        yield from self._announce("running")
        self.status = "running"
        return (yield from self._resubmit())

    # -- pieces

    def _announce(self, status: str) -> Plan:
        if status != "pending":
            yield EventsLost()

    def _is_final(self, error: RequestError) -> bool:
        """Whether the refusal means that the outcome cannot be had."""
        self.why = str(error)
        return self.status in names.ENDED or isinstance(error, JobNotFound)

    def _give_up(self) -> GiveUp:
        return GiveUp(self.status if self.status in names.ENDED else "", self.why)
