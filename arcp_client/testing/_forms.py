"""The forms in which each public runtime writes its frames, by the name of its dialect.

The differences are those of the published runtimes, as they were seen on the wire or in their
sources. ``spec`` is what the specification says and no more; ``legacy`` is the older family, which
shares the version number and nothing else.
"""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from arcp_client._wire import names as wire
from arcp_client._wire.ids import new_id, now_text, parse_time

__all__ = ["FORMS", "Forms", "objection"]

_COUNT = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Forms:
    """How one dialect speaks; the defaults are the specification's.

    Attributes:
        name: of the dialect.
        ids: how envelope ids are made.
        names_request: the field in which replies name their request; ``trace`` and ``id`` for
            those that repeat the request's trace or id in the envelope, ``none`` for nothing.
        errors: how requests are refused.
        bad_token: what becomes of a link whose token is refused.
        resume_in: where the hello's resume block is looked for.
        resume_error: the code for a session that cannot be resumed.
        away: what becomes of events of a job whose link is gone.
        follows: a resumed session gets the events of jobs that were submitted before.
        takes_subscriber: the submitting session may subscribe to its own job.
        doubles_own: a subscription to one's own job brings each of its events a second time.
        acks_free: what an acknowledgement frees: what a resume could bring, and what histories
            are made of as well.
        caught_up: a resume that missed nothing is taken.
        rotates: each welcome has a new resume token.
        watched: how events of watched jobs are numbered.
        renames_copies: watchers get events under envelope ids of their own.
        history_first: the history comes before the confirmation.
        mixes_histories: a history is the logs of all sessions that have the job's events, one
            after the other.
        ended: what becomes of a subscription to a job that has ended.
        lists_ended: listings have jobs that have ended.
        result_name: where an inline result is.
        numbers_ends: terminal messages have a number.
        acks_cancel: whether ``job.cancelled`` is sent, and with a number or without.
        ends_as_result: cancelled and timed-out jobs come as ``job.result``.
        closes: the messages that end a session.
        answers_close: with ``session.closed``; else the link just ends.
        close_cancels: ending a session cancels its jobs.
        last_chunk: how the last chunk is marked: in itself, by an empty one after it, or not.
        budgets: how amounts are written.
        stored_ends: the end of a job is sent again with a repeated acceptance.
        refuses_unknown: a message of a type that it does not know is an error.
    """

    name: str
    ids: Literal["ulid", "msg", "uuid"] = "ulid"
    names_request: Literal["request_id", "reply_to", "trace", "none"] = "trace"
    errors: Literal["plain", "typescript", "java", "go", "ruby"] = "plain"
    bad_token: Literal["error, close", "error", "close"] = "error, close"
    resume_in: Literal["resume", "top", "token"] = "resume"
    resume_error: str = wire.RESUME_WINDOW_EXPIRED
    away: Literal["logged", "lost", "dies"] = "logged"
    follows: bool = True
    takes_subscriber: bool = True
    doubles_own: bool = False
    acks_free: Literal["nothing", "resumes", "histories"] = "nothing"
    caught_up: bool = True
    rotates: bool = True
    watched: Literal["session", "own", "submitter"] = "session"
    renames_copies: bool = False
    history_first: bool = False
    mixes_histories: bool = False
    ended: Literal["end", "no end", "JOB_NOT_FOUND", "PERMISSION_DENIED"] = "end"
    lists_ended: bool = True
    result_name: str = "result"
    numbers_ends: bool = True
    acks_cancel: Literal["plain", "numbered", "no"] = "plain"
    ends_as_result: bool = False
    closes: frozenset[str] = frozenset({wire.CLOSE})
    answers_close: bool = True
    close_cancels: bool = False
    last_chunk: Literal["itself", "empty", "none"] = "itself"
    budgets: Literal["numbers", "texts"] = "numbers"
    stored_ends: bool = False
    refuses_unknown: bool = True

    # -- identifiers

    def envelope_id(self) -> str:
        """A fresh one."""
        match self.ids:
            case "msg":
                return f"msg_{new_id()}"
            case "uuid":
                return str(uuid.uuid4())
            case _:
                return new_id()

    def resume_token(self) -> str:
        """A fresh one, by whose form some runtimes are told apart."""
        match self.name:
            case "python":
                return f"rtk_{new_id()}"
            case "typescript":
                return f"rt_{uuid.uuid4().hex}"
            case "java":
                return str(uuid.uuid4())
            case _:
                return f"tok_{new_id()}"

    # -- payloads

    def welcome(
        self, session_id: str, token: str, features: list[str], offered: list[str]
    ) -> dict[str, Any]:
        """Of ``session.welcome``, without the agents."""
        common = [name for name in features if name in offered]
        listed = common if self.name in ("typescript", "java", "go", "ruby") else features
        payload: dict[str, Any] = {
            "runtime": {"name": f"scripted-{self.name}", "version": "1"},
            "resume_token": token,
            "resume_window_sec": 300 if self.name == "ruby" else 600,
            "capabilities": {"encodings": ["json"], "features": listed},
        }
        if wire.HEARTBEAT in common or self.name in ("go", "ruby"):
            payload["heartbeat_interval_sec"] = 30
        if self.name == "python":
            payload |= {"session_id": session_id, "accepted_at": now_text()}
        if self.name == "ruby":
            named = payload.pop("runtime")
            payload |= {"runtime_name": named["name"], "runtime_version": named["version"]}
        return payload

    def agent(self, name: str) -> Any:
        """An entry of the inventory."""
        match self.name:
            case "csharp":
                return {"name": name}
            case "go":
                return {"name": name, "bare": True}
            case _:
                return {"name": name, "versions": []}

    def lease(self, submit: Mapping[str, Any]) -> dict[str, Any]:
        """What an acceptance says about lease, constraints and budget."""
        request = submit.get("lease_request") or {}
        if self.name == "ruby":
            granted = {"id": f"lse_{new_id()}", "capabilities": [], "issued_at": now_text()}
            return {"lease": granted | {k: request[k] for k in _RUBY_LEASES if k in request}}
        told: dict[str, Any] = {} if self.name == "go" and not request else {"lease": request}
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
        """Of ``job.event``."""
        written = dict(body)
        if kind == "log" and self.name == "go":
            written["level"] = str(written.get("level", "info")).upper()
        if self.name == "ruby":
            return {"kind": kind, "body": written}
        return {"kind": kind, "ts": self.time(), "body": written}

    def time(self) -> str:
        """The present moment, with a fraction that is never the same."""
        digits = f"{next(_COUNT):06d}"
        whole = now_text()[:19]
        match self.name:
            case "csharp":
                return f"{whole}.{digits}0+00:00"
            case "go":
                return f"{whole}.{digits}000+00:00"
            case _:
                return f"{whole}.{digits}Z"

    def error(self, code: str, message: str) -> dict[str, Any]:
        """Code, text and what else an error has."""
        payload: dict[str, Any] = {
            "code": code,
            "message": message,
            "retryable": code in wire.RETRYABLE_BY_DEFAULT,
        }
        match self.name:
            case "python":
                payload["details"] = None
            case "csharp":
                payload["detail"] = "of no interest"
        return payload

    def entry(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Of a listing."""
        if self.name == "python":
            facts["submitted_at"] = facts.pop("created_at")
            for name in ("lease", "last_event_seq"):
                facts.pop(name)
        return facts


_RUBY_LEASES = (wire.BUDGETS, wire.MODEL_USE)
_BOTH = frozenset({wire.CLOSE, wire.BYE})
_BYE = frozenset({wire.BYE})

FORMS: Final[Mapping[str, Forms]] = {
    forms.name: forms
    for forms in (
        Forms(name="spec"),
        Forms(
            name="python",
            names_request="request_id",
            resume_error=wire.PERMISSION_DENIED,
            away="lost",
            follows=False,
            watched="own",
            acks_free="histories",
            renames_copies=True,
            history_first=True,
            acks_cancel="no",
            ends_as_result=True,
            closes=_BYE,
            answers_close=False,
            last_chunk="empty",
            budgets="texts",
            stored_ends=True,
        ),
        Forms(
            name="typescript",
            ids="msg",
            errors="typescript",
            bad_token="error",
            away="dies",
            follows=False,
            caught_up=False,
            renames_copies=True,
            history_first=True,
            ended="JOB_NOT_FOUND",
            lists_ended=False,
            closes=_BYE,
            answers_close=False,
            last_chunk="empty",
        ),
        Forms(
            name="csharp",
            ids="msg",
            bad_token="error",
            resume_in="top",
            follows=False,
            takes_subscriber=False,
            acks_free="resumes",
            ended="no end",
            closes=_BOTH,
            refuses_unknown=False,
        ),
        Forms(
            name="java",
            errors="java",
            bad_token="close",
            resume_in="top",
            rotates=False,
            renames_copies=True,
            ended="no end",
            acks_cancel="numbered",
            closes=_BOTH,
            close_cancels=True,
        ),
        Forms(
            name="go",
            ids="uuid",
            errors="go",
            mixes_histories=True,
            doubles_own=True,
            acks_free="histories",
            ended="JOB_NOT_FOUND",
            lists_ended=False,
            result_name="output",
            acks_cancel="numbered",
            last_chunk="empty",
        ),
        Forms(
            name="ruby",
            ids="uuid",
            names_request="reply_to",
            errors="ruby",
            resume_in="token",
            follows=False,
            acks_free="resumes",
            watched="submitter",
            history_first=True,
            ended="PERMISSION_DENIED",
            numbers_ends=False,
            closes=_BYE,
            answers_close=False,
            last_chunk="none",
            refuses_unknown=False,
        ),
        Forms(name="legacy"),
    )
}


# ------------------------------------------------------------------ what each one insists on

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_TRACE = re.compile(r"[0-9a-f]{32}")


def objection(name: str, frame: Mapping[str, Any]) -> str | None:
    """Why a runtime of that dialect cannot take this frame; ``None`` if it can."""
    kind, payload = frame.get("type"), frame.get("payload")
    if frame.get("arcp") != wire.PROTOCOL:
        return "arcp is not 1.1"
    if not isinstance(payload, Mapping):
        return "the payload is no object"
    if not _ULID.fullmatch(str(frame.get("id"))):
        return "the id is no ULID"
    trace_id = str(frame.get("trace_id"))
    if "trace_id" in frame and not (_TRACE.fullmatch(trace_id) and int(trace_id, 16)):
        return "the trace_id is not 32 hexadecimal digits"
    if any(value is None for key, value in payload.items() if key != "input"):
        return "the payload holds a null"
    needs_session = name == "ruby" or (name == "typescript" and kind != wire.HELLO)
    if needs_session and not isinstance(frame.get("session_id"), str):
        return "the session_id is missing"
    check = _CHECKS.get(str(kind))
    return check(name, frame, payload) if check is not None else None


def _hello(name: str, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    if name == "ruby":
        named = payload.get("client_name") and payload.get("client_version")
    else:
        client = payload.get("client", {})
        named = client.get("name") and client.get("version")
    return None if named else "the client has no name"


def _submit(name: str, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    return None if "input" in payload else "the input is missing"


def _cancel(name: str, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    if name == "python" and not payload.get("reason"):
        return "the reason is missing"
    place = payload if name in ("csharp", "ruby", "spec") else frame
    return None if place.get("job_id") else "the job_id is missing"


def _subscribe(name: str, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    return None if payload.get("job_id") else "the job_id is missing"


def _bye(name: str, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    return None if name != "python" or payload.get("reason") else "the reason is missing"


def _ping(name: str, frame: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    fine = isinstance(payload.get("nonce"), str) and parse_time(payload.get("sent_at"))
    return None if fine else "nonce or sent_at cannot be read"


_CHECKS = {
    wire.HELLO: _hello,
    wire.SUBMIT: _submit,
    wire.CANCEL: _cancel,
    wire.SUBSCRIBE: _subscribe,
    wire.BYE: _bye,
    wire.PING: _ping,
}
