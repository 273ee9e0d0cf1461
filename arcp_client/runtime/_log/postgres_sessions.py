"""The sessions of all replicas in PostgreSQL: which replica holds each, and their takeover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from arcp_client._wire.stamp import job_part
from arcp_client.runtime._log.directory import TakenSession
from arcp_client.runtime._log.entries import SessionState, Watch
from arcp_client.runtime._log.postgres_members import Leases, Membership
from arcp_client.runtime._log.postgres_rows import (
    SESSION,
    check_resume,
    decode_session,
    encoded,
    events_of,
    fits,
    make_room,
    refusals,
)
from arcp_client.runtime._log.wakeups import LOOK

__all__ = ["PostgresSessions"]


class PostgresSessions:
    """Registers the sessions of this replica, and takes over those of others.

    Args:
        member: this replica.
        leases: its lease, without which nothing is written.
        tell: wakes the other replicas.
    """

    def __init__(
        self, member: Membership, leases: Leases, tell: Callable[[Iterable[str]], None]
    ) -> None:
        self._member = member
        self._leases = leases
        self._tell = tell

    async def open(self, state: SessionState) -> None:
        """Register a new session, which this replica holds.

        Raises:
            RequestError: the principal has too many sessions, or the database is away.
        """
        member = self._member
        with refusals():

            async def register(connection: Any) -> int:
                await connection.execute("SELECT fence($1, $2)", member.id, member.epoch)
                await make_room(connection, state.principal, member.bounds.sessions)
                epoch: int = await connection.fetchval(
                    "INSERT INTO sessions (id, principal, holder, epoch, floor, last, state,"
                    " timeline) VALUES ($1, $2, $3, nextval('epochs'), 0, 0, $4, timeline())"
                    " ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch RETURNING epoch",
                    state.id,
                    state.principal,
                    member.id,
                    encoded(state),
                )
                return epoch

            member.held[state.id] = await self._leases.transaction(register)

    async def take(
        self, principal: str, session_id: str | None, token: bytes, last: int
    ) -> TakenSession | None:
        """Take over a session; ``None`` if this replica holds it already."""
        member = self._member
        with refusals():

            async def find(connection: Any) -> Any:
                await connection.execute("SELECT fence($1, $2)", member.id, member.epoch)
                return await self._find(connection, principal, session_id, token)

            row = await self._leases.transaction(find)
            check_resume(row, principal, token, last)
            assert row is not None
            found: str = row["id"]
            if row["holder"] == member.id and member.held.get(found) == row["epoch"]:
                return None
            if found in member.held:
                member.lose(found)
            if member.host is not None:
                await member.host.flushed()  # nothing of an earlier epoch is stored after this

            async def take(connection: Any) -> tuple[int, TakenSession]:
                await connection.execute("SELECT fence($1, $2)", member.id, member.epoch)
                row = await connection.fetchrow(f"{SESSION} WHERE id = $1 FOR UPDATE", found)
                check_resume(row, principal, token, last)
                epoch = await connection.fetchval(
                    "UPDATE sessions SET holder = $2, epoch = nextval('epochs'),"
                    " expires_at = NULL WHERE id = $1 RETURNING epoch",
                    found,
                    member.id,
                )
                await connection.execute(
                    "UPDATE watches SET delegated = false WHERE session_id = $1 AND delegated",
                    found,
                )  # these jobs are continued, not announced
                return epoch, await self._content(connection, row)

            member.held[found], taken = await self._leases.transaction(take)
        self._tell([LOOK])
        return taken

    async def _find(
        self, connection: Any, principal: str, session_id: str | None, token: bytes
    ) -> Any:
        if session_id:
            return await connection.fetchrow(f"{SESSION} WHERE id = $1", session_id)
        rows = await connection.fetch(f"{SESSION} WHERE principal = $1", principal)
        return next((row for row in rows if fits(row, token)), None)

    async def _content(self, connection: Any, row: Any) -> TakenSession:
        """Read the unacknowledged events and the subscriptions of a session."""
        session_id, floor = row["id"], row["floor"]
        numbers = await connection.fetch(
            "SELECT n.seq, n.job_id, n.idx, n.count, j.trace_id FROM numbers AS n"
            " JOIN jobs AS j ON j.id = n.job_id"
            " WHERE n.session_id = $1 AND n.seq + n.count - 1 > $2 ORDER BY n.seq",
            session_id,
            floor,
        )
        runs = await connection.fetch(
            "SELECT DISTINCT ON (e.job_id, e.idx) e.job_id, e.idx, e.id, e.type, e.payload, e.needs"
            " FROM numbers AS n JOIN events AS e ON e.job_id = n.job_id"
            " AND e.idx < n.idx + n.count AND e.idx + e.count > n.idx"
            " WHERE n.session_id = $1 AND n.seq + n.count - 1 > $2",
            session_id,
            floor,
        )
        records = {
            (entry.record.job_id, entry.record.index): entry.record
            for run in runs
            for entry in events_of(run)
        }
        at = asyncio.get_running_loop().time()
        events = []
        for number in numbers:
            part = job_part(number["job_id"], number["trace_id"])
            for n in range(number["count"]):
                seq = number["seq"] + n
                record = records.get((number["job_id"], number["idx"] + n))
                if seq > floor and record is not None:
                    events.append((seq, msgspec.structs.replace(record, job=part, at=at)))
        watches = await connection.fetch(
            "SELECT w.session_id, w.job_id, w.next, w.first FROM watches AS w"
            " JOIN jobs AS j ON j.id = w.job_id WHERE w.session_id = $1 AND (j.ended_at IS NULL"
            " OR w.next < (SELECT max(idx + count) FROM events WHERE job_id = w.job_id))",
            session_id,
        )
        open_jobs = await connection.fetch(
            "SELECT id FROM jobs WHERE owner_id = $1 AND ended_at IS NULL", session_id
        )
        return TakenSession(
            msgspec.structs.replace(decode_session(row["state"]), floor=floor),
            row["last"],
            events,
            [Watch(w["session_id"], w["job_id"], w["next"], w["first"]) for w in watches],
            frozenset(job["id"] for job in open_jobs),
        )
