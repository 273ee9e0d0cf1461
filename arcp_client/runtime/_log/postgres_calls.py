"""Calls of webhooks in PostgreSQL: stored with their events, and made by one replica.

The replica that runs a job makes the job's calls. If that replica stops, a live replica with the
same endpoint makes the remaining calls. Each call is made at least once, within limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from arcp_client._wire.ids import now_text
from arcp_client.runtime._log.entries import Entry, WebhookCall, WebhookDone, webhook_body

__all__ = ["CallBatch", "free_calls", "left_calls", "put_call", "register"]

_AT_ONCE = 256
"""Left calls that a replica takes in one poll."""
_KEPT = "7 days"
"""How long calls are kept that no replica makes."""


class CallBatch:
    """The calls among entries.

    Args:
        entries: the entries, in order.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._calls = [entry for entry in entries if isinstance(entry, WebhookCall)]
        self._done = [entry for entry in entries if isinstance(entry, WebhookDone)]

    def __bool__(self) -> bool:
        return bool(self._calls or self._done)

    async def write(self, connection: Any, replica: str) -> None:
        """Store them, in the transaction that stores their events."""
        if self._calls:
            await connection.executemany(
                "INSERT INTO calls (endpoint, id, replica, job_id, at, body)"
                " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
                [(e.endpoint, e.id, replica, e.job_id, e.at, e.body) for e in self._calls],
            )
        if self._done:
            await connection.execute(
                "DELETE FROM calls AS c USING unnest($1::text[], $2::text[]) AS u(endpoint, id)"
                " WHERE c.endpoint = u.endpoint AND c.id = u.id",
                [e.endpoint for e in self._done],
                [e.id for e in self._done],
            )


async def register(connection: Any, replica: str, webhooks: Mapping[str, Sequence[str]]) -> None:
    """Note which endpoints a replica calls, and for what."""
    await connection.execute("DELETE FROM endpoints WHERE replica = $1", replica)
    for endpoint, events in webhooks.items():
        await connection.execute(
            "INSERT INTO endpoints VALUES ($1, $2, $3)", replica, endpoint, list(events)
        )


async def left_calls(
    connection: Any, replica: str, epoch: int, endpoints: Sequence[str], *, again: bool = False
) -> list[WebhookCall]:
    """Take the calls to these endpoints that no replica makes, in the order of their events.

    Args:
        connection: has no open transaction.
        replica: takes them.
        epoch: its epoch.
        endpoints: those with room for more calls.
        again: also return all calls that the replica has, because the answer to an earlier
            taking was lost.
    """
    async with connection.transaction():
        await connection.execute("SELECT fence($1, $2)", replica, epoch)
        rows = []
        if again:
            rows += await connection.fetch(
                "SELECT * FROM calls WHERE replica = $1 AND endpoint = ANY($2)",
                replica,
                list(endpoints),
            )
        rows += await connection.fetch(
            "UPDATE calls AS c SET replica = $1 FROM ("
            " SELECT endpoint, id FROM calls WHERE replica IS NULL AND endpoint = ANY($2)"
            f" ORDER BY number LIMIT {_AT_ONCE} FOR UPDATE SKIP LOCKED"
            ") AS l WHERE c.endpoint = l.endpoint AND c.id = l.id RETURNING c.*",
            replica,
            list(endpoints),
        )
    rows.sort(key=lambda row: row["number"])
    return [
        WebhookCall(row["endpoint"], row["id"], row["job_id"], row["at"], row["body"])
        for row in rows
    ]


async def free_calls(connection: Any, replica: str) -> None:
    """Leave the calls of a replica that is gone to the others, in the caller's transaction."""
    await connection.execute("UPDATE calls SET replica = NULL WHERE replica = $1", replica)
    await connection.execute("DELETE FROM endpoints WHERE replica = $1", replica)
    await connection.execute(
        "DELETE FROM calls WHERE replica IS NULL"
        f" AND stored_at < clock_timestamp() - interval '{_KEPT}'"
    )


async def put_call(
    connection: Any, type: str, job_id: str, event_id: str, data: Mapping[str, Any]
) -> None:
    """Leave a call for an event that one replica writes for another, in the same transaction.

    The number of the event in its session is not known here.
    """
    at = now_text()
    await connection.execute(
        "INSERT INTO calls (endpoint, id, job_id, at, body)"
        " SELECT DISTINCT endpoint, $2, $3, $4, $5::bytea FROM endpoints WHERE $1 = ANY(events)"
        " ON CONFLICT DO NOTHING",
        type,
        f"{job_id}_{event_id}",
        job_id,
        at,
        webhook_body(type, at, {"job_id": job_id, **data}),
    )
