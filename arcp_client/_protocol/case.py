"""Answers and silence about one job in, the next step towards its outcome out (S4, S5, S6).

Some runtimes bind a job to the connection that it was submitted over: after a drop it runs on, but
its events go nowhere and are not replayed. A `Case` leads one such job back, rung by rung, until
its end is known. It holds no socket and no clock; the session does what the steps say.

====================  ==========================  ==========================================
rung                  left on                     to
====================  ==========================  ==========================================
``ATTACHING``         confirmed, it still runs    ``FOLLOWING``
``ATTACHING``         confirmed, it has ended     ``FETCHING``, else once more with history
``ATTACHING``         refused: unknown job        given up
``ATTACHING``         refused for now             ``PAUSING``
``PAUSING``           time has passed             ``ATTACHING``
``ATTACHING``         refused otherwise           ``LOOKING``
``LOOKING``           it still runs               ``FOLLOWING``
``LOOKING``           it has ended                ``FETCHING``, else given up
``LOOKING``           it is not listed            given up
``FOLLOWING``         its end                     done
``FOLLOWING``         silence                     ``ATTACHING``: the confirmation says its status
``FETCHING``          accepted as the same job    ``WAITING``
``FETCHING``          refused, or another job     as after an ended one, without fetching
``WAITING``           its end                     done
``WAITING``           silence                     given up, with what its status tells
====================  ==========================  ==========================================

An answer that does not come at all ends in `FOLLOWING`: a job is given up only on the runtime's
word, never on its silence.
"""

from __future__ import annotations

import enum
from typing import Final, Generic, TypeVar

import msgspec

from arcp_client._protocol.steps import (
    Announce,
    Ask,
    Attach,
    Deliver,
    Fetch,
    GiveUp,
    Look,
    Means,
    Plan,
    Probe,
    Step,
)
from arcp_client._wire import dialect
from arcp_client.errors import FeatureNotNegotiated, JobNotFound, RequestError, RequestTimeout

__all__ = ["PATIENCE", "QUIET", "TRIES", "Case", "Rung"]

T = TypeVar("T")

PATIENCE: Final = 2.0
"""Seconds in which the terminal message of a job that has ended should follow."""
TRIES: Final = 5
"""How often a subscription is asked for that is refused for now, or a silent link is probed."""
QUIET: Final = 15.0
"""Seconds of silence after which a job that was led back is looked after; doubles each time."""
_LONGEST_QUIET: Final = 240.0


class Rung(enum.Enum):
    """Where a job stands on its way back."""

    ATTACHING = "attaching"
    LOOKING = "looking"
    FOLLOWING = "following"
    FETCHING = "fetching"
    WAITING = "waiting"
    PAUSING = "pausing"


_ASKED: Final = {Ask.ATTACH: Rung.ATTACHING, Ask.LOOK: Rung.LOOKING, Ask.FETCH: Rung.FETCHING}
"""Where a job stands while something is asked for it."""


