"""Describes how a runtime writes messages, and how it handles received messages.

A dialect states only the fields of its `Forms` that differ from the specification, as seen on the
wire or in the runtime's source. `arcp_client.testing.ScriptedRuntime` behaves accordingly. The
client does not use the forms.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from arcp_client._wire import names as wire
from arcp_client._wire.ids import new_id, now_text, parse_time

__all__ = ["Forms"]

_COUNT = itertools.count(1)
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_TRACE = re.compile(r"[0-9a-f]{32}")


class Forms(msgspec.Struct, frozen=True, kw_only=True):
    """The wire forms of one dialect; the defaults are the specification's.

    Attributes:
        ids: the form of envelope ids.
        sdk: ``runtime.sdk`` of the welcome; absent if empty.
        token: how resume tokens begin; if empty, they are UUIDs.
        flat_names: names of client and runtime are fields of the payload, not of an object in it.
        session_in_welcome: the payload of the welcome repeats the session id.
        session_of_client: a new session gets the id that the client proposed.
        lists_common_features: the welcome lists the common features, not the runtime's.
        always_heartbeat: the welcome states a heartbeat interval even if none was negotiated.
        resume_window: the resume window in seconds.
        agent_entry: what an entry of the inventory has besides the name.
        needs_session: which frames must have a session id: none, all, or all except the hello.
        needs_reasons: a cancel and a ``session.bye`` must state a reason.
        cancels_in: where a cancel must name its job.
        names_request: the field in which replies name their request; ``trace`` where they repeat
            its trace id.
        refuses: how a request is refused: by a plain ``session.error``; by one with a
            ``request_id``, or a ``reply_to``; by a ``job.error`` with the envelope id of the
            request; or by a ``job.error`` of a job, made up for a submit.
        error_fields: what an error has besides code, message and ``retryable``.
        refuses_late_cancel: a cancel of a job that has ended is refused.
        refuses_unknown: a message of an unknown type is refused.
        answers_unagreed: a listing is answered although listings were not negotiated.
        bad_token: what follows a refused token: an error, the end of the link, or both.
        bad_token_session: the session id in that error: none, the client's proposal, or a new one.
        resume_in: where a hello's resume block is looked for.
        resume_error: the code for a session that cannot be resumed.
        caught_up: whether a resume is accepted if the client has missed no event.
        rotates: whether each welcome has a new resume token.
        away: what happens to events of a job whose link is lost.
        follows: a resumed session receives the events of jobs that were submitted before.
        takes_subscriber: whether the submitting session may subscribe to its own job.
        doubles_own: whether a session that subscribes to its own job gets each event twice.
        acks_free: the stored events that the runtime deletes on an acknowledgement: none, those of
            the session's replay buffer, or those of job histories too.
        watched: how events of watched jobs are numbered.
        renames_copies: watchers receive events under new envelope ids.
        history_first: whether the history is sent before the confirmation.
        mixes_histories: a history is the logs of all sessions that received the job's events, one
            after the other.
        counts_replayed: whether ``replayed`` in a confirmation is a number.
        ended: the answer to a subscription to a job that has ended.
        lists_ended: whether listings include ended jobs.
        null_listing: an empty listing is null.
        short_entries: entries of a listing have ``submitted_at``, but neither lease nor number.
        makes_traces: a submit without a trace id gets one.
        says_traces: whether frames of a job have the trace id of its submit.
        lease_names: leases are granted by name, without patterns.
        omits_empty_lease: an acceptance without a lease has no ``lease``.
        budgets: the form of amounts.
        time_end: what follows the six decimals of the seconds in a time.
        times_events: events have a time.
        loud_levels: log levels are in capitals.
        result_name: the field of an inline result.
        last_chunk: how the last chunk is marked: by a field, by an empty chunk after it, or not at
            all.
        numbers_ends: whether terminal messages have a number.
        acks_cancel: whether ``job.cancelled`` is sent, and whether it has a number.
        ends_as_result: cancelled and timed-out jobs end with a ``job.result``.
        timed_out: how a confirmation spells that status.
        stored_ends: whether a repeated acceptance is followed by the job's end.
        closes: the messages that end a session.
        answers_close: by ``session.closed``; else the link ends without an answer.
        close_cancels: the end of a session cancels its jobs.
    """

    ids: Literal["ulid", "msg", "uuid"] = "ulid"
    sdk: str = ""
    token: str = "tok_"
    flat_names: bool = False
    session_in_welcome: bool = False
    session_of_client: bool = False
    lists_common_features: bool = False
    always_heartbeat: bool = False
    resume_window: int = 600
    agent_entry: Mapping[str, Any] = msgspec.field(default_factory=lambda: {"versions": []})
    needs_session: Literal["none", "all", "all but the hello"] = "none"
    needs_reasons: bool = False
    cancels_in: Literal["payload", "envelope"] = "payload"
    names_request: Literal["request_id", "reply_to", "trace"] = "trace"
    refuses: Literal["plain", "request_id", "reply_to", "same id", "job"] = "plain"
    error_fields: Mapping[str, Any] = {}
    refuses_late_cancel: bool = False
    refuses_unknown: bool = True
    answers_unagreed: bool = True
    bad_token: Literal["error, close", "error", "close"] = "error, close"
    bad_token_session: Literal["none", "proposed", "new"] = "none"
    resume_in: Literal["resume", "top", "token"] = "resume"
    resume_error: str = wire.RESUME_WINDOW_EXPIRED
    caught_up: bool = True
    rotates: bool = True
    away: Literal["logged", "lost", "dies"] = "logged"
    follows: bool = True
    takes_subscriber: bool = True
    doubles_own: bool = False
    acks_free: Literal["nothing", "resumes", "histories"] = "nothing"
    watched: Literal["session", "own", "submitter"] = "session"
    renames_copies: bool = False
    history_first: bool = False
    mixes_histories: bool = False
    counts_replayed: bool = False
    ended: Literal["end", "no end", "JOB_NOT_FOUND", "PERMISSION_DENIED"] = "end"
    lists_ended: bool = True
    null_listing: bool = False
    short_entries: bool = False
    makes_traces: bool = False
    says_traces: bool = True
    lease_names: bool = False
    omits_empty_lease: bool = False
    budgets: Literal["numbers", "texts"] = "numbers"
    time_end: str = "Z"
    times_events: bool = True
    loud_levels: bool = False
    result_name: str = "result"
    last_chunk: Literal["itself", "empty", "none"] = "itself"
    numbers_ends: bool = True
    acks_cancel: Literal["plain", "numbered", "no"] = "plain"
    ends_as_result: bool = False
    timed_out: str = wire.TIMED_OUT
    stored_ends: bool = False
    closes: frozenset[str] = frozenset({wire.CLOSE})
    answers_close: bool = True
    close_cancels: bool = False

    # -- identifiers

    def envelope_id(self) -> str:
        """Make an envelope id."""
        match self.ids:
            case "msg":
                return f"msg_{new_id()}"
            case "uuid":
                return str(uuid.uuid4())
            case _:
                return new_id()

    def resume_token(self) -> str:
        """Make a resume token; its form distinguishes some runtimes."""
        return f"{self.token}{new_id()}" if self.token else str(uuid.uuid4())

    # -- payloads

    def welcome(
        self, name: str, session_id: str, token: str, features: list[str], offered: list[str]
    ) -> dict[str, Any]:
        """Make the payload of ``session.welcome``, without the agents."""
        common = [feature for feature in features if feature in offered]
        listed = common if self.lists_common_features else features
        payload: dict[str, Any] = {
            "resume_token": token,
            "resume_window_sec": self.resume_window,
            "capabilities": {"encodings": ["json"], "features": listed},
        }
        if self.flat_names:
            payload |= {"runtime_name": name, "runtime_version": "1"}
        else:
            payload["runtime"] = {"name": name, "version": "1"}
        if self.sdk:
            payload["runtime"]["sdk"] = self.sdk
        if wire.HEARTBEAT in common or self.always_heartbeat:
            payload["heartbeat_interval_sec"] = 30
        if self.session_in_welcome:
            payload |= {"session_id": session_id, "accepted_at": now_text()}
        return payload

    def agent(self, name: str) -> Any:
        """Make an entry of the inventory."""
        return {"name": name, **self.agent_entry}

    def lease(self, submit: Mapping[str, Any]) -> dict[str, Any]:
        """Make the fields of an acceptance for lease, constraints and budget."""
        request = submit.get("lease_request") or {}
        if self.lease_names:
            granted = {"id": f"lse_{new_id()}", "capabilities": [], "issued_at": now_text()}
            bounds = {k: request[k] for k in (wire.BUDGETS, wire.MODEL_USE) if k in request}
            return {"lease": granted | bounds}
        told: dict[str, Any] = {}
        if request or not self.omits_empty_lease:
            told["lease"] = request
        if submit.get("lease_constraints"):
            told["lease_constraints"] = submit["lease_constraints"]
        if request.get(wire.BUDGETS):
            told["budget"] = dict(self._amounts(request[wire.BUDGETS]))
        return told

    def _amounts(self, budgets: list[str]) -> Iterator[tuple[str, Any]]:
        for entry in budgets:
            currency, _, amount = entry.partition(":")
            yield currency, entry if self.budgets == "texts" else float(amount)

    def event(self, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make the payload of ``job.event``."""
        written = dict(body)
        if kind == "log" and self.loud_levels:
            written["level"] = str(written.get("level", "info")).upper()
        if not self.times_events:
            return {"kind": kind, "body": written}
        return {"kind": kind, "ts": self.time(), "body": written}

    def time(self) -> str:
        """Return the current time, with a unique fraction."""
        return f"{now_text()[:19]}.{next(_COUNT):06d}{self.time_end}"

    def error(self, code: str, message: str) -> dict[str, Any]:
        """Make the payload of an error."""
        retryable = code in wire.RETRYABLE_BY_DEFAULT
        return {"code": code, "message": message, "retryable": retryable, **self.error_fields}

    def entry(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Make an entry of a listing."""
        if self.short_entries:
            facts["submitted_at"] = facts.pop("created_at")
            for name in ("lease", "last_event_seq"):
                facts.pop(name)
        return facts

    # -- what it insists on

    def objection(self, frame: Mapping[str, Any]) -> str | None:
        """Return why a runtime of the dialect rejects a frame; ``None`` if it accepts the frame."""
        kind, payload = frame.get("type"), frame.get("payload")
        if frame.get("arcp") != wire.PROTOCOL:
            return "arcp is not 1.1"
        if not isinstance(payload, Mapping):
            return "the payload is not an object"
        if not _ULID.fullmatch(str(frame.get("id"))):
            return "the id is not a ULID"
        trace_id = str(frame.get("trace_id"))
        if "trace_id" in frame and not (_TRACE.fullmatch(trace_id) and int(trace_id, 16)):
            return "the trace_id is not 32 hexadecimal digits"
        if any(value is None for key, value in payload.items() if key != "input"):
            return "the payload holds a null"
        exempt = self.needs_session == "all but the hello" and kind == wire.HELLO
        needs_session = self.needs_session != "none" and not exempt
        if needs_session and not isinstance(frame.get("session_id"), str):
            return "the session_id is missing"
        check = _CHECKS.get(str(kind))
        return check(self, frame, payload) if check is not None else None


def _hello(forms: Forms, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    if forms.flat_names:
        named = payload.get("client_name") and payload.get("client_version")
    else:
        client = payload.get("client", {})
        named = client.get("name") and client.get("version")
    return None if named else "the client has no name"


def _submit(forms: Forms, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    return None if "input" in payload else "the input is missing"


def _cancel(forms: Forms, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    if forms.needs_reasons and not payload.get("reason"):
        return "the reason is missing"
    place = payload if forms.cancels_in == "payload" else frame
    return None if place.get("job_id") else "the job_id is missing"


def _subscribe(forms: Forms, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    return None if payload.get("job_id") else "the job_id is missing"


def _bye(forms: Forms, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    return "the reason is missing" if forms.needs_reasons and not payload.get("reason") else None


def _ping(forms: Forms, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    fine = isinstance(payload.get("nonce"), str) and parse_time(payload.get("sent_at"))
    return None if fine else "nonce or sent_at cannot be read"


_Check = Callable[[Forms, Mapping[str, Any], Mapping[str, Any]], str | None]
_CHECKS: Final[Mapping[str, _Check]] = {
    wire.HELLO: _hello,
    wire.SUBMIT: _submit,
    wire.CANCEL: _cancel,
    wire.SUBSCRIBE: _subscribe,
    wire.BYE: _bye,
    wire.PING: _ping,
}
