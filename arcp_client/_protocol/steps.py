"""What can be done for a job on its way back, as values: `Recovery` chooses, `Returns` does it."""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

import msgspec

__all__ = [
    "Announce",
    "Ask",
    "Asking",
    "Attach",
    "Deliver",
    "Fetch",
    "GiveUp",
    "Look",
    "Means",
    "Plan",
    "Probe",
    "Step",
]

T = TypeVar("T")


class Ask(enum.Enum):
    """What a session asks on its own account."""

    ATTACH = "attach"
    LOOK = "look"
    FETCH = "fetch"
    HEAR = "hear"


class Asking(msgspec.Struct, frozen=True):
    """Marks a request of the session's own, and says which job it is for.

    Attributes:
        ask: what is asked.
        job_id: for which job.
        renew: a subscription of a dead link is ended first.
        others: the other jobs that the same listing is for.
    """

    ask: Ask
    job_id: str
    renew: bool = False
    others: tuple[str, ...] = ()

    @property
    def job_ids(self) -> tuple[str, ...]:
        """All jobs that it is for."""
        return (self.job_id, *self.others)


class Means(msgspec.Struct, frozen=True):
    """What can be asked of this runtime about one job.

    Attributes:
        attach: it has subscriptions.
        look: it lists jobs.
        fetch: it sends a stored outcome to whoever submits again under the same key, and this
            client knows key and payload.
    """

    attach: bool = True
    look: bool = True
    fetch: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How one job is led back; begun again from its first step if the link is lost on the way.

    Attributes:
        history: the runtime is to send what it still holds of the job.
        from_seq: with it, only what came after this number.
        hold: a terminal message may overtake the history, so it is kept until that is there.
        watchful: the job is looked after when it is silent; else its events are known to come.
        only_outcome: its other events were delivered before.
        look_first: a subscription is needed only if the job has ended, or is not listed.
        live: of its past nothing is wanted, unless it has ended, and then its outcome.
        cancelled: the runtime took a cancel in.
    """

    history: bool
    from_seq: int | None = None
    hold: bool = False
    watchful: bool = True
    only_outcome: bool = False
    look_first: bool = False
    live: bool = False
    cancelled: bool = False


class Attach(msgspec.Struct, frozen=True):
    """Subscribe to the job; ``renew``: end a subscription first that a dead link still holds."""

    job_id: str
    history: bool
    from_seq: int | None
    renew: bool


class Look(msgspec.Struct, frozen=True):
    """List the jobs, from this cursor on."""

    job_id: str
    cursor: str | None = None


class Fetch(msgspec.Struct, frozen=True):
    """Submit the job again, under the same key and with the same payload."""

    job_id: str


class Probe(msgspec.Struct, frozen=True):
    """Have the runtime say anything at all: its silence is more than that of the job."""

    job_id: str


class Announce(msgspec.Struct, frozen=True):
    """Events of the job are lost, nobody knows how many."""

    job_id: str


class Deliver(msgspec.Struct, Generic[T], frozen=True):
    """The terminal message that was kept back."""

    item: T


class GiveUp(msgspec.Struct, frozen=True):
    """No outcome will come; ``status`` is how the job ended, empty if the runtime forgot it."""

    job_id: str
    status: str
    why: str


Step = Attach | Look | Fetch | Probe | Announce | Deliver[T] | GiveUp