class Case(msgspec.Struct, Generic[T], kw_only=True):
    """One job on its way back.

    Every verb gives the steps to take, in order. An answer that no longer fits changes nothing.

    Attributes:
        job_id: which job.
        means: what may be asked.
        plan: how it was begun.
        rung: where it stands.
        history: the runtime is to send what it still holds of the job.
        from_seq: with it, only what came after this number.
        lossy: events may have gone nowhere, which is yet to be announced.
        renew: the runtime may hold a subscription of a link that is dead.
        held_back: a terminal message is kept until the history is there.
        watchful: it is looked after when it is silent.
        live: of its past nothing is wanted, unless it has ended, and then its outcome.
        only_outcome: its other events were delivered before.
        look_first: a subscription is needed only if the job has ended, or is not listed.
        doubtful: it may be an old one of which nothing comes.
        cancelled: the runtime took a cancel in.
        confirmed: the runtime confirmed a subscription of this session.
        status: as far as it is known.
        deadline: when `tick` must be called; ``None`` while an answer is waited for.
        over: nothing more needs to be done.
    """

    job_id: str
    means: Means
    plan: Plan
    rung: Rung = Rung.ATTACHING
    history: bool = False
    from_seq: int | None = None
    lossy: bool = False
    renew: bool = False
    held_back: bool = False
    watchful: bool = True
    live: bool = False
    only_outcome: bool = False
    look_first: bool = False
    doubtful: bool = False
    cancelled: bool = False
    confirmed: bool = False
    status: str = ""
    deadline: float | None = None
    over: bool = False
    _why: str = "it is not known any more"
    _tries: int = 0
    _waits_since: float = 0.0
    _quiet: float = QUIET
    _kept: list[T] = []

    def start(self, now: float) -> list[Step[T]]:
        """The first step."""
        if self.means.attach and not self.look_first:
            return [Attach(self.job_id, self.history, self.from_seq, self.renew)]
        self.held_back = False
        return self._look(now)

    # -- answers

    def attached(self, status: str, now: float) -> list[Step[T]]:
        """The subscription was confirmed; what the runtime held came before this."""
        if self.rung is not Rung.ATTACHING:
            return []
        self.confirmed = True
        steps = [*self._told(status), *self._let_go()]
        if steps and isinstance(steps[-1], Deliver):
            return steps
        return [*steps, *self._went_on(now)]

    def looked(self, status: str | None, now: float, *, cursor: str | None) -> list[Step[T]]:
        """A page of the listing came; ``status`` is ``None`` if the job is not on it."""
        if self.rung is not Rung.LOOKING:
            return []
        if status is None:
            if cursor is not None:
                return [Look(self.job_id, cursor)]
            if self.look_first and self.means.attach:
                return self._attach_with_history()  # not every runtime lists what has ended
            return self._give_up()
        return [*self._told(status), *self._went_on(now)]

    def fetched(self, accepted_id: str, now: float) -> list[Step[T]]:
        """The submit under the same key was accepted, as this job."""
        if self.rung is not Rung.FETCHING:
            return []
        if accepted_id != self.job_id:
            self._cannot_fetch("its idempotency key is forgotten")
            return self.want_outcome(now)
        return self._wait(now)

    def refused(self, ask: Ask, error: RequestError, now: float) -> list[Step[T]]:
        """A step was refused, or not answered in time."""
        if self.rung is not _ASKED[ask]:
            return []
        kept = self._let_go()
        if kept:
            return kept
        self._why = str(error)
        if self.rung is Rung.FETCHING:
            return self._not_fetched(error, now)
        if self.rung is Rung.ATTACHING:
            self.watchful = True  # whatever comes of it, its events do not
            self._tries += 1
            if error.retryable and self._tries < TRIES:
                self.rung = Rung.PAUSING
                self.deadline = now + PATIENCE
                return []
        if self.status in dialect.ENDED or isinstance(error, JobNotFound):
            return self._give_up()
        if self.rung is Rung.ATTACHING and self.means.look:
            return self._look(now)
        if self.means.fetch or isinstance(error, RequestTimeout | FeatureNotNegotiated):
            return self._fetch_or_follow(now)
        return self._give_up()

    def _not_fetched(self, error: RequestError, now: float) -> list[Step[T]]:
        if isinstance(error, RequestTimeout):
            self.follow(now)
            return []
        self._cannot_fetch(str(error))
        return self.want_outcome(now)

    def _cannot_fetch(self, why: str) -> None:
        self.means = msgspec.structs.replace(self.means, fetch=False)
        self._why = why

    # -- events

    def seen(self, now: float) -> None:
        """Something of the job came."""
        if self.rung is Rung.WAITING:
            self.deadline = now + PATIENCE
        elif self.doubtful:
            self.over = True
        elif self.rung is Rung.FOLLOWING:
            self._quiet = QUIET
            self.deadline = now + QUIET

    def keep(self, item: T, *, here: bool) -> bool:
        """Keep a terminal message back; False if it may be delivered at once.

        Args:
            item: the message.
            here: it was sent for this session. In a history, that shows that nothing is missing.
        """
        if not self.held_back or self.rung is not Rung.ATTACHING:
            return False
        if self.history and here:
            self.lossy = False
        self._kept.append(item)
        return True

    # -- time, and the link

    def tick(self, now: float, heard_at: float | None) -> list[Step[T]]:
        """Time has passed.

        Args:
            now: the time.
            heard_at: when anything was heard last. Silence of one job says something only while
                the link does not stand still.
        """
        if self.deadline is None or now < self.deadline:
            return []
        self.deadline = None
        if self.rung is Rung.PAUSING:
            self.rung = Rung.ATTACHING
            return [Attach(self.job_id, self.history, self.from_seq, False)]
        if self.rung is Rung.FOLLOWING:
            return self._look_after(now)
        if self.status not in dialect.ENDED:
            self.follow(now)
            return []
        if heard_at is not None and self._tries < TRIES and self._stands_still(heard_at, now):
            self._tries += 1
            self._waits_since = now
            self.deadline = now + PATIENCE
            return [Probe(self.job_id)]
        return self._give_up()

    def _look_after(self, now: float) -> list[Step[T]]:
        """It was silent for long: what a subscription is answered with tells how it is."""
        if not self.means.attach:
            return self._look(now)
        self.rung = Rung.ATTACHING
        whole = self.doubtful or (self.history and not self.confirmed)
        self.history = self.history or self.doubtful
        self.doubtful = False
        return [Attach(self.job_id, whole, self.from_seq if whole else None, False)]

    def _stands_still(self, heard_at: float, now: float) -> bool:
        """Whether the link may be what is silent: nothing came lately, or since it was probed."""
        quiet = not self._tries and heard_at <= now - PATIENCE / 2
        return quiet or heard_at <= self._waits_since

    @property
    def interrupted(self) -> Plan | None:
        """What must be begun again if the link is lost now.

        ``None`` once a subscription is confirmed and the job runs: a resume goes on from there.
        """
        followed = self.rung is Rung.FOLLOWING and self.confirmed
        if followed and not (self.doubtful or self.cancelled):
            return None
        return msgspec.structs.replace(self.plan, cancelled=self.cancelled)

    def lost(self) -> list[Step[T]]:
        """The link is gone."""
        if not self.held_back:
            return []
        # The resume may bring its stored end, which must not look like the whole of it.
        return [*self._told("running"), *self._let_go()]

    # -- where to

    def follow(self, now: float) -> None:
        """It runs: its events come, or are looked after when they do not."""
        if not self.watchful:
            self.over = True
            return
        self.rung = Rung.FOLLOWING
        self.deadline = now + self._quiet
        self._quiet = min(2 * self._quiet, _LONGEST_QUIET)

    def want_outcome(self, now: float) -> list[Step[T]]:
        """It has ended, and its terminal message did not come."""
        self.deadline = None
        if self.means.fetch:
            self.rung = Rung.FETCHING
            return [Fetch(self.job_id)]
        if self.means.attach and not self.history:
            return self._attach_with_history()
        return self._wait(now)

    def _told(self, status: str) -> list[Step[T]]:
        """Its status is known: whether it may have lost events follows from it."""
        self.status = status
        if not self.lossy or status == "pending":
            return []
        self.lossy = False
        return [Announce(self.job_id)]

    def _went_on(self, now: float) -> list[Step[T]]:
        """What follows from its status."""
        if self.status in dialect.ENDED:
            return self.want_outcome(now)
        if self.cancelled and self.status == "pending":
            self.status, self._why = dialect.STATUS_CANCELLED, "cancelled before it began"
            return self._give_up()
        self.follow(now)
        return []

    def _let_go(self) -> list[Step[T]]:
        self.held_back = False
        kept, self._kept = self._kept, []
        return [Deliver(item) for item in kept[-1:]]

    def _look(self, now: float) -> list[Step[T]]:
        if not self.means.look:
            return self._fetch_or_follow(now)
        self.rung = Rung.LOOKING
        self.deadline = None
        return [Look(self.job_id)]

    def _fetch_or_follow(self, now: float) -> list[Step[T]]:
        if not self.means.fetch:
            self.follow(now)
            return []
        self.rung = Rung.FETCHING
        self.deadline = None
        # The answer brings the end, if there is one by now; the status is not asked for.
        return [*self._told("running"), Fetch(self.job_id)]

    def _wait(self, now: float) -> list[Step[T]]:
        self.rung = Rung.WAITING
        self._tries = 0
        self._waits_since = now
        self.deadline = now + PATIENCE
        return []

    def _attach_with_history(self) -> list[Step[T]]:
        self.look_first = False
        self.history = True
        self.only_outcome = self.only_outcome or self.live
        self.rung = Rung.ATTACHING
        return [Attach(self.job_id, True, self.from_seq, False)]

    def _give_up(self) -> list[Step[T]]:
        self.over = True
        status = self.status if self.status in dialect.ENDED else ""
        return [GiveUp(self.job_id, status, self._why)]
