"""Requests in, answers matched to them out: correlation, deadlines, re-sending (S6, S7).

A request is an intent: it stays here until it is answered, refused or out of time, and goes out
again on every new link, under a fresh envelope id and with the same payload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from arcp_client._wire import dialect
from arcp_client._wire.codec import ControlFrame, encode
from arcp_client._wire.ids import new_id
from arcp_client._wire.replies import reply_to
from arcp_client.errors import RequestTimeout

__all__ = ["Request", "Requests"]

_ANSWERS = {
    dialect.ACCEPTED: dialect.SUBMIT,
    dialect.SUBSCRIBED: dialect.SUBSCRIBE,
    dialect.JOBS: dialect.LIST_JOBS,
    dialect.CANCELLED: dialect.CANCEL,
    dialect.PONG: dialect.PING,
}
_REFUSED_BY: Final = {
    dialect.DUPLICATE_KEY: frozenset({dialect.SUBMIT}),
    dialect.AGENT_NOT_AVAILABLE: frozenset({dialect.SUBMIT}),
    dialect.AGENT_VERSION_NOT_AVAILABLE: frozenset({dialect.SUBMIT}),
    dialect.LEASE_SUBSET_VIOLATION: frozenset({dialect.SUBMIT}),
    dialect.JOB_NOT_FOUND: frozenset({dialect.SUBMIT, dialect.SUBSCRIBE, dialect.CANCEL}),
}
"""What an error can be the answer to, where its code tells."""


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

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Request]:
        return iter(tuple(self._open))

    def __contains__(self, request: Request) -> bool:
        return request in self._open

    def add(self, request: Request) -> None:
        """Take it in; it goes out with the next `ready`."""
        self._open[request] = None

    def remove(self, request: Request) -> bool:
        """It has ended; False if it had ended before."""
        return self._open.pop(request, self) is None

    def withdraw(self, request: Request) -> None:
        """Nobody waits for it any more. What was sent is still to be answered."""
        if request.waits:
            self.remove(request)
        elif request in self._open:
            request.orphaned = True

    def unsend(self) -> None:
        """The link is gone: everything that somebody waits for goes out again on the next one."""
        for request in self:
            request.waits = True
            if request.orphaned:
                self.remove(request)

    def ready(self, *, one_at_a_time: bool) -> list[Request]:
        """What may go out now.

        Where refusals name no request, only one may be on its way; pings name theirs always.
        """
        if not one_at_a_time:
            return [request for request in self._open if request.waits]
        chosen = [r for r in self._open if r.waits and r.kind == dialect.PING]
        others = [r for r in self._open if r.kind != dialect.PING]
        if others and all(request.waits for request in others):
            chosen.append(others[0])
        return chosen

    @property
    def deadline(self) -> float | None:
        """The earliest deadline."""
        return min((request.deadline for request in self._open), default=None)

    def expire(self, now: float) -> list[tuple[Request, RequestTimeout]]:
        """Take out what is out of time."""
        late = [request for request in self._open if request.deadline <= now]
        for request in late:
            del self._open[request]
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

    # -- whose answer is it

    def answered_by(self, frame: ControlFrame) -> Request | None:
        """The request that an acceptance, a page, a confirmation or a pong answers.

        By the id that the frame names, else by what it echoes, else the oldest of that kind.
        """
        kind = _ANSWERS[frame.type]
        named = reply_to(frame)
        if named is not None:
            return self._by_id(named)
        if kind == dialect.PING:
            nonce = frame.payload.get("ping_nonce")
            if not nonce:
                return self._first(self._of(kind))
            return self._first(r for r in self._sent() if r.nonce == nonce)
        job_id = frame.payload.get("job_id") or frame.job_id
        if kind in (dialect.SUBSCRIBE, dialect.CANCEL):
            return self._first(r for r in self._of(kind) if r.job_id == job_id)
        if kind == dialect.SUBMIT:
            return self._echoed(frame) or self._first(self._of(kind))
        return self._first(self._of(kind))

    def refused_by(self, frame: ControlFrame) -> Request | None:
        """The request that an error answers.

        By the id that it names, else by its own, if that is a request's; else by the trace or the
        job that it names; else the oldest that such an error can answer. Pings are not refused.
        """
        if reply_to(frame) is not None or self._by_id(frame.id) is not None:
            return self.named_by(frame)
        kinds = _REFUSED_BY.get(frame.payload.get("code") or "")
        plausible = [
            r for r in self._sent() if (r.kind in kinds if kinds else r.kind != dialect.PING)
        ]
        job_id = frame.payload.get("job_id") or frame.job_id
        return (
            self._echoed(frame)
            or self._first(r for r in plausible if job_id is not None and r.job_id == job_id)
            or self._first(plausible)
        )

    def named_by(self, frame: ControlFrame) -> Request | None:
        """The request whose id a frame names, or, if it names none, bears itself."""
        return self._by_id(reply_to(frame) or frame.id)

    def about(self, job_id: str) -> Request | None:
        """The oldest request on its way that is about a job."""
        return self._first(r for r in self._sent() if r.job_id == job_id)

    def largest(self) -> Request | None:
        """The submit on its way with the longest payload."""
        return max(self._of(dialect.SUBMIT), key=lambda request: request.size, default=None)

    def submitting(self) -> bool:
        """Whether a submit is on its way."""
        return self._first(self._of(dialect.SUBMIT)) is not None

    def asked(self) -> bool:
        """Whether anything but a ping is on its way."""
        return self._first(r for r in self._sent() if r.kind != dialect.PING) is not None

    def _by_id(self, envelope_id: str) -> Request | None:
        return self._first(r for r in self._open if envelope_id and envelope_id in r.ids)

    def _echoed(self, frame: ControlFrame) -> Request | None:
        trace_id = frame.payload.get("trace_id") or frame.trace_id
        if trace_id is None:
            return None
        return self._first(r for r in self._of(dialect.SUBMIT) if r.trace_id == trace_id)

    def _of(self, kind: str) -> Iterator[Request]:
        return (request for request in self._sent() if request.kind == kind)

    def _sent(self) -> Iterator[Request]:
        return (request for request in self._open if not request.waits)

    @staticmethod
    def _first(found: Iterable[Request]) -> Request | None:
        return next(iter(found), None)
