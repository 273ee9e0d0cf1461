"""Keeps the requests that wait for an answer: deadlines, and sending them again (S6, S7).

A request stays here until it is answered, refused or out of time, and is sent again on every new
link, under a fresh envelope id and with the same payload. `correlation` finds the request that an
answer belongs to, among those that are out of time as well (S14).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from arcp_client._wire import names
from arcp_client._wire.codec import encode
from arcp_client._wire.ids import new_id
from arcp_client.errors import ArcpError, RequestTimeout

__all__ = ["LATE", "MOST_LATE", "Owner", "PendingRequests", "Request"]

LATE: Final = 60.0
"""Seconds in which a request that is out of time still takes its answer."""
MOST_LATE: Final = 256
"""How many such requests are kept."""


class Owner(Protocol):
    """A part of the session that sends requests on the session's own account."""

    def answered(self, request: Request, value: object, now: float) -> None:
        """Its request was answered."""

    def refused(self, request: Request, error: ArcpError, now: float) -> None:
        """Its request was refused, or not answered in time."""


class Request(msgspec.Struct, eq=False):
    """One request of this client.

    Attributes:
        kind: its message type.
        payload: what is sent, the same at every sending.
        deadline: when it ends without an answer, by the caller's clock.
        job_id: the job it is about, once that is known.
        trace_id: sent with it, and echoed by some runtimes.
        key: the idempotency key of a submit.
        fresh: the key was made for this very call, so that it names no earlier job.
        own_trace: the trace id was made for this very call, so that no earlier job has it.
        envelope_job: send ``job_id`` in the envelope as well.
        token: the caller's own; never looked at here.
        owner: the part of the session that sent it; None for a request of the application.
        renew: a subscription that a dead link may still hold is to be ended first.
        ids: the envelope ids it was sent under, newest last.
        waits: it is not on the present link yet.
        nonce: of a ping; the pong names it.
        session_id: the session in which it was sent first.
        orphaned: its caller left; the answer is still to come and must not be taken for that of
            another request.
        late: orphaned since it is out of time.
    """

    kind: str
    payload: Any
    deadline: float
    job_id: str | None = None
    trace_id: str | None = None
    key: str | None = None
    fresh: bool = False
    own_trace: bool = False
    envelope_job: bool = False
    token: Any = None
    owner: Owner | None = None
    renew: bool = False
    ids: list[str] = []
    waits: bool = True
    nonce: str | None = None
    session_id: str | None = None
    orphaned: bool = False
    late: bool = False

    def encode(self, session_id: str) -> bytes:
        """The next frame of it, under a fresh id."""
        self.ids.append(new_id())
        del self.ids[:-16]  # an answer to an older sending is answered by the newer ones too
        self.waits = False
        self.session_id = self.session_id or session_id
        return encode(
            self.kind,
            self.payload,
            id=self.ids[-1],
            session_id=session_id,
            trace_id=self.trace_id,
            job_id=self.job_id if self.envelope_job else None,
        )

    @property
    def was_sent_before(self) -> bool:
        """Whether it went out over an earlier link, where its answer may have been lost."""
        return len(self.ids) > 1 or (self.waits and bool(self.ids))

    @property
    def size(self) -> int:
        """Bytes of a submit's payload; 0 for the others, which are all short."""
        return memoryview(self.payload).nbytes if isinstance(self.payload, msgspec.Raw) else 0

    @property
    def name(self) -> str:
        """What it is, for an error text."""
        return f"{self.kind} {self.job_id}" if self.job_id else self.kind


class PendingRequests:
    """The requests that wait for an answer, oldest first."""

    def __init__(self) -> None:
        self._open: dict[Request, None] = {}
        self._late: dict[Request, bool] = {}

    def __len__(self) -> int:
        return len(self._open) - len(self._late)

    def __iter__(self) -> Iterator[Request]:
        return iter([request for request in self._open if not request.late])

    def __contains__(self, request: Request) -> bool:
        return request in self._open and not request.late

    def add(self, request: Request) -> None:
        """Take it in; it goes out with the next `ready`."""
        self._open[request] = None

    def remove(self, request: Request) -> bool:
        """It has ended; False if it had ended before."""
        self._late.pop(request, None)
        return self._open.pop(request, self) is None

    def withdraw(self, request: Request) -> None:
        """Its caller left. What was sent is still to be answered."""
        if request.waits:
            self.remove(request)
        elif request in self._open:
            request.orphaned = True

    def unsend(self) -> None:
        """The link is gone: every request whose caller waits is sent again on the next one.

        An answer that was late is lost with it.
        """
        for request in tuple(self._late):
            self.remove(request)
        for request in self:
            request.waits = True
            if request.orphaned:
                self.remove(request)

    def waiting(self) -> list[Request]:
        """The requests that are not on the present link yet."""
        return [request for request in self if request.waits]

    def known(self) -> Iterator[Request]:
        """All requests, with those that take a late answer; oldest first."""
        return iter(self._open)

    def sent(self) -> Iterator[Request]:
        """The requests that an answer which names nothing may belong to; oldest first."""
        return (request for request in self.known() if not request.waits)

    def of(self, kind: str) -> Iterator[Request]:
        """The requests of one kind that are on the present link."""
        return (request for request in self.sent() if request.kind == kind)

    def about(self, job_id: str) -> Request | None:
        """The oldest request on the present link that is about a job."""
        return next((request for request in self.sent() if request.job_id == job_id), None)

    def named(self, envelope_id: str) -> Request | None:
        """The request that was sent under an envelope id."""
        return next((request for request in self.known() if envelope_id in request.ids), None)

    def largest(self) -> Request | None:
        """The submit on the present link with the longest payload."""
        submits = (r for r in self.of(names.SUBMIT) if not r.late)
        return max(submits, key=lambda request: request.size, default=None)

    def submitting(self) -> bool:
        """Whether a submit is on the present link."""
        return next(self.of(names.SUBMIT), None) is not None

    def asked(self) -> bool:
        """Whether anything but a ping is on the present link."""
        return any(not r.waits and r.kind != names.PING for r in self)

    @property
    def deadline(self) -> float | None:
        """The earliest deadline."""
        return min((request.deadline for request in self._open), default=None)

    def expire(self, now: float) -> list[tuple[Request, RequestTimeout]]:
        """The requests that are out of time; give each to `keep` once its caller is told."""
        late = [request for request in self._open if request.deadline <= now]
        for request in late:
            if request.late:
                self.remove(request)
            elif request.orphaned:
                self.keep(request)
        return [
            (
                request,
                RequestTimeout(
                    f"no answer to {request.name} in time; whether it took effect is unknown"
                    + ("" if request.ids else " (it was never sent: no link)")
                ),
            )
            for request in late
            if not request.orphaned
        ]

    # -- late answers

    def keep(self, request: Request) -> None:
        """Let a request that is out of time take its answer, should that come after all."""
        if request.waits or request.kind == names.PING:
            self.remove(request)
        if request not in self._open:
            return
        request.late = request.orphaned = True
        request.deadline += LATE
        self._late[request] = False
        if len(self._late) > MOST_LATE:
            self.remove(next(iter(self._late)))

    def take_unasked(self) -> list[Request]:
        """The late requests behind which no barrier was sent; each is given once."""
        unasked = [request for request, asked in self._late.items() if not asked]
        self._late.update(dict.fromkeys(unasked, True))
        return unasked
