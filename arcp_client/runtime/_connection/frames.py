"""Encodes the control frames that the runtime sends: answers, errors, pings (§6, §7, §12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arcp_client._wire import names
from arcp_client._wire.codec import encode
from arcp_client._wire.ids import new_id, now_text
from arcp_client.errors import RequestError

__all__ = ["acceptance", "control", "ping", "pong", "refusal"]


def control(
    kind: str,
    payload: Mapping[str, Any],
    *,
    session_id: str | None,
    job_id: str | None = None,
    trace_id: str | None = None,
) -> bytes:
    """Encode a control frame with a new envelope id."""
    return encode(
        kind, payload, id=new_id(), session_id=session_id, job_id=job_id, trace_id=trace_id
    )


def refusal(
    error: RequestError,
    *,
    session_id: str | None,
    request_id: str | None = None,
    job_id: str | None = None,
) -> bytes:
    """Encode ``session.error`` (§12), with the ids of its request and its job."""
    payload: dict[str, Any] = {
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
    }
    if error.details is not None:
        payload["details"] = error.details
    if request_id:
        payload["request_id"] = request_id
    if job_id:
        payload["job_id"] = job_id
    return control(names.SESSION_ERROR, payload, session_id=session_id)


def acceptance(payload: Mapping[str, Any], session_id: str, request_id: str | None) -> bytes:
    """Encode ``job.accepted`` (§7.1). For a delegated job there is no request to answer (§10)."""
    if request_id:
        payload = {**payload, "request_id": request_id}
    return control(
        names.ACCEPTED,
        payload,
        session_id=session_id,
        job_id=payload["job_id"],
        trace_id=payload["trace_id"],
    )


def ping(session_id: str) -> bytes:
    """Encode ``session.ping`` (§6.4)."""
    payload = {"nonce": new_id(), "sent_at": now_text()}
    return control(names.PING, payload, session_id=session_id)


def pong(session_id: str, nonce: str) -> bytes:
    """Encode ``session.pong`` (§6.4)."""
    payload = {"ping_nonce": nonce, "received_at": now_text()}
    return control(names.PONG, payload, session_id=session_id)
