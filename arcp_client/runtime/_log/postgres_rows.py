"""Statements, rows and cursors of the directory in PostgreSQL."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import msgspec

from arcp_client._log_fields import log_fields
from arcp_client._wire import names
from arcp_client._wire.ids import new_id, now_text
from arcp_client._wire.stamp import ENVELOPE, Record, event_payload, payload_bytes
from arcp_client.errors import (
    DuplicateKey,
    InvalidRequest,
    PermissionDenied,
    RequestError,
    StorageError,
    request_error,
)
from arcp_client.runtime._log.directory import KnownJob, KnownJobs
from arcp_client.runtime._log.entries import (
    JOB_ENDED,
    QUESTION_SETTLED,
    Appended,
    LoggedJobState,
    SessionState,
)
from arcp_client.runtime._log.postgres_calls import put_call

__all__ = [
    "AUTHORIZE",
    "END_COLUMNS",
    "JOB",
    "SESSION",
    "away",
    "check_resume",
    "closing_events",
    "decode_job",
    "decode_session",
    "encoded",
    "end_jobs",
    "events_of",
    "failed_payload",
    "fits",
    "known_job",
    "make_room",
    "position",
    "refusals",
    "same_submit",
    "settled_page",
]

_log = logging.getLogger("arcp_client.runtime")

_CLOSE = 64

SESSION = (
    "SELECT id, principal, holder, epoch, floor, last, state,"
    " coalesce(expires_at < clock_timestamp(), false) AS expired,"
    " timeline <> timeline() AS older FROM sessions"
)
JOB = (
    "SELECT j.id, j.state, j.status, j.authorities, j.runner, j.tx::text AS tx, j.number,"
    " j.tx < pg_snapshot_xmin(pg_current_snapshot()) AS settled,"
    " coalesce((SELECT idx + count FROM events WHERE job_id = j.id ORDER BY idx DESC LIMIT 1), 0)"
    " AS next, coalesce((SELECT seq + count - 1 FROM numbers WHERE job_id = j.id"
    " AND session_id = j.owner_id ORDER BY idx DESC LIMIT 1), 0) AS last_seq FROM jobs AS j"
)
END_COLUMNS = (
    "id, state, (SELECT coalesce(max(idx + count), 0) FROM events WHERE job_id = jobs.id) AS next"
)
"""What `end_jobs` needs of a row of ``jobs``."""
AUTHORIZE = (
    "UPDATE jobs SET authorities = authorities || $2::text"
    " WHERE id = $1 AND NOT authorities @> ARRAY[$2::text]"
)

decode_session = msgspec.msgpack.Decoder(SessionState).decode
decode_job = msgspec.msgpack.Decoder(LoggedJobState).decode
_decode_blobs = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_needs = msgspec.msgpack.Decoder(list[str | None]).decode
encoded = msgspec.msgpack.encode


def events_of(row: Any) -> Iterator[Appended]:
    """Yield the events of a run."""
    columns = (
        _decode_blobs(row["id"]),
        _decode_blobs(row["type"]),
        _decode_blobs(row["payload"]),
        _decode_needs(row["needs"]),
    )
    for index, (id, type, payload, need) in enumerate(zip(*columns, strict=True), row["idx"]):
        size = len(payload) + ENVELOPE
        record = Record(id, type, b"", payload, 0.0, need, row["job_id"], index, size)
        yield Appended(record, 0, None)


def known_job(row: Any) -> KnownJob:
    state = msgspec.structs.replace(
        decode_job(row["state"]), status=row["status"], authorities=tuple(row["authorities"])
    )
    return KnownJob(state, row["last_seq"], row["next"], row["runner"])


async def make_room(connection: Any, principal: str, most: int) -> None:
    """Make room for one more session of a principal, in the transaction of the caller.

    Raises:
        RequestError: the principal has ``most`` sessions, and none of them can be removed.
    """
    count = "SELECT count(*) FROM sessions WHERE principal = $1"
    if await connection.fetchval(count, principal) + _CLOSE < most:
        return
    # Close to the limit: one session of the principal at a time.
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 8))", principal)
    if await connection.fetchval(count, principal) < most:
        return
    removed = await connection.fetchval(
        "DELETE FROM sessions WHERE id = (SELECT id FROM sessions AS s WHERE principal = $1"
        " AND holder IS NULL AND NOT EXISTS (SELECT 1 FROM jobs AS j"
        " WHERE j.owner_id = s.id AND j.ended_at IS NULL)"
        " ORDER BY expires_at LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
        principal,
    )
    if removed is None:
        raise request_error(
            names.INTERNAL_ERROR, "too many sessions of this principal", retryable=True
        )
    await connection.execute("DELETE FROM watches WHERE session_id = $1", removed)


def settled_page(found: Sequence[tuple[KnownJob, str, int, bool]]) -> KnownJobs | None:
    """Return a page that ends with a job whose transaction precedes all running ones, if any."""
    last = max((n for n, (*_, settled) in enumerate(found) if settled), default=None)
    if last is None:
        return None
    _, tx, number, _ = found[last]
    cursor = base64.urlsafe_b64encode(f"after:{tx}:{number}".encode()).decode("ascii")
    return KnownJobs([known for known, *_ in found[: last + 1]], cursor)


def position(cursor: str | None) -> tuple[str, int]:
    """Return the position of a cursor."""
    if not cursor:
        return "0", 0
    try:
        text = base64.urlsafe_b64decode(cursor.encode("ascii")).decode("ascii")
        prefix, tx, number = text.split(":")
        if prefix != "after" or not 0 <= int(tx) < 2**64 or not 0 <= int(number) < 2**63:
            raise ValueError
        return str(int(tx)), int(number)
    except (ValueError, UnicodeError, binascii.Error):
        raise InvalidRequest("this runtime did not issue the cursor") from None


def fits(row: Any, token: bytes) -> bool:
    found = False
    for known in decode_session(row["state"]).tokens:
        found |= hmac.compare_digest(known, token)
    return found


def check_resume(row: Any, principal: str, token: bytes, last: int) -> None:
    """Refuse a resume that may not take over the session.

    Raises:
        PermissionDenied: the token or the principal is not the session's.
        RequestError: RESUME_WINDOW_EXPIRED.
    """
    if row is None or row["expired"]:
        raise _expired("the session is unknown or has expired")
    if not fits(row, token) or row["principal"] != principal:
        _log.warning(
            "%s may not resume session %s",
            principal,
            row["id"],
            extra=log_fields(session=row["id"]),
        )
        raise PermissionDenied("the resume token does not belong to this session")
    if row["older"]:
        raise _expired(
            "the database may lack events of the session: another server has become the primary"
        )
    if last < row["floor"]:
        raise _expired("the events after last_event_seq are no longer held")
    if last > row["last"]:
        raise _expired("last_event_seq is higher than any number sent in this session")


def _expired(message: str) -> RequestError:
    return request_error(names.RESUME_WINDOW_EXPIRED, message)


def same_submit(row: Any, parameters: bytes) -> Mapping[str, Any]:
    """Return the acceptance of an earlier submit with the same parameters."""
    if row["parameters"] != parameters:
        raise DuplicateKey("the idempotency key was used before with other parameters")
    accepted: Mapping[str, Any] = json.loads(row["accepted"])
    return accepted


def away(error: StorageError) -> RequestError:
    _log.warning("%s", error)
    text = "the runtime's event log cannot be used at present"
    return request_error(names.INTERNAL_ERROR, text, retryable=True)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a failure of the database into the refusal of a request."""
    try:
        yield
    except StorageError as error:
        raise away(error) from error


