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
