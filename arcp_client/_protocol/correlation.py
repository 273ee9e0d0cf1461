"""Decides which request an answer belongs to (§6.6, §7).

An answer may name its request: by an envelope id, a trace id, a job id or a nonce. Such an answer
belongs to the named request or to none. Any other answer belongs to the oldest request that it can
answer; for example, the acceptance of a job belongs to the oldest submit for the job's agent.
Timed-out requests count too. Otherwise a late answer would be taken for the answer to a newer
request.

See rule S14 in docs/explanation/rules.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from arcp_client._protocol.jobs import Jobs
from arcp_client._protocol.pending import PendingRequests, Request
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.replies import reply_to

__all__ = ["Correlation"]

_ANSWERS: Final = {
    names.ACCEPTED: names.SUBMIT,
    names.SUBSCRIBED: names.SUBSCRIBE,
    names.JOBS: names.LIST_JOBS,
    names.CANCELLED: names.CANCEL,
    names.PONG: names.PING,
    names.ANSWER_TAKEN: names.ANSWER,
    names.QUESTIONS: names.LIST_QUESTIONS,
    names.QUEUED: names.SEND,
}
_REFUSED_BY: Final = {
    names.DUPLICATE_KEY: frozenset({names.SUBMIT}),
    names.AGENT_NOT_AVAILABLE: frozenset({names.SUBMIT}),
    names.AGENT_VERSION_NOT_AVAILABLE: frozenset({names.SUBMIT}),
    names.LEASE_SUBSET_VIOLATION: frozenset({names.SUBMIT}),
    names.JOB_NOT_FOUND: frozenset({names.SUBMIT, names.SUBSCRIBE, names.CANCEL}),
}
"""The requests that an error with this code can answer."""


class _Named(msgspec.Struct):
    agent: str = ""


class Correlation:
    """Finds the request of an answer.

    Args:
        requests: the pending and the timed-out requests.
        jobs: the jobs that the session knows.
    """

    def __init__(self, requests: PendingRequests, jobs: Jobs) -> None:
        self._requests = requests
        self._jobs = jobs

    def answered_by(self, frame: ControlFrame) -> Request | None:
        """The request that an acceptance, a page, a confirmation or a pong answers."""
        kind = _ANSWERS[frame.type]
        named = reply_to(frame)
        if named is not None:
            return self._requests.named(named)
        sent = [request for request in self._requests.sent() if request.kind == kind]
        if kind == names.SUBMIT:
            return self._accepted(frame, sent)
        if kind == names.PING:
            nonce = frame.payload.get("ping_nonce")
            if nonce:
                return _first(r for r in self._requests.sent() if r.nonce == nonce)
        elif kind not in (names.LIST_JOBS, names.LIST_QUESTIONS):
            job_id = _job_of(frame)
            return _first(request for request in sent if request.job_id == job_id)
        return _first(sent)

    def _accepted(self, frame: ControlFrame, sent: list[Request]) -> Request | None:
        # A repeated acceptance has the payload of the first one, and so its trace (§7.2); its
        # envelope has that of the submit it answers.
        traces = [t for t in (frame.trace_id, names.text_of(frame.payload.get("trace_id"))) if t]
        for trace_id in traces:
            traced = self._traced(trace_id)
            if traced is not None:
                return traced
        if traces:  # some runtimes make a trace for a submit that has none
            sent = [request for request in sent if request.trace_id is None]
        job = self._jobs.get(_job_of(frame))
        if job is not None and job.submitted and job.key is not None:
            sent = [request for request in sent if request.key == job.key]  # a repeated acceptance
        agent = names.text_of(frame.payload.get("agent"))
        if agent:
            sent = [r for r in sent if _runs(r.payload, agent)] or sent
        return _first(sent)

    def refused_by(self, frame: ControlFrame) -> Request | None:
        """The request that an error answers. A ping cannot be refused."""
        named = self.named_by(frame)
        if named is not None or reply_to(frame) is not None:
            return named
        trace_id, job_id = _trace_of(frame), _job_of(frame)
        traced = self._traced(trace_id) if trace_id is not None else None
        if traced is not None:
            return traced
        code = frame.payload.get("code") or ""
        kinds = _REFUSED_BY.get(code)
        plausible = [
            request
            for request in self._requests.sent()
            if (request.kind in kinds if kinds else request.kind != names.PING)
        ]
        if job_id is None:
            return None if trace_id is not None else _first(plausible)
        about = _first(request for request in plausible if request.job_id == job_id)
        if about is not None or trace_id is not None:
            return about
        return self._disguised(frame, code, job_id, plausible)

    def _disguised(
        self, frame: ControlFrame, code: str, job_id: str, plausible: list[Request]
    ) -> Request | None:
        """The submit that is refused by an error which names a job.

        Some runtimes refuse a submit by a ``job.error``. Its job is an earlier one with the same
        key, or has an id that was made up for the refusal.
        """
        submits = [request for request in plausible if request.kind == names.SUBMIT]
        job = self._jobs.get(job_id)
        if code == names.DUPLICATE_KEY:
            same = [request for request in submits if job is not None and request.key == job.key]
            return _first(same or submits)
        known = job is not None or self._jobs.has_ended(job_id)
        return None if known or frame.type != names.JOB_ERROR else _first(submits)

    def named_by(self, frame: ControlFrame) -> Request | None:
        """The request whose envelope id a frame names, or has itself if it names none."""
        return self._requests.named(reply_to(frame) or frame.id)

    def _traced(self, trace_id: str) -> Request | None:
        submits = (r for r in self._requests.known() if r.kind == names.SUBMIT)
        return _first(r for r in submits if r.trace_id == trace_id)


def _trace_of(frame: ControlFrame) -> str | None:
    return frame.payload.get("trace_id") or frame.trace_id or None


def _job_of(frame: ControlFrame) -> str | None:
    return frame.payload.get("job_id") or frame.job_id or None


def _runs(payload: object, agent: str) -> bool:
    """Whether a submit asks for this agent. Versions are compared if both name one."""
    try:
        asked = msgspec.json.decode(msgspec.json.encode(payload), type=_Named)
    except msgspec.MsgspecError:
        return False
    name, _, version = asked.agent.partition("@")
    other, _, resolved = agent.partition("@")
    return name == other and (not version or not resolved or version == resolved)


def _first(found: Iterable[Request]) -> Request | None:
    return next(iter(found), None)
