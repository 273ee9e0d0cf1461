"""Reads the jobs of all replicas and their events from PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from arcp_client._postgres.database import Database
from arcp_client._wire.messages import JobFilter, ListJobsMessage
from arcp_client.runtime._log.directory import KnownJob, KnownJobs
from arcp_client.runtime._log.entries import Appended, LoggedJobState
from arcp_client.runtime._log.postgres_rows import (
    JOB,
    events_of,
    known_job,
    position,
    refusals,
    settled_page,
)

__all__ = ["PostgresJobs"]

_PAGE = 100
_PAGE_BYTES = 1024 * 1024
_MOST_RUNS = 256


class PostgresJobs:
    """Reads jobs, and remembers up to which event it has read those that have not ended.

    Args:
        database: the connections.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self._following: dict[str, int] = {}

    async def find(self, job_id: str) -> KnownJob | None:
        """Return a job."""
        with refusals():
            async with self._db.connection() as connection:
                row = await connection.fetchrow(f"{JOB} WHERE j.id = $1", job_id)
        return None if row is None else known_job(row)

    async def page(
        self,
        principal: str | None,
        request: ListJobsMessage,
        visible: Callable[[LoggedJobState], bool],
    ) -> KnownJobs | None:
        """List jobs in the order of their transactions.

        A page ends before the first transaction that began before a still running one, if there is
        anything before it: what that one accepts would otherwise be missed by the next page.
        """
        wanted = request.filter or JobFilter()
        limit = request.limit or _PAGE
        tx, number = position(request.cursor)
        found: list[tuple[KnownJob, str, int, bool]] = []
        size = 0
        with refusals():
            while True:
                async with self._db.connection() as connection:
                    rows = await connection.fetch(
                        f"{JOB} WHERE (j.tx, j.number) > ($1::text::xid8, $2::bigint)"
                        " AND NOT j.gone AND ($3::text IS NULL OR j.principal = $3)"
                        " AND ($4::text[] IS NULL OR j.status = ANY($4))"
                        " AND ($5::text IS NULL"
                        " OR j.agent = $5 OR split_part(j.agent, '@', 1) = $5)"
                        " AND ($6::timestamptz IS NULL OR j.created > $6)"
                        " ORDER BY j.tx, j.number LIMIT $7",
                        tx,
                        number,
                        principal,
                        list(wanted.status) if wanted.status else None,
                        wanted.agent,
                        wanted.created_after,
                        limit + 1,
                    )
                for row in rows:
                    tx, number = row["tx"], row["number"]
                    known = known_job(row)
                    if visible(known.state):
                        if len(found) >= limit or size > _PAGE_BYTES:
                            page = settled_page(found)
                            if page is not None:
                                return page
                        found.append((known, tx, number, row["settled"]))
                        size += len(row["state"])
                if len(rows) <= limit:
                    return KnownJobs([known for known, *_ in found], None)

    async def history(self, job_id: str, after: int, limit: int) -> Sequence[Appended]:
        """Return events of a job from an index on."""
        with refusals():
            async with self._db.connection() as connection:
                rows = await connection.fetch(
                    "SELECT job_id, idx, id, type, payload, needs FROM ("
                    " SELECT *,"
                    " sum(length(payload)) OVER (ORDER BY idx) - length(payload) AS before"
                    " FROM (SELECT * FROM events WHERE job_id = $1 AND idx + count > $2 AND idx >="
                    " coalesce((SELECT max(idx) FROM events WHERE job_id = $1 AND idx <= $2), 0)"
                    f" ORDER BY idx LIMIT {_MOST_RUNS}) AS runs) AS sized WHERE before < $3"
                    " ORDER BY idx",
                    job_id,
                    after,
                    limit,
                )
        entries = [entry for row in rows for entry in events_of(row) if entry.record.index >= after]
        if entries and entries[-1].record.terminal:
            self._following.pop(job_id, None)
        else:
            self._following[job_id] = entries[-1].record.index + 1 if entries else after
        return entries

    async def index_after(self, job_id: str, seq: int) -> int | None:
        """Return the index of the first event above a number of the submitting session."""
        if seq <= 0:
            return 0
        with refusals():
            async with self._db.connection() as connection:
                index = await connection.fetchval(
                    "SELECT max(n.idx + least(n.count, $2 - n.seq + 1)) FROM numbers AS n"
                    " JOIN jobs AS j ON j.id = n.job_id AND j.owner_id = n.session_id"
                    " WHERE n.job_id = $1 AND n.seq <= $2",
                    job_id,
                    seq,
                )
        return index or 0

    async def behind(self, connection: Any) -> list[str]:
        """Return the jobs that have events after those that were read."""
        rows = await connection.fetch(
            "SELECT u.id FROM unnest($1::text[], $2::bigint[]) AS u(id, next) WHERE EXISTS"
            " (SELECT 1 FROM events AS e WHERE e.job_id = u.id AND e.idx >= u.next)",
            list(self._following),
            list(self._following.values()),
        )
        return [row["id"] for row in rows]

    def follow(self, job_id: str, index: int) -> None:
        """Report the job with the next changes, if it has events from an index on."""
        self._following[job_id] = index

    def unfollow(self, job_id: str) -> None:
        """Do not look for events of a job until they are read again."""
        self._following.pop(job_id, None)
