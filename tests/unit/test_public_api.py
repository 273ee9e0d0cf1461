"""The public surface, written down once more: names, parameters, defaults, fields, codes.

Whoever changes one of these changes programs of others. Then this file changes with it, and
CHANGELOG.md says so.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from typing import Any

import pytest
from tenacity import stop_never, wait_random_exponential
from typer.main import get_command

import arcp_client
from arcp_client import (
    acp,
    errors,
    events,
    projection,
    runtime,
    rx,
    state,
    testing,
    transcripts,
    web,
)
from arcp_client.cli.app import parser
from arcp_client.cli.exit_codes import Exit

MIB = 1024 * 1024

# ------------------------------------------------------------------------- calls

CALLS: dict[Any, dict[str, str]] = {
    arcp_client.Client: {
        "answer": "async (job_id, question_id, value, *, idempotency_key=None, timeout=None)",
        "inbox": "aiter (*, timeout=None)",
        "questions": "aiter (*, timeout=None)",
        "__init__": "(target, *, token=None, info=None, features=None, order=Order.SESSION,"
        " buffer=Buffer(), reconnect=Reconnect(), store=None, key='default',"
        " timeouts=Timeouts(), dialect=None, handler_timeout=None,"
        " telemetry=None)",
        "cancel_job": "async (job_id, reason=None)",
        "close": "async (*, timeout=None)",
        "connect": "async ()",
        "connected": "async ()",
        "detach": "async (*, timeout=None)",
        "drain": "async (*, timeout=None)",
        "end_streams": "()",
        "events": "(*kinds)",
        "job": "(job_id)",
        "jobs": "aiter (*, status=(), agent=None, created_after=None, timeout=None)",
        "notifications": "property",
        "on": "(*kinds, job=None, order=None, batch=False, on_error='skip', barrier=True, tx=None)",
        "on_error": "(hook)",
        "on_slow": "(hook)",
        "on_state": "(hook)",
        "open_jobs": "()",
        "ping": "async (*, timeout=None)",
        "resumed": "property",
        "session": "property",
        "sse": "async (job_id, *, last_event_id=None)",
        "state": "property",
        "states": "property",
        "stats": "()",
        "submit": "async (agent, input=None, *, lease=None, expires_at=None,"
        " idempotency_key=None, max_runtime=None, trace_id=None, parent=None,"
        " work_id=None, pause_lease=False, retries=0, timeout=None)",
        "subscribe": "(handler, /, *kinds, job=None, order=None, batch=False, on_error='skip',"
        " barrier=True, tx=None)",
        "watch": "async (job_id, *, history=False, from_seq=None, timeout=None)",
    },
    arcp_client.JobHandle: {
        **dict.fromkeys(
            [
                "agent",
                "budget",
                "children",
                "credentials",
                "history_last",
                "id",
                "lease",
                "lease_constraints",
                "notifications",
                "progress",
                "resumed",
                "status",
                "trace_id",
                "verdict",
            ],
            "property",
        ),
        "answer": "async (question_id, value, *, idempotency_key=None, timeout=None)",
        "chunks": "aiter ()",
        "events": "(*kinds)",
        "result": "async ()",
        "save": "async (path)",
        "send": "async (value, *, mode='queue', message_id=None, timeout=None)",
        "sse": "(*, last_event_id=None)",
    },
    arcp_client.Runtime: {
        "__init__": "(*, name='arcp-client', version=None, auth=None, event_log=None,"
        " heartbeat_interval=30.0, resume_window=600.0, limits=None, policy=None,"
        " steering=None, provisioner=None, dialect='specification',"
        " telemetry=None, webhooks=())",
        "add_routes": "(app, path='/arcp', *, allowed_hosts=())",
        "agent": "(name, version=None, default=False, *, input_schema=None, description=None)",
        "asgi": "(*, allowed_hosts=())",
        "close": "async (*, timeout=0.0)",
        "connect": "async ()",
        "open": "property",
        "rotate": "(job_id, credential)",
        "serve": "(host='127.0.0.1', port=0, *, path='/arcp', ssl=None, allowed_hosts=(),"
        " probes=False)",
        "serve_stdio": "async (*, stdin=None, stdout=None)",
        "target": "property",
    },
    arcp_client.StdioConnector: {
        "__init__": "(argv, *, cwd=None, env=None, max_line=16777216, stderr_tail=8192)",
    },
    arcp_client.WebSocketConnector: {
        "__init__": "(url, *, ssl=None, headers=None, proxy=None, session=None,"
        " max_frame=16777216, connect_timeout=10.0)",
    },
    arcp_client.MemoryStore: {"__init__": "(*, every=256, interval=0.25)"},
    arcp_client.SqliteStore: {"__init__": "(path, *, every=256, interval=0.25)"},
    projection.JobProjection: {
        "__init__": "(job_id, *, agent='', status='pending', lease=None, constraints=None,"
        " budget=None)",
        "apply": "(event)",
        "calls": "property",
        "describe": "(job, *, history=True)",
        "ended": "property",
        "meters": "property",
        "meters_at": "(now)",
        "of": "(job, *, history=True)",
        "progress": "property",
        "running": "property",
        "to_dict": "(now=None)",
    },
    rx.AckedSource: {
        "__init__": "(items, ack, *, cap=1024, low=None, size=None, in_order=True,"
        " ack_timeout=30.0)",
        "aclose": "async (*, timeout=None)",
        "join": "async ()",
        "observable": "()",
        "stats": "()",
    },
    rx.EventChannel: {
        "__init__": "(cap=1024, *, low=None, hard_cap=None, overflow='wait', key=None, size=None)",
        "push": "async (item)",
    },
}

JOB_CONTEXT = {
    **dict.fromkeys(
        [
            "agent",
            "budget",
            "cancelled",
            "credentials",
            "id",
            "input",
            "lease",
            "inbox",
            "steered",
            "trace_id",
            "work_id",
        ],
        "property",
    ),
    "ask": "async (question, *, schema=None, options=(), default=Ellipsis, timeout=None, to=None,"
    " key=None)",
    "artifact": "async (uri, content_type, byte_size=None, sha256=None)",
    "authorize": "(capability, target)",
    "chunk": "async (data, more=True)",
    "delegate": "async (agent, input=None, *, lease=None, expires_at=None, max_runtime=None,"
    " delegate_id=None)",
    "emit": "async (kind, body)",
    "log": "async (message, level='info')",
    "metric": "async (name, value, unit=None, dimensions=None)",
    "progress": "async (current, total=None, units=None, message=None)",
    "status": "async (phase, message=None)",
    "thought": "async (text)",
    "tool": "(name, args=None)",
    "tool_call": "async (tool, args=None, call_id=None)",
    "tool_result": "async (call_id, result=None, error=None)",
}


def shape(member: Any) -> str:
    """``async (a, *, b=1)``: what a caller must know of a member."""
    if isinstance(member, property):
        return "property"
    if isinstance(member, classmethod):
        member = member.__func__
    signature = inspect.signature(member)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_named(parameter.default))
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    plain = str(inspect.Signature(parameters))
    if inspect.isasyncgenfunction(member):
        return f"aiter {plain}"
    return f"async {plain}" if inspect.iscoroutinefunction(member) else plain


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _named(default: Any) -> Any:
    """Policies by their name: that their defaults are these is a test of its own."""
    if isinstance(default, arcp_client.Order):
        return _Text(str(default))
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        assert default == type(default)() or isinstance(default, arcp_client.Reconnect)
        return _Text(f"{type(default).__name__}()")
    return default


def members(cls: type, *, own: bool = False) -> dict[str, str]:
    names = vars(cls) if own else dir(cls)
    return {
        name: shape(inspect.getattr_static(cls, name)) for name in names if not name.startswith("_")
    }


@pytest.mark.parametrize("cls", CALLS, ids=lambda cls: cls.__name__)
def test_parameters_and_their_defaults(cls: type) -> None:
    for name, expected in CALLS[cls].items():
        assert shape(inspect.getattr_static(cls, name)) == expected, name


@pytest.mark.parametrize(
    "cls",
    [arcp_client.Client, arcp_client.JobHandle, arcp_client.Runtime],
    ids=lambda c: c.__name__,
)
def test_a_class_has_these_verbs_and_no_other(cls: type) -> None:
    assert set(members(cls)) == set(CALLS[cls]) - {"__init__"}


def test_what_an_agent_is_given() -> None:
    assert members(arcp_client.JobContext) == JOB_CONTEXT


def test_a_job_can_be_cancelled_and_a_view_left() -> None:
    assert members(arcp_client.Job, own=True) == {
        "attempts": "property",
        "cancel": "async (reason=None)",
        "next_attempt": "async (after=None)",
    }
    assert members(arcp_client.JobView, own=True) == {
        "unsubscribe": "async ()",
    }
    assert arcp_client.Job.__bases__ == arcp_client.JobView.__bases__ == (arcp_client.JobHandle,)


def test_a_registration_is_disposed_of_and_asked_for_its_lag() -> None:
    assert members(arcp_client.Registration) == {"dispose": "()", "lag": "property"}


def test_an_iterator_over_events_is_iterated_over_and_closed() -> None:
    assert members(arcp_client.EventIterator) == {"aclose": "async ()"}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            rx.concat_map_async,
            "(handler, *, on_error='skip', slice_items=64, slice_seconds=0.005,"
            " item_timeout=None, isolate_context=False)",
        ),
        (
            rx.concat_map_async_by,
            "(key, handler, *, lanes=None, on_error='skip', slice_items=64, slice_seconds=0.005,"
            " item_timeout=None, isolate_context=False)",
        ),
        (rx.stream, "(observable, *, maxsize=1024)"),
    ],
)
def test_rx_operators(function: Any, expected: str) -> None:
    assert shape(function) == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            web.add_routes,
            "(app, client, *, prefix='', token=None, allow_control=False, allowed_hosts=(),"
            " secrets=(), memory=8388608, linger=60.0, hosts=None)",
        ),
        (
            web.serve,
            "(client, host='127.0.0.1', port=0, *, token=None, allow_control=False,"
            " allowed_hosts=(), secrets=(), hosts=None)",
        ),
        (
            web.asgi_app,
            "(client, *, token=None, allow_control=False, allowed_hosts=(), secrets=(),"
            " memory=8388608, linger=60.0)",
        ),
        (web.sse, "(job)"),
        (web.end_streams, "async (app)"),
        (
            web.add_ag_ui_routes,
            "(app, client, agent, *, path, input=None, lease=None, max_runtime=None)",
        ),
        (web.ag_ui, "aiter (job, *, thread_id=None, run_id=None, after=None)"),
    ],
)
def test_the_dashboard(function: Any, expected: str) -> None:
    assert shape(function) == expected


def test_public_modules_export_no_private_name() -> None:
    for module in (
        web,
        arcp_client,
        acp,
        errors,
        events,
        projection,
        rx,
        runtime,
        state,
        testing,
        transcripts,
    ):
        names = set(module.__all__) - {"__version__"}
        assert not any(name.startswith("_") for name in names), module.__name__


TRANSCRIPTS = {
    "Reader": "(file, *, name='', max_line=33554432)",
    "Recording": "(writer, *, clock=<built-in function monotonic>)",
    "Scrubber": "(secrets=(), *, names=())",
    "encode": "(line, scrubber=None)",
    "entry": "(event, at, *, job_id=None)",
    "job": "(handle, at=0.0, *, parent_job_id=None)",
    "outcome": "(job_id, status, at, *, error=None)",
    "read": "(path, *, max_line=33554432)",
}


def test_transcripts() -> None:
    assert transcripts.SCHEMA == "arcp-client.transcript/1"
    assert {name: shape(getattr(transcripts, name)) for name in TRANSCRIPTS} == TRANSCRIPTS
    for write in (transcripts.Writer, transcripts.write):
        scrubber = inspect.signature(write).parameters["scrubber"].default
        assert isinstance(scrubber, transcripts.Scrubber)  # nobody has to think of it


# ------------------------------------------------------------------------- values


def test_policies() -> None:
    buffer = {"soft": 1024, "hard": 8192, "bytes": 32 * MIB, "spill": 256 * MIB}
    assert dataclasses.asdict(arcp_client.Buffer()) == buffer
    assert dataclasses.asdict(arcp_client.Timeouts()) == {
        "connect": 10, "open": 15, "request": 30, "close": 5, "drain": 5, "stall": 30,
        "deadlock": 5, "silence": 300,
    }  # fmt: skip
    reconnect = arcp_client.Reconnect()
    assert fields(reconnect) == ["wait", "stop", "reset_after", "classify"]
    assert isinstance(reconnect.wait, wait_random_exponential)
    assert reconnect.stop is stop_never
    assert {order.name for order in arcp_client.Order} == {"SESSION", "JOB"}


def fields(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value)]


def test_states_of_the_link() -> None:
    found = {name: getattr(state, name) for name in state.__all__}
    assert all(issubclass(cls, arcp_client.LinkState) for cls in found.values())
    assert found.pop("LinkState") is arcp_client.LinkState  # which has nothing of its own
    assert {name: fields(cls) for name, cls in found.items()} == {
        "Connecting": ["attempt", "cause"],
        "Live": ["resumed"],
        "Reconnecting": ["attempt", "delay", "cause"],
        "Closed": ["cause"],
    }


SEEN = {
    "Bar": ["current", "total", "units", "message"],
    "Call": ["call_id", "tool", "args", "began", "ended", "outcome", "failed"],
    "Child": ["job_id", "agent"],
    "Fault": ["code", "message", "retryable"],
    "Hole": ["first", "last", "reason"],
    "JobRow": [
        "job_id", "label", "agent", "version", "status", "parent_job_id", "phase", "current",
        "total", "units", "done", "due_at", "last", "last_at", "meters", "tokens",
        "created_at", "ended_at", "failure", "verdict", "reason",
    ],
    "Meter": ["currency", "granted", "left", "spent", "rate", "seconds_left"],
    "Reason": ["code", "level", "text", "since", "until"],
}  # fmt: skip


def test_what_is_seen_of_a_job() -> None:
    others = {"Activity", "ENDED", "JobProjection", "reason_of", "verdict_of"}
    assert set(projection.__all__) == {*SEEN, *others}
    assert {name: fields(getattr(projection, name)) for name in SEEN} == SEEN
    assert sorted(projection.ENDED) == ["cancelled", "error", "success", "timed_out"]


def test_results_and_statistics() -> None:
    assert fields(arcp_client.Result) == ["value", "result_id", "size", "summary", "completed_at"]
    assert fields(arcp_client.Stats) == [
        "received",
        "processed",
        "queued",
        "spilled",
        "repeated",
        "gaps",
        "reconnects",
        "lag",
        "last_message",
        "last_disconnect",
        "silent",
        "verdicts",
    ]
    assert fields(arcp_client.Verdict) == ["kind", "text", "since", "heartbeats"]


SHARED = {"seq", "id", "kind", "session_id", "job_id", "ts", "trace_id", "redelivered"}
EVENTS = {
    "Event": "",
    "Log": "level message",
    "Thought": "text",
    "ToolCall": "tool args call_id",
    "ToolResult": "call_id result error",
    "Status": "phase message",
    "Metric": "name value unit dimensions",
    "ArtifactRef": "uri content_type byte_size sha256",
    "Delegate": "child_job_id delegate_id agent",
    "Progress": "current total units message",
    "ResultChunk": "result_id chunk_seq data encoding more",
    "Question": "question_id text schema options to expires_at has_default default lease_paused",
    "Answered": "question_id value by client at lease_expires_at",
    "Expired": "question_id defaulted value lease_expires_at",
    "Withdrawn": "question_id reason lease_expires_at",
    "Sent": "message_id mode value by client",
    "Consumed": "message_id at",
    "Returned": "message_id",
    "Completed": "value result_id result_size summary completed_at",
    "Failed": "status code message retryable details",
    "Unknown": "body",
    "Gap": "first last reason",
}


def test_events_and_their_fields() -> None:
    assert set(events.__all__) == {*EVENTS, "KINDS"}
    for name, own in EVENTS.items():
        cls = getattr(events, name)
        public = {field for field in cls.__struct_fields__ if not field.startswith("_")}
        assert public == SHARED | set(own.split()), name
        assert isinstance(cls().raw, dict)


def test_the_reasons_of_a_gap_and_the_ways_to_fail() -> None:
    def words(cls: type, name: str) -> set[str]:
        hint = inspect.get_annotations(cls, eval_str=True)[name]
        return set(hint.__args__)

    reasons = {"lost", "unknown_end", "not_retained", "overflow", "undecodable"}
    assert words(events.Gap, "reason") == reasons
    assert words(events.Failed, "status") == {"error", "cancelled", "timed_out"}


TREE = """
ArcpError
  LinkError: LinkLost(ConnectionError) HeartbeatLost(TimeoutError) HandshakeTimeout(TimeoutError)
    ConnectFailed
  ProtocolError: LocalProtocolError RemoteProtocolError
  SessionError: Unauthenticated ResumeExpired SessionClosed ClientClosed StoreLocked BufferFull
    TooManyStreams WouldDeadlock
  RequestError: PermissionDenied AgentNotFound AgentVersionNotFound DuplicateKey JobNotFound
    InvalidRequest LeaseSubsetViolation RequestTimeout(TimeoutError) FeatureNotNegotiated
    JobEnded QuestionNotFound QuestionAnswered QuestionClosed InvalidAnswer UnknownCode
  InvalidRequest: InvalidInput
  JobError: JobFailed JobLost ResultIncomplete ResultUnavailable
  JobFailed: JobCancelled JobTimedOut LeaseExpired BudgetExhausted QuestionExpired
  StorageError(ValueError) TranscriptError HandlerError HandlerFailed
