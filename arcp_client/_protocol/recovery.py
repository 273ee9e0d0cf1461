"""Answers, events and time in, steps towards the outcomes of jobs out (S4, S5, S6).

The jobs that are on their way back, each a `Case` with the rung that it stands on. Here stands
which of them an answer, an event or a moment concerns.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from arcp_client._protocol.case import PATIENCE, QUIET, TRIES, Case, Rung
from arcp_client._protocol.steps import Asking, Means, Plan, Step
from arcp_client.errors import RequestError

__all__ = ["PATIENCE", "QUIET", "TRIES", "Recovery", "Rung"]

T = TypeVar("T")


class Recovery(Generic[T]):
    """The jobs of one session that are on their way back.

    Every verb gives the steps to take, in order. A job that has ended, in whatever way, is to be
    reported with `ended`; steps about it may still be answered, and are ignored then.

    Attributes:
        busy: whether any job is on its way.
    """

    def __init__(self) -> None:
        self.busy = False
        self._cases: dict[str, Case[T]] = {}

    def rung(self, job_id: str) -> Rung | None:
        """Where a job stands; ``None`` if nothing needs to be done for it."""
        case = self._cases.get(job_id)
        return None if case is None else case.rung

    def fetching(self, job_id: str) -> bool:
        """Whether the outcome of a job is asked for under its key."""
        return self.rung(job_id) in (Rung.FETCHING, Rung.WAITING)

    def interrupted(self) -> dict[str, Plan]:
        """The plans that must be begun again if the link is lost now."""
        plans = ((case.job_id, case.interrupted) for case in self._cases.values())
        return {job_id: plan for job_id, plan in plans if plan is not None}

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
        plan: Plan,
        lossy: bool = False,
        renew: bool = False,
    ) -> list[Step[T]]:
        """Lead a job back whose outcome is not known here.

        Args:
            job_id: which job.
            now: the time.
            means: what may be asked.
            plan: how.
            lossy: events may have gone nowhere, which is announced once it is clear that the job
                had begun, and before anything that came after them.
            renew: the runtime may hold a subscription of a link that is dead.
        """
        case: Case[T] = Case(
            job_id=job_id,
            means=means,
            plan=plan,
            history=plan.history,
            from_seq=plan.from_seq,
            lossy=lossy,
            renew=renew,
            held_back=plan.hold,
            watchful=plan.watchful,
            live=plan.live,
            only_outcome=plan.only_outcome,
            look_first=plan.look_first and means.look,
            cancelled=plan.cancelled,
        )
        self._add(case)
        return self._settled(case, case.start(now))

    def told_ended(
        self, job_id: str, status: str, now: float, *, means: Means, history: bool
    ) -> list[Step[T]]:
        """A subscription, with ``history`` or without, was confirmed for a job that has ended.

        Without, only its outcome is wanted.
        """
        case: Case[T] = Case(
            job_id=job_id,
            means=means,
            plan=Plan(history=history, only_outcome=not history),
            rung=Rung.WAITING,
            confirmed=True,
            history=history,
            only_outcome=not history,
            status=status,
        )
        self._add(case)
        return self._settled(case, case.want_outcome(now))

    def doubt(self, job_id: str, now: float, *, means: Means) -> None:
        """A job was accepted that may be an old one: so it is, if nothing comes of it soon."""
        self._add(
            Case(
                job_id=job_id,
                means=means,
                plan=Plan(history=True),
                rung=Rung.FOLLOWING,
                doubtful=True,
                deadline=now + PATIENCE,
            )
        )

    def cancelled(self, job_id: str, now: float, *, means: Means) -> None:
        """The runtime took a cancel in. One that forgets cancelled jobs before they began is asked.

        Args:
            job_id: which job.
            now: the time.
            means: what may be asked of a job whose events come; it must not be subscribed to.
        """
        case = self._cases.get(job_id)
        if case is None:
            plan = Plan(history=False)
            case = Case(job_id=job_id, means=means, plan=plan, rung=Rung.FOLLOWING)
            self._add(case)
        case.cancelled = True
        if case.rung is Rung.FOLLOWING:
            case.deadline = now + PATIENCE

    # -- answers

    def attached(self, job_id: str, status: str, now: float) -> list[Step[T]]:
        """The subscription was confirmed; what the runtime held came before this."""
        case = self._cases.get(job_id)
        return [] if case is None else self._settled(case, case.attached(status, now))

    def looked(
        self, job_id: str, status: str | None, now: float, *, cursor: str | None = None
    ) -> list[Step[T]]:
        """A page of the listing came; ``status`` is ``None`` if the job is not on it."""
        case = self._cases.get(job_id)
        return [] if case is None else self._settled(case, case.looked(status, now, cursor=cursor))

    def fetched(self, job_id: str, accepted_id: str, now: float) -> list[Step[T]]:
        """The submit under the same key was accepted, as this job."""
        case = self._cases.get(job_id)
        return [] if case is None else self._settled(case, case.fetched(accepted_id, now))

    def refused(self, asking: Asking, error: RequestError, now: float) -> list[Step[T]]:
        """A step was refused, or not answered in time."""
        case = self._cases.get(asking.job_id)
        return [] if case is None else self._settled(case, case.refused(asking.ask, error, now))

    # -- events

    def seen(self, job_id: str | None, now: float) -> None:
        """Something of the job came."""
        case = self._cases.get(job_id) if job_id is not None else None
        if case is not None:
            case.seen(now)
            self._settled(case, [])

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
        return case is not None and case.keep(item, here=here)

    def ended(self, job_id: str) -> None:
        """The job's end was delivered."""
        self._drop(job_id)

    # -- time, and the link

    def tick(self, now: float, *, heard_at: float | None = None) -> list[Step[T]]:
        """Time has passed.

        Args:
            now: the time.
            heard_at: when anything was heard last.
        """
        steps: list[Step[T]] = []
        for case in tuple(self._cases.values()):
            steps += self._settled(case, case.tick(now, heard_at))
        return steps

    def lost(self) -> list[Step[T]]:
        """The link is gone: what is not known by now begins anew on the next one."""
        steps = [step for case in self._cases.values() for step in case.lost()]
        self._cases.clear()
        self.busy = False
        return steps

    # -- pieces

    def _add(self, case: Case[T]) -> None:
        self._cases[case.job_id] = case
        self.busy = True

    def _drop(self, job_id: str) -> None:
        self._cases.pop(job_id, None)
        self.busy = bool(self._cases)

    def _settled(self, case: Case[T], steps: list[Step[T]]) -> list[Step[T]]:
        if case.over and self._cases.get(case.job_id) is case:
            self._drop(case.job_id)
        return steps