async def closing_events(
    connection: Any, replica: str, jobs: Sequence[str]
) -> dict[str, list[tuple[bytes, str]]]:
    """End the questions and messages of a replica that is gone.

    Returns:
        The payloads of the events that the given jobs of it still get, and the features that they
        need.
    """
    closing: dict[str, list[tuple[bytes, str]]] = {job_id: [] for job_id in jobs}
    for row in await connection.fetch("SELECT * FROM end_dialogue($1, $2)", replica, list(jobs)):
        if row["kind"] == "returned":
            payload = event_payload(names.RETURNED, {"message_id": row["id"]}), names.STEERING
        else:
            body = {"question_id": row["id"], "reason": "job_ended"}
            payload = event_payload(names.WITHDRAWN, body), names.ASKING
        if row["job_id"] in closing:
            closing[row["job_id"]].append(payload)
    return closing


def failed_payload(code: str, message: str, *, retryable: bool, status: str = names.ERROR) -> bytes:
    return payload_bytes(
        {
            "final_status": status,
            "code": code,
            "message": message,
            "retryable": retryable,
            "completed_at": now_text(),
        }
    )


async def end_jobs(
    connection: Any,
    rows: Sequence[Any],
    payload: bytes,
    status: str,
    *,
    before: Mapping[str, Sequence[tuple[bytes, str]]] = MappingProxyType({}),
) -> None:
    """End jobs whose rows are locked, each with one terminal event.

    Args:
        connection: has an open transaction.
        rows: the jobs, with `END_COLUMNS`.
        payload: of the terminal event.
        status: the final status.
        before: by job, the payloads of events before it, and the features that they need.
    """
    for row in rows:
        events: list[tuple[str, bytes, str | None]] = [
            (names.EVENT, *event) for event in before.get(row["id"], ())
        ]
        events.append((names.JOB_ERROR, payload, None))
        state = msgspec.structs.replace(decode_job(row["state"]), status=status, ended=now_text())
        ids = [new_id() for _ in events]
        await connection.execute(
            "INSERT INTO events VALUES ($1, $2, $3, $4, $5, $6, $7)",
            row["id"],
            row["next"],
            len(events),
            encoded([id.encode() for id in ids]),
            encoded([type.encode() for type, _, _ in events]),
            encoded([body for _, body, _ in events]),
            encoded([needs for _, _, needs in events]),
        )
        await connection.execute(
            "UPDATE jobs SET status = $2, state = $3, ended_at = clock_timestamp() WHERE id = $1",
            row["id"],
            status,
            encoded(state),
        )
        for id, (_, body, needs) in zip(ids, events, strict=True):
            if needs == names.ASKING:
                question_id = json.loads(body)["body"]["question_id"]
                data = {"status": "withdrawn", "question_id": question_id}
                await put_call(connection, QUESTION_SETTLED, row["id"], id, data)
        await put_call(connection, JOB_ENDED, row["id"], ids[-1], {"status": status})