"""


def test_every_error_and_its_bases() -> None:
    expected, parent = {"ArcpError": {"Exception"}}, "ArcpError"
    for line in TREE.splitlines()[2:]:
        if ":" in line:
            parent, _, line = line.strip().partition(":")
            expected.setdefault(parent, {"ArcpError"})
        elif not line.startswith("    "):
            parent = "ArcpError"
        for word in line.split():
            name, _, builtin = word.rstrip(")").partition("(")
            expected[name] = {parent, builtin} - {""}
    found = {
        name: {base.__name__ for base in getattr(errors, name).__bases__} for name in errors.__all__
    }
    assert found == expected


def test_what_errors_carry() -> None:
    failed = errors.JobFailed("m", code="C", retryable=True, details=1, job_id="j")
    assert (failed.message, failed.code, failed.retryable) == ("m", "C", True)
    assert (failed.details, failed.job_id) == (1, "j")
    incomplete = errors.ResultIncomplete("m", missing=(1,), partial="x")
    assert (incomplete.missing, incomplete.partial) == ((1,), "x")
    assert errors.PermissionDenied().code == "PERMISSION_DENIED"


# ------------------------------------------------------------------------- ACP


def test_acp() -> None:
    client, session = acp.AcpClient, acp.AcpSession
    options = set(inspect.signature(client).parameters)
    assert options >= {"cwd", "env", "on_permission", "fs", "terminal", "limits"}
    assert {"new_session", "load_session", "close"} <= set(members(client))
    assert {"id", "on", "prompt", "updates", "cancel", "set_mode"} <= set(members(session))
    assert set(members(session)) == {
        "busy", "cancel", "cancelling", "close", "id", "last_turn", "load", "on", "prompt",
        "resume", "set_config_option", "set_mode", "state", "subscribe", "updates",
    }  # fmt: skip
    assert fields(acp.Turn)[:3] == ["stop_reason", "cancel_requested", "usage"]
    assert next(iter(inspect.signature(acp.host).parameters)) == "argv"
    assert list(inspect.signature(acp.serve).parameters)[:2] == ["client", "agent"]


# ------------------------------------------------------------------------- the command line

PLACE = "--url --token-file --profile --connect-timeout"
COMMANDS = {
    "demo": "--seed --fast",
    "serve": "--agents --host --port --stdio --token-file --allow-host",
    "run": "--input --output --json --lease --max-runtime --key --save --detach --resume"
    f" --ephemeral --record {PLACE} --reconnect-for",
    "watch": f"--output --json --history {PLACE} --reconnect-for",
    "jobs": f"--status --agent --watch --every --output --json {PLACE}",
    "status": f"--output --json {PLACE}",
    "inbox": f"--follow --answer --output --json {PLACE} --reconnect-for",
    "answer": f"--key --output --json {PLACE}",
    "top": f"--lines --sort --agent {PLACE} --reconnect-for",
    "result": f"--save --output --json {PLACE} --reconnect-for",
    "cancel": f"--reason {PLACE}",
    "ping": f"--output --json {PLACE}",
    "doctor": "--output --json --token-file --profile --connect-timeout",
    "acp": "--prompt --json --cwd --session --resume --sessions --export --allow --write",
    "web": "--host --port --allow-control --login-file --allow-host --open --replay --speed"
    f" {PLACE}",
    "mcp": "--http --host --port --login-file --allow-host --agent --wait --lease --max-runtime"
    f" {PLACE}",
    "acp-serve": f"--cwd --lease --max-runtime {PLACE}",
    "version": "--output --json",
    "record": f"--out --all --force {PLACE} --reconnect-for",
    "replay": "--job --speed --from --serve --port --allow-host --output --json --profile",
    "login": PLACE,
    "logout": "--url --profile",
    "config": "",
}


def test_commands_and_their_options() -> None:
    commands = get_command(parser()).commands  # type: ignore[attr-defined]
    assert set(commands) == set(COMMANDS)
    for name, options in COMMANDS.items():
        there = set(itertools.chain(*(option.opts for option in commands[name].params)))
        assert set(options.split()) <= there, name
    served = {option.name: option.default for option in commands["serve"].params}
    assert (served["host"], served["port"]) == ("127.0.0.1", 7777)


def test_exit_codes() -> None:
    assert {code.name: int(code) for code in Exit} == {
        "SUCCESS": 0, "FAILED": 1, "USAGE": 2, "CONNECTION": 3, "AUTHENTICATION": 4,
        "NOT_FOUND": 5, "LEASE": 6, "GAP": 7, "TIMED_OUT": 124, "INTERRUPTED": 130,
    }  # fmt: skip
