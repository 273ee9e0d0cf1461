"""Frames for the wire tests: as a peer would write them, and as no peer should."""

from __future__ import annotations

import json
from typing import Any

from arcp_client._wire.build import terminal_event, to_event
from arcp_client._wire.codec import BadFrame, ControlFrame, Frame, decode
from arcp_client.events import Event

CANARY = "cAnArY-5f3a9b"
"""A secret. No log line, repr or raw value may show it."""

BODIES: dict[str, dict[str, Any]] = {
    "log": {"level": "warn", "message": "disk is nearly full"},
    "thought": {"text": "perhaps the cache is stale"},
    "tool_call": {"tool": "search.web", "args": {"q": ["a", 1]}, "call_id": "c1"},
    "tool_result": {"call_id": "c1", "result": {"hits": 0}},
    "status": {"phase": "planning", "message": "two steps"},
    "metric": {"name": "cost.search", "value": 0.42, "unit": "USD", "dimensions": {"model": "m"}},
    "artifact_ref": {
        "uri": "file:///out.txt",
        "content_type": "text/plain",
        "byte_size": 12,
        "sha256": "ab" * 32,
    },
    "delegate": {"child_job_id": "job_2", "delegate_id": "d1", "agent": "indexer"},
    "progress": {"current": 47, "total": 120, "units": "files", "message": "src/"},
    "result_chunk": {
        "result_id": "res_1",
        "chunk_seq": 3,
        "data": "text",
        "encoding": "base64",
        "more": False,
    },
    "x-vendor.arcp-client.question": {
        "question_id": "q_1",
        "text": "Deploy?",
        "schema": {"enum": ["yes", 2]},
        "options": [{"value": "yes", "label": "Deploy"}, {"value": 2, "label": "twice"}],
        "to": ["alice"],
        "expires_at": "2026-05-13T20:00:00Z",
        "has_default": True,
        "default": 2,
        "lease_paused": True,
    },
    "x-vendor.arcp-client.answered": {
        "question_id": "q_1",
        "value": {"a": [1]},
        "by": "alice",
        "client": "phone 1",
        "at": "2026-05-13T19:50:00Z",
        "lease_expires_at": "2026-05-13T23:00:00Z",
    },
    "x-vendor.arcp-client.expired": {
        "question_id": "q_1",
        "defaulted": True,
        "value": 2,
        "lease_expires_at": "2026-05-13T23:00:00Z",
    },
    "x-vendor.arcp-client.sent": {
        "message_id": "msg_1",
        "mode": "steer",
        "value": {"not": "that file"},
        "by": "alice",
        "client": "phone 1",
    },
    "x-vendor.arcp-client.consumed": {"message_id": "msg_1", "at": 2},
    "x-vendor.arcp-client.returned": {"message_id": "msg_1"},
    "x-vendor.arcp-client.withdrawn": {
        "question_id": "q_1",
        "reason": "job_ended",
        "lease_expires_at": "2026-05-13T23:00:00Z",
    },
}
"""One body for each kind of §8.2 and of the extensions, with every field."""


def envelope(kind: str, payload: Any, **top: Any) -> dict[str, Any]:
    return {
        "arcp": "1.1",
        "id": "01M8FG7VMNRJ7KBJC3XAC8W74H",
        "type": kind,
        "session_id": "sess_1",
        "payload": payload,
        **top,
    }


def frame(kind: str, payload: Any, **top: Any) -> bytes:
    return json.dumps(envelope(kind, payload, **top)).encode()


def event_frame(kind: str, body: Any, *, ts: Any = "2026-05-13T19:42:13Z", **top: Any) -> bytes:
    top = {"job_id": "job_1", "event_seq": 7, "trace_id": "ab" * 16, **top}
    return frame("job.event", {"kind": kind, "ts": ts, "body": body}, **top)


def event(data: bytes, redelivered: bool = False) -> Event:
    """What a session delivers for a frame."""
    read = decode(data)
    assert not isinstance(read, BadFrame), read.error
    if isinstance(read, ControlFrame):
        return terminal_event(read, data, redelivered)
    return to_event(read, data, redelivered)


def control(kind: str, payload: Any, **top: Any) -> ControlFrame:
    read = decode(frame(kind, payload, **top))
    assert isinstance(read, ControlFrame)
    return read


def bad(read: Frame) -> BadFrame:
    assert isinstance(read, BadFrame), read
    return read
