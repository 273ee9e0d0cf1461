"""Keeps pending requests with their deadlines, and resends them on each link.

A request is pending until it is answered or refused or has timed out. It is sent again on every new
link, with a new envelope id and the same payload. Timed-out requests are remembered, so that
`correlation` can attribute late answers to them (rule S14).

See rules S6 and S7 in docs/explanation/rules.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from arcp_client._wire import names
from arcp_client._wire.codec import encode
from arcp_client._wire.ids import new_id
from arcp_client.errors import ArcpError, RequestTimeout

__all__ = ["LATE", "MOST_LATE", "Owner", "PendingRequests", "Request"]

LATE: Final = 60.0
"""Seconds in which a timed-out request still accepts its answer."""
MOST_LATE: Final = 256
"""The maximum number of timed-out requests that are remembered."""


class Owner(Protocol):
    """A part of the session that sends requests of its own, for example `Recovery`."""

    def answered(self, request: Request, value: object, now: float) -> None:
        """Handle the answer to one of its requests."""

    def refused(self, request: Request, error: ArcpError, now: float) -> None:
        """Handle that one of its requests was refused, or not answered in time."""


class Request(msgspec.Struct, eq=False):
    """One request of this client.

    Attributes:
        kind: its message type.
        payload: the payload, the same each time it is sent.
        deadline: when it times out, by the caller's clock.
        job_id: the job that it is about, once known.
        trace_id: the trace id of a submit, which some runtimes repeat in the answer.
        key: the idempotency key of a submit.
        fresh: the key was made for this call, so no earlier job has it.
        own_trace: the trace id was made for this call, so no earlier job has it.
        extensions: the ``extensions`` of the envelope, left out if there are none.
        trace: the telemetry of a submit.
        envelope_job: send ``job_id`` in the envelope as well.
        needs: the feature that it needs, if its kind alone does not tell.
        token: data of the caller; not used here.
        owner: the part of the session that sent it; None for a request of the application.
        resubscribe: first end the subscription that may still be bound to an earlier link.
        ids: the envelope ids with which it was sent, newest last.
        waits: it has not been sent on the current link.
        nonce: the nonce of a ping, which the pong repeats.
        session_id: the session in which the request was first sent.
        orphaned: its caller no longer waits. Its answer must not be attributed to another request.
        late: orphaned because it has timed out.
    """

    kind: str
    payload: Any
    deadline: float
    job_id: str | None = None
    trace_id: str | None = None
    key: str | None = None
    fresh: bool = False
    own_trace: bool = False
    extensions: Mapping[str, Any] | None = None
    trace: Any = None
    envelope_job: bool = False
    needs: str | None = None
    token: Any = None
    owner: Owner | None = None
    resubscribe: bool = False
    ids: list[str] = []
    waits: bool = True
    nonce: str | None = None
    session_id: str | None = None
    orphaned: bool = False
    late: bool = False

    def encode(self, session_id: str) -> bytes:
        """Encode the request with a new envelope id."""
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
            extensions=self.extensions or None,
        )

    @property
    def was_sent_before(self) -> bool:
        """Whether the request was sent over an earlier link, so its answer may be lost."""
        return len(self.ids) > 1 or (self.waits and bool(self.ids))

    @property
    def size(self) -> int:
        """Bytes of the payload of a submit; 0 for other requests, which are short."""
        return memoryview(self.payload).nbytes if isinstance(self.payload, msgspec.Raw) else 0

    @property
    def name(self) -> str:
        """The kind and the job of the request, for error texts."""
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
        """Add a request; the next flush sends it."""
        self._open[request] = None

    def remove(self, request: Request) -> bool:
        """Remove a request. False if it is not there."""
        self._late.pop(request, None)
        return self._open.pop(request, self) is None

    def withdraw(self, request: Request) -> None:
        """Note that the caller no longer waits. The answer of a sent request is still expected."""
        if request.waits:
            self.remove(request)
        elif request in self._open:
            request.orphaned = True

    def unsend(self) -> None:
        """Send each request again on the next link, if its caller still waits.

        Requests of other callers are dropped, because their answers are lost with the link.
        """
        for request in tuple(self._late):
            self.remove(request)
        for request in self:
            request.waits = True
            if request.orphaned:
                self.remove(request)

    def waiting(self) -> list[Request]:
        """The requests that have not been sent on the current link."""
        return [request for request in self if request.waits]

    def known(self) -> Iterator[Request]:
        """All requests, oldest first, including timed-out ones."""
        return iter(self._open)

    def sent(self) -> Iterator[Request]:
        """The requests that an answer which names no request may belong to, oldest first."""
        return (request for request in self.known() if not request.waits)

    def of(self, kind: str) -> Iterator[Request]:
        """The requests of one kind that were sent on the current link."""
        return (request for request in self.sent() if request.kind == kind)

    def about(self, job_id: str) -> Request | None:
        """The oldest request about a job that was sent on the current link."""
        return next((request for request in self.sent() if request.job_id == job_id), None)

    def named(self, envelope_id: str) -> Request | None:
        """The request that was sent under an envelope id."""
        return next((request for request in self.known() if envelope_id in request.ids), None)

    def largest(self) -> Request | None:
        """The submit with the longest payload on the current link."""
        submits = (r for r in self.of(names.SUBMIT) if not r.late)
        return max(submits, key=lambda request: request.size, default=None)

    def submitting(self) -> bool:
        """Whether a submit was sent on the current link."""
        return next(self.of(names.SUBMIT), None) is not None

    def asked(self) -> bool:
        """Whether any request except pings was sent on the current link."""
        return any(not r.waits and r.kind != names.PING for r in self)

    @property
    def deadline(self) -> float | None:
        """The earliest deadline."""
        return min([request.deadline for request in self._open], default=None)

    def expire(self, now: float) -> list[tuple[Request, RequestTimeout]]:
        """Return the requests that have timed out, with their errors. Call `keep` for each."""
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
        """Let a timed-out request accept a late answer."""
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
        """The timed-out requests that no barrier follows yet; each is returned once."""
        unasked = [request for request, asked in self._late.items() if not asked]
        self._late.update(dict.fromkeys(unasked, True))
        return unasked
