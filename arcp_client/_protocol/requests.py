"""Keeps the requests that wait for an answer: deadlines and re-sending (S6, S7, S14).

A request is an intent: it stays here until it is answered, refused or out of time, and goes out
again on every new link, under a fresh envelope id and with the same payload. `Correlation` finds
the request of an answer among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from arcp_client._wire import dialect
from arcp_client._wire.codec import encode
from arcp_client._wire.ids import new_id
from arcp_client.errors import RequestTimeout

__all__ = ["Request", "Requests"]

LATE: Final = 60.0
"""Seconds in which a request whose time is over still takes its answer."""
MOST_LATE: Final = 256
"""How many such requests are kept."""


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
        ids: the envelope ids it was sent under, newest last.
        waits: it is not on the present link yet.
        nonce: of a ping, or of the ping that follows it; the pong names it.
        session_id: the session in which it was sent first.
        orphaned: nobody waits for the answer, but it is still to come and must not be taken for
            another one's.
        late: so it is because its time is over.
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


class Requests:
    """The requests that wait for an answer, oldest first."""

    def __init__(self) -> None:
        self._open: dict[Request, None] = {}
        self._late: dict[Request, str | None] = {}

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
        """Nobody waits for it any more. What was sent is still to be answered."""
        if request.waits:
            self.remove(request)
        elif request in self._open:
            request.orphaned = True

    def unsend(self) -> None:
        """The link is gone: everything that somebody waits for goes out again on the next one.

        An answer that was late is lost with it.
        """
        for request in tuple(self._late):
            self.remove(request)
        for request in self:
            request.waits = True
            if request.orphaned:
                self.remove(request)

    def ready(self, *, one_at_a_time: bool) -> list[Request]:
        """What may go out now.

        Where refusals name no request, only one may be on its way; pings name theirs always.
        """
        there = [request for request in self._open if not request.late]
        if not one_at_a_time:
            return [request for request in there if request.waits]
        chosen = [r for r in there if r.waits and r.kind == dialect.PING]
        others = [r for r in there if r.kind != dialect.PING]
        if others and all(request.waits for request in others):
            chosen.append(others[0])
        return chosen

    @property
    def deadline(self) -> float | None:
        """The earliest deadline."""
        return min((request.deadline for request in self._open), default=None)

    def expire(self, now: float) -> list[tuple[Request, RequestTimeout]]:
        """What is out of time, each to be given to `keep` once that was told."""
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
        """A request that is out of time takes its answer, should that come after all."""
        if request.waits or request.kind == dialect.PING:
            self.remove(request)
        if request not in self._open:
            return
        request.late = request.orphaned = True
        request.deadline += LATE
        self._late[request] = None
        if len(self._late) > MOST_LATE:
            self.remove(next(iter(self._late)))

    @property
    def unasked(self) -> list[Request]:
        """The late ones of which it is not known whether the runtime has read on."""
        return [request for request, mark in self._late.items() if mark is None]

    def asked_with(self, mark: str) -> None:
        """A ping went out behind them, with this nonce."""
        self._late.update(dict.fromkeys(self.unasked, mark))

    def read(self, nonce: object) -> bool:
        """A pong came; whether it was one of these.

        What the runtime read before it is answered, or will not be: an answer that names nothing
        is no longer theirs.
        """
        read = [request for request, mark in self._late.items() if mark and mark == nonce]
        for request in read:
            request.waits = True
        return bool(read)

    # -- what there is, oldest first

    def known(self) -> Iterator[Request]:
        """All of them, with those that take a late answer."""
        return iter(self._open)

    def sent(self) -> Iterator[Request]:
        """Those that an answer which names nothing may be meant for."""
        return (request for request in self.known() if not request.waits)

    def about(self, job_id: str) -> Request | None:
        """The oldest request on its way that is about a job."""
        return next((request for request in self.sent() if request.job_id == job_id), None)

    def largest(self) -> Request | None:
        """The submit on its way with the longest payload."""
        submits = (r for r in self if not r.waits and r.kind == dialect.SUBMIT)
        return max(submits, key=lambda request: request.size, default=None)

    def submitting(self) -> bool:
        """Whether a submit is on its way."""
        return any(request.kind == dialect.SUBMIT for request in self.sent())

    def asked(self) -> bool:
        """Whether anything but a ping is on its way."""
        return any(not r.waits and r.kind != dialect.PING for r in self)
