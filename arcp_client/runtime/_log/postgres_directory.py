"""The directory of a runtime whose replicas share PostgreSQL: sessions, jobs, keys and leases."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import msgspec

from arcp_client._postgres.database import Database
from arcp_client._postgres.functions import FENCED, LOST, TOO_MANY
from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.ids import parse_time
from arcp_client._wire.messages import JobFilter, ListJobsMessage
from arcp_client._wire.stamp import job_part
from arcp_client.errors import (
    StorageError,
    request_error,
)
from arcp_client.runtime._log.directory import (
    Bounds,
    CancelRequested,
    Change,
    JobDelegated,
    JobMoved,
    KnownJob,
    KnownJobs,
    ReplicaGone,
    ReplicaHost,
    Resync,
    SessionTaken,
    TakenSession,
)
from arcp_client.runtime._log.entries import (
    Appended,
    JobInput,
    KeyState,
    LoggedJobState,
    SessionState,
    Watch,
)
from arcp_client.runtime._log.inventories import Offer
from arcp_client.runtime._log.postgres_agents import OtherAgents
from arcp_client.runtime._log.postgres_dialogue import PostgresDialogue
from arcp_client.runtime._log.postgres_members import Leases, Membership
from arcp_client.runtime._log.postgres_rows import (
    AUTHORIZE,
    JOB,
    SESSION,
    away,
    check_resume,
    decode_session,
    encoded,
    events_of,
    fits,
    known_job,
    make_room,
    position,
    refusals,
    same_submit,
    settled_page,
)
from arcp_client.runtime._log.postgres_unclaimed import UNCLAIMED, UnclaimedJobs
from arcp_client.runtime._log.wakeups import LOOK, Wakeups

__all__ = ["PostgresDirectory"]

_log = logging.getLogger("arcp_client.runtime")

_POLL = 1.0
_MOST_WAITING = 100_000
_SWEEP_EVERY = 10
_PAGE = 100
_PAGE_BYTES = 1024 * 1024
_MOST_RUNS = 256
_EXISTS = "23505"
"""SQLSTATE: a row with this id exists."""
_FIRST_RETRY = 0.05
_LAST_RETRY = 0.5

T = TypeVar("T")


class PostgresDirectory:
    """A `Directory` in PostgreSQL. Only the database's clock decides about leases and deadlines.

    Args:
        database: the connections.
        member: this replica.
        lease: seconds.
    """

    withheld = frozenset({names.CREDENTIALS})

    def __init__(self, database: Database, member: Membership, lease: float) -> None:
        self._db = database
        self._member = member
        self._host: ReplicaHost | None = None
        self._tasks = TaskOwner(f"replica {member.id}")
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._look_now = asyncio.Event()
        self._following: dict[str, int] = {}
        self._delegated: set[tuple[str, str]] = set()
        self._polls = 0
        self._wakeups = Wakeups(database, member.id, self._tasks, self._heard)
        self._leases = Leases(database, member, lease, self._wakeups.tell)
        self._unclaimed = UnclaimedJobs(database, member, self._tasks, self.moved, self._ended)
        self._agents = OtherAgents(database, member)
        self._bounds = Bounds()
        self.dialogue = PostgresDialogue(
            database, member, self._wakeups.tell, self._changes.put_nowait
        )

    # ------------------------------------------------------------------------ membership

    async def join(self, host: ReplicaHost) -> None:
        """Take part: register this replica, listen, and keep the lease.

        Raises:
            StorageError: the database cannot be used.
            StoreLocked: another live replica has this one's id.
        """
        self._host = host
        self._bounds = host.bounds
        await self._leases.join(host)
        await self.dialogue.begin(self._bounds)
        await self._wakeups.begin()
        async with self._db.connection() as connection:
            await self._agents.refresh(connection)
        self._unclaimed.begin(host)
        resync = partial(self._changes.put_nowait, Resync())
        self._tasks.spawn(self._leases.keep(resync), name="lease")
        self._tasks.spawn(self._poll(), name="poll")
        self._tasks.spawn(self.dialogue.poll(), name="dialogue")

    async def renew(self) -> bool:
        """Renew the lease; False if it was past already."""
        return await self._leases.renew()

    @property
    def ready(self) -> bool:
        """Whether this replica has a lease, as far as it knows."""
        return self._member.joined

    async def drain(self) -> bool:
        """Announce that this replica ends soon; return whether another one is alive."""
        try:
            async with self._db.connection() as connection:
                await connection.execute(
                    "UPDATE replicas SET draining = true WHERE id = $1", self._member.id
                )
                others = await connection.fetchval(
                    "SELECT count(*) FROM replicas WHERE NOT draining AND until > clock_timestamp()"
                )
                await self._agents.refresh(connection)
        except StorageError as error:
            _log.warning("replica %s cannot announce its end: %s", self._member.id, error)
            return False
        self._wakeups.tell([LOOK])
        return bool(others)

    async def leave(self, *, timeout: float) -> None:
        """Free this replica's sessions, and take part no longer. Idempotent."""
        epoch, self._member.epoch = self._member.epoch, 0
        await self._tasks.close()
        if epoch:
            await self._leases.leave(epoch, timeout=timeout)

    # --------------------------------------------------------------------------- changes

    async def changes(self) -> AsyncIterator[Change]:
        """Yield what other replicas change."""
        while True:
            yield await self._changes.get()

    def moved(self, jobs: Sequence[str] | set[str]) -> None:
        """Tell the other replicas that jobs have new events."""
        self._wakeups.tell(jobs)

    def _ended(self, jobs: Sequence[str]) -> None:
        """Tell this replica and the others that jobs have ended, which no replica has run."""
        self._heard(jobs)
        self._wakeups.tell(jobs)

    def questions_moved(self) -> None:
        """Report that questions have changed, here and to the other replicas."""
        self.dialogue.heard()
        self._wakeups.tell([PostgresDialogue.CHANGED])

    def _heard(self, job_ids: Sequence[str] | None) -> None:
        """Take the ids of a notification; ``None`` after a connection was lost."""
        if job_ids is None:
            self._changes.put_nowait(Resync())
        elif self._changes.qsize() < _MOST_WAITING:  # else the poll finds what has changed
            for job_id in job_ids:
                if job_id == LOOK:
                    self._look_now.set()
                elif job_id == UNCLAIMED:
                    self._unclaimed.look()
                elif job_id in (PostgresDialogue.OFFERED, PostgresDialogue.CHANGED):
                    self.dialogue.heard()
                else:
                    self._changes.put_nowait(JobMoved(job_id))

    def _spans(self) -> tuple[timedelta, timedelta]:
        bounds = self._bounds
        return timedelta(seconds=bounds.retention), timedelta(seconds=bounds.key_window)

    async def _poll(self) -> None:
        """Find, each second, what no notification has told."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL):
                    await self._look_now.wait()
            self._look_now.clear()
            self._polls += 1
            if not self._member.joined:
                continue
            try:
                await self._look()
            except StorageError as error:
                _log.warning("replica %s cannot poll: %s", self._member.id, error)

    async def _look(self) -> None:
        member = self._member
        held = dict(member.held)
        async with self._db.connection() as connection:
            replicas = await connection.fetch(
                "SELECT id, until < clock_timestamp() AS dead FROM replicas"
            )
            lost = await connection.fetch(
                "SELECT u.id FROM unnest($1::text[], $2::bigint[]) AS u(id, epoch) WHERE NOT EXISTS"
                " (SELECT 1 FROM sessions AS s WHERE s.id = u.id AND s.epoch = u.epoch)",
                list(held),
                list(held.values()),
            )
            cancelled = await connection.fetch(
                "SELECT id, cancel_reason FROM jobs WHERE runner = $1 AND ended_at IS NULL"
                " AND cancel_reason IS NOT NULL",
                member.id,
            )
            delegated = await connection.fetch(
                "SELECT w.session_id, w.job_id, w.next, w.first FROM watches AS w"
                " JOIN jobs AS j ON j.id = w.job_id WHERE w.session_id = ANY($1)"
                " AND j.owner_id = w.session_id AND j.ended_at IS NULL AND j.runner <> $2",
                list(held),
                member.id,
            )
            moved = await connection.fetch(
                "SELECT u.id FROM unnest($1::text[], $2::bigint[]) AS u(id, next) WHERE EXISTS"
                " (SELECT 1 FROM events AS e WHERE e.job_id = u.id AND e.idx >= u.next)",
                list(self._following),
                list(self._following.values()),
            )
            await self._agents.refresh(connection)
            if self._polls % _SWEEP_EVERY == 0:
                await connection.execute("SELECT sweep($1, $2)", *self._spans())
        for row in lost:
            if member.held.get(row["id"]) == held[row["id"]]:
                member.held.pop(row["id"])
                self._changes.put_nowait(SessionTaken(row["id"]))
        for row in cancelled:
            self._changes.put_nowait(CancelRequested(row["id"], row["cancel_reason"]))
        watches = {(row["session_id"], row["job_id"]): Watch(*row) for row in delegated}
        for name in watches.keys() - self._delegated:
            self._changes.put_nowait(JobDelegated(watches[name]))
        self._delegated = set(watches)
        for row in moved:
            self._following.pop(row["id"], None)
            self._changes.put_nowait(JobMoved(row["id"]))
        for row in replicas:
            if row["dead"] and await self._leases.reap(row["id"]):
                self._changes.put_nowait(ReplicaGone(row["id"]))

    def inventory(self, own: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the agents of all replicas, given this replica's."""
        return self._agents.merged(own)

    async def offer(self, reference: str) -> Offer | None:
        """Return the agent that a reference names on another replica that accepts jobs."""
        with refusals():
            return await self._agents.offer(reference)

    # -------------------------------------------------------------------------- sessions

    async def _repeated(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run a transaction that checks the lease, until its outcome is known.

        A connection that is lost in a commit leaves the outcome open, so ``work`` is repeated, and
        must allow for its own success. It ends at the latest with the lease.
        """
        member, delay = self._member, _FIRST_RETRY
        epoch = member.epoch
        while True:
            try:
                async with self._db.transaction() as connection:
                    return await work(connection)
            except StorageError as error:
                if error.sqlstate == FENCED:  # or a standby was promoted, and the lease continues
                    if not await self.renew():
                        member.fence(epoch)
                elif error.sqlstate or error.permanent:
                    raise
                else:
                    await asyncio.sleep(delay)
                    delay = min(2 * delay, _LAST_RETRY)
                if member.epoch != epoch or not epoch:
                    raise

    async def open_session(self, state: SessionState) -> None:
        """Register a new session, which this replica holds.

        Raises:
            RequestError: the principal has too many sessions, or the database is away.
        """
        member = self._member
        with refusals():

            async def register(connection: Any) -> int:
                await connection.execute("SELECT fence($1, $2)", member.id, member.epoch)
                await make_room(connection, state.principal, self._bounds.sessions)
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

            member.held[state.id] = await self._repeated(register)

    async def take_session(
        self, principal: str, session_id: str | None, token: bytes, last: int
    ) -> TakenSession | None:
        """Take over a session; ``None`` if this replica holds it already."""
        member = self._member
        with refusals():

            async def find(connection: Any) -> Any:
                await connection.execute("SELECT fence($1, $2)", member.id, member.epoch)
                return await self._find(connection, principal, session_id, token)

            row = await self._repeated(find)
            check_resume(row, principal, token, last)
            assert row is not None
            found: str = row["id"]
            if row["holder"] == member.id and member.held.get(found) == row["epoch"]:
                return None
            if found in member.held:
                member.lose(found)
            if self._host is not None:
                await self._host.flushed()  # nothing of an earlier epoch is stored after this

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
                return epoch, await self._content(connection, row)

            member.held[found], taken = await self._repeated(take)
        self._wakeups.tell([LOOK])
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

    async def end_session(self, session_id: str) -> None:
        """Forget a session for ever."""
        self._member.held.pop(session_id, None)
        with refusals():
            async with self._db.connection() as connection:
                await connection.execute("DELETE FROM sessions WHERE id = $1", session_id)

    # ------------------------------------------------------------------------------ jobs

    async def find_key(
        self, principal: str, key: str, parameters: bytes, session_id: str
    ) -> Mapping[str, Any] | None:
        """Return the acceptance of an earlier submit with this key."""
        with refusals():
            async with self._db.connection() as connection:
                row = await connection.fetchrow(
                    "SELECT parameters, accepted, job_id FROM keys WHERE principal = $1"
                    " AND key = $2 AND at >= clock_timestamp() - $3::interval",
                    principal,
                    key,
                    timedelta(seconds=self._bounds.key_window),
                )
                if row is None:
                    return None
                await connection.execute(AUTHORIZE, row["job_id"], session_id)
        return same_submit(row, parameters)

    async def authorize(self, job_id: str, session_id: str) -> None:
        """Let a session cancel a job."""
        with refusals():
            async with self._db.connection() as connection:
                await connection.execute(AUTHORIZE, job_id, session_id)

    async def accept(
        self, job: LoggedJobState, key: KeyState | None, unclaimed: JobInput | None = None
    ) -> Mapping[str, Any] | None:
        """Register a new job together with its key; return that of an earlier submit."""
        member = self._member
        epoch = member.held.get(job.owner_id)

        async def register(connection: Any) -> Any:
            row = await connection.fetchrow(
                f"SELECT * FROM accept_job({', '.join(f'${n}' for n in range(1, 18))})",
                member.id,
                member.epoch,
                None if epoch is None else job.owner_id,
                epoch,
                job.id,
                job.principal,
                job.agent,
                job.owner_id,
                list(job.authorities),
                job.trace_id,
                parse_time(job.created) or datetime.now(UTC),
                encoded(job),
                job.accepted,
                None if key is None else key.key,
                None if key is None else key.parameters,
                timedelta(seconds=self._bounds.key_window),
                self._bounds.jobs,
            )
            if row is None and unclaimed is not None:
                await self._unclaimed.put(connection, job, unclaimed, self._bounds.unclaimed)
            return row

        try:
            row = await self._repeated(register)
        except StorageError as error:
            if error.sqlstate == _EXISTS:  # by an attempt whose outcome was open
                return None
            if error.sqlstate == LOST:
                member.lose(job.owner_id)
            if error.sqlstate == TOO_MANY:
                raise request_error(
                    names.INTERNAL_ERROR, "too many jobs of this principal are open", retryable=True
                ) from None
            raise away(error) from error
        if row is not None and row["job_id"] != job.id:
            return same_submit(row, b"" if key is None else key.parameters)
        if unclaimed is not None:
            self._wakeups.tell([UNCLAIMED])
        return None

    def vacant(self) -> None:
        """Look for a job that waits for a replica, because a slot is free."""
        self._unclaimed.vacant()

    async def release(self, jobs: Sequence[tuple[LoggedJobState, JobInput]]) -> frozenset[str]:
        """Hand jobs that have not started to the other replicas that have their agents."""
        wanted = [pair for pair in jobs if self._agents.has(pair[0].agent)]
        if not wanted:
            return frozenset()
        with refusals():
            return await self._unclaimed.release(wanted, self._bounds.unclaimed)

    async def job(self, job_id: str) -> KnownJob | None:
        """Return a job."""
        with refusals():
            async with self._db.connection() as connection:
                row = await connection.fetchrow(f"{JOB} WHERE j.id = $1", job_id)
        return None if row is None else known_job(row)

    async def jobs(
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

    async def cancel(self, job_id: str, reason: str) -> None:
        """Record that a job must end."""
        with refusals():
            ended = await self._unclaimed.cancel(job_id, reason)
        if ended:
            self._ended([job_id])
        else:
            self._wakeups.tell([LOOK])
