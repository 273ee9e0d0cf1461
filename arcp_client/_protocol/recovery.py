"""Answers and silence of a runtime in, the next step towards a job's outcome out (S4, S5, S6).

Some runtimes bind a job to the connection that it was submitted over: after a drop it runs on, but
its events go nowhere and are not replayed. A `Recovery` leads each such job back, rung by rung,
until its end is known. It holds no socket and no clock; the session does what the steps say.

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
    Asking,
    Attach,
    Deliver,
    Fetch,
    GiveUp,
    Look,
    Means,
    Probe,
    Step,
)
from arcp_client._wire import dialect
from arcp_client.errors import FeatureNotNegotiated, JobNotFound, RequestError, RequestTimeout

__all__ = ["PATIENCE", "QUIET", "TRIES", "Recovery", "Rung"]

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


class _Case(msgspec.Struct, Generic[T]):
    job_id: str
    means: Means
    rung: Rung
    history: bool
    lossy: bool = False
    held_back: bool = False
    watchful: bool = True
    live: bool = False
    only_outcome: bool = False
    doubtful: bool = False
    from_seq: int | None = None
    look_first: bool = False
    tries: int = 0
    waits_since: float = 0.0
    cancelled: bool = False
    status: str = ""
    why: str = "it is not known any more"
    deadline: float | None = None
    quiet: float = QUIET
    kept: list[T] = []


class Recovery(Generic[T]):
    """The jobs of one session that are on their way back.

    Every verb gives the steps to take, in order. A job that has ended, in whatever way, is to be
    reported with `ended`; steps about it may still be answered, and are ignored then.

    Attributes:
        busy: whether any job is on its way.
    """

    def __init__(self) -> None:
        self.busy = False
        self._cases: dict[str, _Case[T]] = {}

    def rung(self, job_id: str) -> Rung | None:
        """Where a job stands; ``None`` if nothing needs to be done for it."""
        case = self._cases.get(job_id)
        return None if case is None else case.rung

    def fetching(self, job_id: str) -> bool:
        """Whether the outcome of a job is asked for under its key."""
        return self.rung(job_id) in (Rung.FETCHING, Rung.WAITING)

    def pending(self) -> dict[str, int | None]:
        """The jobs on their way, each with the number after which its history is wanted."""
        return {case.job_id: case.from_seq for case in self._cases.values()}

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called."""
        moments = [case.deadline for case in self._cases.values() if case.deadline is not None]
        return min(moments, default=None)

    # -- beginnings

    def begin(
        self,
        job_id: str,
        now: float,
        *,
        means: Means,
        history: bool,
        from_seq: int | None = None,
        lossy: bool = False,
        renew: bool = False,
        hold: bool = False,
        watchful: bool = True,
        only_outcome: bool = False,
        look_first: bool = False,
        live: bool = False,
    ) -> list[Step[T]]:
        """Lead a job back whose outcome is not known here.

        Args:
            job_id: which job.
            now: the time.
            means: what may be asked.
            history: have the runtime send what it still holds of the job.
            from_seq: with ``history``, only what came after this number.
            lossy: events may have gone nowhere, which is announced once it is clear that the job
                had begun, and before anything that came after them.
            renew: the runtime may hold a subscription of a link that is dead.
            hold: a terminal message may overtake the history, so it is kept until that is there.
            watchful: look after it when it is silent; else its events are known to come.
            only_outcome: its other events were delivered before.
            look_first: a subscription is needed only if the job has ended, or is not listed.
            live: of its past nothing is wanted, unless it has ended, and then its outcome.
        """
        case: _Case[T] = _Case(
            job_id,
            means,
            Rung.ATTACHING,
            history,
            lossy=lossy,
            held_back=hold,
            watchful=watchful,
            only_outcome=only_outcome,
            live=live,
            from_seq=from_seq,
            look_first=look_first and means.look,
        )
        self._add(case)
        if means.attach and not case.look_first:
            return [Attach(job_id, history, from_seq, renew)]
        case.held_back = False
        return self._look(case, now)

    def told_ended(
        self, job_id: str, status: str, now: float, *, means: Means, history: bool
    ) -> list[Step[T]]:
        """A subscription, with ``history`` or without, was confirmed for a job that has ended.

        Without, only its outcome is wanted.
        """
        case: _Case[T] = _Case(
            job_id, means, Rung.WAITING, history, only_outcome=not history, status=status
        )
        self._add(case)
        return self._want_outcome(case, now)

    def doubt(self, job_id: str, now: float, *, means: Means) -> None:
        """A job was accepted that may be an old one: so it is, if nothing comes of it soon."""
        case: _Case[T] = _Case(job_id, means, Rung.FOLLOWING, False, doubtful=True)
        case.deadline = now + PATIENCE
        self._add(case)

    def cancelled(self, job_id: str, now: float, *, means: Means) -> None:
        """The runtime took a cancel in. One that forgets cancelled jobs before they began is asked.

        Args:
            job_id: which job.
            now: the time.
            means: what may be asked of a job whose events come; it must not be subscribed to.
        """
        case = self._cases.get(job_id)
        if case is None:
            case = _Case(job_id, means, Rung.FOLLOWING, False)
            self._add(case)
        case.cancelled = True
        if case.rung is Rung.FOLLOWING:
            case.deadline = now + PATIENCE

    # -- answers

    def attached(self, job_id: str, status: str, now: float) -> list[Step[T]]:
        """The subscription was confirmed; what the runtime held came before this."""
        case = self._at(job_id, Rung.ATTACHING)
        if case is None:
            return []
        steps = [*self._told(case, status), *self._let_go(case)]
        if steps and isinstance(steps[-1], Deliver):
            return steps
        return [*steps, *self._went_on(case, now)]

    def looked(
        self, job_id: str, status: str | None, now: float, *, cursor: str | None = None
    ) -> list[Step[T]]:
        """A page of the listing came; ``status`` is ``None`` if the job is not on it."""
        case = self._at(job_id, Rung.LOOKING)
        if case is None:
            return []
        if status is None:
            if cursor is not None:
                return [Look(job_id, cursor)]
            if case.look_first and case.means.attach:
                return self._attach_with_history(case)  # not every runtime lists what has ended
            return self._give_up(case)
        return [*self._told(case, status), *self._went_on(case, now)]

    def fetched(self, job_id: str, accepted_id: str, now: float) -> list[Step[T]]:
        """The submit under the same key was accepted, as this job."""
        case = self._at(job_id, Rung.FETCHING)
        if case is None:
            return []
        if accepted_id != job_id:
            case.means = Means(case.means.attach, case.means.look, fetch=False)
            case.why = "its idempotency key is forgotten"
            return self._want_outcome(case, now)
        return self._wait(case, now)

    def refused(self, asking: Asking, error: RequestError, now: float) -> list[Step[T]]:
        """A step was refused, or not answered in time."""
        rung = {Ask.ATTACH: Rung.ATTACHING, Ask.LOOK: Rung.LOOKING, Ask.FETCH: Rung.FETCHING}
        case = self._at(asking.job_id, rung[asking.ask])
        if case is None:
            return []
        kept = self._let_go(case)
        if kept:
            return kept
        case.why = str(error)
        if case.rung is Rung.ATTACHING:
            case.watchful = True  # whatever comes of it, its events do not
            case.tries += 1
            if error.retryable and case.tries < TRIES:
                case.rung = Rung.PAUSING
                case.deadline = now + PATIENCE
                return []
        if case.rung is Rung.FETCHING:
            if isinstance(error, RequestTimeout):
                self._follow(case, now)
                return []
            case.means = Means(case.means.attach, case.means.look, fetch=False)
            return self._want_outcome(case, now)
        if case.status in dialect.ENDED:
            return self._give_up(case)
        if isinstance(error, JobNotFound):
            return self._give_up(case)
        if case.rung is Rung.ATTACHING and case.means.look:
            return self._look(case, now)
        if case.means.fetch or isinstance(error, RequestTimeout | FeatureNotNegotiated):
            return self._fetch_or_follow(case, now)
        return self._give_up(case)

    # -- events

    def seen(self, job_id: str | None, now: float) -> None:
        """Something of the job came."""
        case = self._cases.get(job_id) if job_id is not None else None
        if case is None:
            return
        if case.rung is Rung.WAITING:
            case.deadline = now + PATIENCE
        elif case.doubtful:
            self._drop(case.job_id)
        elif case.rung is Rung.FOLLOWING:
            case.quiet = QUIET
            case.deadline = now + case.quiet

    def wants(self, job_id: str | None, *, of_result: bool) -> bool:
        """Whether an event is to be delivered: of an ended job, only what makes up its result."""
        case = self._cases.get(job_id) if job_id is not None else None
        return case is None or not case.only_outcome or of_result

    def keep(self, job_id: str | None, item: T, *, here: bool) -> bool:
        """Keep a terminal message back; False if it may be delivered at once.

        Args:
            job_id: whose end it is.
            item: the message.
            here: it was sent for this session. In a history, that shows that nothing is missing.
        """
        case = self._cases.get(job_id) if job_id is not None else None
        if case is None or not case.held_back or case.rung is not Rung.ATTACHING:
            return False
        if case.history and here:
            case.lossy = False
        case.kept.append(item)
        return True

    def ended(self, job_id: str) -> None:
        """The job's end was delivered."""
        self._drop(job_id)

    # -- time, and the link

    def tick(self, now: float, *, heard_at: float | None = None) -> list[Step[T]]:
        """Time has passed.

        Args:
            now: the time.
            heard_at: when anything was heard last. Silence of one job says something only while
                the link does not stand still.
        """
        steps: list[Step[T]] = []
        for case in tuple(self._cases.values()):
            if case.deadline is None or now < case.deadline:
                continue
            case.deadline = None
            if case.rung is Rung.PAUSING:
                case.rung = Rung.ATTACHING
                steps.append(Attach(case.job_id, case.history, case.from_seq, False))
            elif case.rung is Rung.FOLLOWING:
                if case.means.attach:
                    case.rung = Rung.ATTACHING
                    case.history = case.history or case.doubtful
                    steps.append(Attach(case.job_id, case.doubtful, None, False))
                    case.doubtful = False
                else:
                    steps += self._look(case, now)
            elif case.status not in dialect.ENDED:
                self._follow(case, now)
            elif heard_at is not None and case.tries < TRIES and _stands_still(case, heard_at, now):
                case.tries += 1
                case.waits_since = now
                case.deadline = now + PATIENCE
                steps.append(Probe(case.job_id))
            else:
                steps += self._give_up(case)
        return steps

    def lost(self) -> list[Step[T]]:
        """The link is gone: what is not known by now begins anew on the next one."""
        steps: list[Step[T]] = []
        for case in self._cases.values():
            if case.held_back:
                # The resume may bring its stored end, which must not look like the whole of it.
                steps += [*self._told(case, "running"), *self._let_go(case)]
        self._cases.clear()
        self.busy = False
        return steps

    # -- pieces

    def _add(self, case: _Case[T]) -> None:
        self._cases[case.job_id] = case
        self.busy = True

    def _drop(self, job_id: str) -> None:
        self._cases.pop(job_id, None)
        self.busy = bool(self._cases)

    def _at(self, job_id: str, rung: Rung) -> _Case[T] | None:
        case = self._cases.get(job_id)
        return case if case is not None and case.rung is rung else None

    def _told(self, case: _Case[T], status: str) -> list[Step[T]]:
        """The job's status is known: whether it may have lost events follows from it."""
        case.status = status
        if not case.lossy or status == "pending":
            return []
        case.lossy = False
        return [Announce(case.job_id)]

    def _went_on(self, case: _Case[T], now: float) -> list[Step[T]]:
        """What follows from its status."""
        if case.status in dialect.ENDED:
            return self._want_outcome(case, now)
        if case.cancelled and case.status == "pending":
            case.status, case.why = dialect.STATUS_CANCELLED, "cancelled before it began"
            return self._give_up(case)
        self._follow(case, now)
        return []

    def _let_go(self, case: _Case[T]) -> list[Step[T]]:
        case.held_back = False
        kept, case.kept = case.kept, []
        return [Deliver(item) for item in kept[-1:]]

    def _follow(self, case: _Case[T], now: float) -> None:
        if not case.watchful:
            self._drop(case.job_id)
            return
        case.rung = Rung.FOLLOWING
        case.deadline = now + case.quiet
        case.quiet = min(2 * case.quiet, _LONGEST_QUIET)

    def _look(self, case: _Case[T], now: float) -> list[Step[T]]:
        if not case.means.look:
            return self._fetch_or_follow(case, now)
        case.rung = Rung.LOOKING
        case.deadline = None
        return [Look(case.job_id)]

    def _fetch_or_follow(self, case: _Case[T], now: float) -> list[Step[T]]:
        if not case.means.fetch:
            self._follow(case, now)
            return []
        case.rung = Rung.FETCHING
        case.deadline = None
        # The answer brings the end, if there is one by now; the status is not asked for.
        return [*self._told(case, "running"), Fetch(case.job_id)]

    def _want_outcome(self, case: _Case[T], now: float) -> list[Step[T]]:
        """It has ended, and its terminal message did not come."""
        case.deadline = None
        if case.means.fetch:
            case.rung = Rung.FETCHING
            return [Fetch(case.job_id)]
        if case.means.attach and not case.history:
            return self._attach_with_history(case)
        return self._wait(case, now)

    def _wait(self, case: _Case[T], now: float) -> list[Step[T]]:
        case.rung = Rung.WAITING
        case.tries = 0
        case.waits_since = now
        case.deadline = now + PATIENCE
        return []

    def _attach_with_history(self, case: _Case[T]) -> list[Step[T]]:
        case.look_first = False
        case.history = True
        case.only_outcome = case.only_outcome or case.live
        case.rung = Rung.ATTACHING
        return [Attach(case.job_id, True, case.from_seq, False)]

    def _give_up(self, case: _Case[T]) -> list[Step[T]]:
        self._drop(case.job_id)
        status = case.status if case.status in dialect.ENDED else ""
        return [GiveUp(case.job_id, status, case.why)]


def _stands_still(case: _Case[T], heard_at: float, now: float) -> bool:
    """Whether the link may be what is silent: nothing came lately, or since it was probed."""
    return heard_at <= case.waits_since or (not case.tries and heard_at <= now - PATIENCE / 2)
