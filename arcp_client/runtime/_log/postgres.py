"""A durable event log in PostgreSQL, which several replicas of one runtime share (§6.3)."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from arcp_client import _arguments as check
from arcp_client._postgres.database import Database, checked_dsn, checked_schema
from arcp_client._postgres.functions import FENCED
from arcp_client._wire.ids import new_id
from arcp_client.errors import StorageError
from arcp_client.runtime._log.directory import Directory
from arcp_client.runtime._log.entries import (
    Appended,
    Entry,
    Freed,
    Gone,
    LoggedJobState,
    Numbered,
    SessionState,
    Started,
    Stored,
    Trimmed,
    Watch,
)
from arcp_client.runtime._log.postgres_calls import CallBatch
from arcp_client.runtime._log.postgres_dialogue import DialogueBatch
from arcp_client.runtime._log.postgres_directory import PostgresDirectory
from arcp_client.runtime._log.postgres_members import Membership
from arcp_client.runtime._log.runs import event_runs, number_runs

__all__ = ["PostgresEventLog"]

MIB = 1024 * 1024


class PostgresEventLog:
    """Keeps sessions, jobs and events in PostgreSQL (14 or newer), for all replicas of a runtime.

    Every `Runtime` process with such a log of the same database and schema is a replica of one
    runtime: a client may start a job on one and resume, watch, cancel and list on any other. An
    event is stored before it is sent. The runtime that runs a job writes its events, and the one
    that holds a session writes its numbers; each write is refused, as a whole, once another replica
    has taken over.

    A replica renews its lease several times within ``lease`` seconds. If it cannot, it ends its
    links and its jobs. The others end its open jobs (INTERNAL_ERROR, retryable) and continue its
    sessions. While the database is away, emitting agents wait and new work is refused.

    The replicas may have different agents: another replica runs a job whose agent this one lacks.
    Questions of agents are answered, and messages to jobs sent, through any replica. Provisioned
    credentials are not offered.

    Args:
        dsn: ``postgresql://user:password@host:port/database``. Of several hosts, the
            one that accepts writes is used, so that the log follows a promoted standby.
        lease: seconds after which a silent replica counts as dead.
        schema: the schema; created on first use.
        replica: the id of this replica, which no other live replica may have; by default made of
            the host's name, the process id and a random part.
        max_events: events kept in memory for one session.
        max_bytes: bytes of events kept in memory for one session.
        relaxed: accept ``synchronous_commit = off``: a loss of power may then lose events that
            were sent.
    """

    durable = True

    def __init__(
        self,
        dsn: str,
        *,
        lease: float = 5.0,
        schema: str = "arcp",
        replica: str | None = None,
        max_events: int = 100_000,
        max_bytes: int = 64 * MIB,
        relaxed: bool = False,
    ) -> None:
        checked_dsn(dsn)
        checked_schema(schema)
        check.seconds("lease", lease, above=True)
        check.a_text("replica", replica, none=True)
        check.a_number("max_events", max_events, least=1)
        check.a_number("max_bytes", max_bytes, least=1)
        check.a_flag("relaxed", relaxed)
        self.max_events = max_events
        self.max_bytes = max_bytes
        name = replica or f"{socket.gethostname()}-{os.getpid()}-{new_id()[-8:]}"
        self._database = Database(dsn, schema, timeout=max(lease, 1.0), relaxed=relaxed)
        self._member = Membership(name)
        self._directory = PostgresDirectory(self._database, self._member, lease)

    def __repr__(self) -> str:
        return f"<PostgresEventLog {self._database.place} {self._database.schema}>"

    @property
    def path(self) -> str:
        """Hosts and database, for messages."""
        return self._database.place

    @property
    def replica(self) -> str:
        """The id of this replica."""
        return self._member.id

    def directory(self) -> Directory:
        """Return the directory: what the replicas know of each other's work."""
        return self._directory

    async def open(self) -> Stored:
        """Connect; create or upgrade the schema. What is stored is read when it is asked for.

        Raises:
            StorageError: the database cannot be used; the message says why.
        """
        await self._database.open()
        return Stored()

    async def write(self, entries: Sequence[Entry]) -> None:
        """Store entries atomically, as far as this replica may still write them.

        Entries of sessions that another replica has taken over are dropped, after these sessions
        were. If the lease of this replica is past, everything is dropped, after its sessions and
        jobs were.

        Raises:
            StorageError: the entries could not be stored.
        """
        member = self._member
        dialogue, calls = DialogueBatch(entries), CallBatch(entries)
        while True:
            # Taken before the wait for a connection, in which sessions and the lease may be lost.
            epoch, batch = member.epoch, WriteBatch(entries, member.held)
            if not epoch or not (
                batch or dialogue or calls
            ):  # fenced: nothing is stored, or will be sent
                return
            try:
                if dialogue or calls:
                    async with self._database.transaction() as connection:
                        lost = await self._write(connection, epoch, batch)
                        if lost is None:
                            if dialogue:
                                await dialogue.write(connection, member.id)
                            await calls.write(connection, member.id)
                else:  # one statement is a transaction
                    async with self._database.connection() as connection:
                        lost = await self._write(connection, epoch, batch)
            except StorageError as error:
                if error.sqlstate == FENCED:
                    if not await self._directory.renew():
                        member.fence(epoch)
                    continue
                # Never permanent: the journal would continue without storing anything.
                raise StorageError(str(error), path=error.path) from error
            if lost is None:
                if batch.last is not None and member.epoch == epoch:
                    member.numbered = batch.last
                self._directory.moved(batch.jobs)
                if dialogue.changes_questions:
                    self._directory.questions_moved()
                return
            for session_id in lost:
                if member.held.get(session_id) == batch.sessions[session_id]:
                    member.lose(session_id)

    async def _write(self, connection: Any, epoch: int, batch: WriteBatch) -> list[str] | None:
        lost: list[str] | None = await connection.fetchval(
            _WRITE,
            self._member.id,
            epoch,
            list(batch.sessions),
            list(batch.sessions.values()),
            *batch.columns(),
        )
        return lost

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._database.close()


_WRITE = f"SELECT write_batch({', '.join(f'${n}' for n in range(1, 35))})"
_encode = msgspec.msgpack.encode


class WriteBatch:
    """Entries as the columns that the function ``write_batch`` takes.

    Args:
        entries: the entries, in order.
        held: the epochs of the sessions that this replica holds; entries of others are left out.
    """

    def __init__(self, entries: Sequence[Entry], held: dict[str, int]) -> None:
        self._events: list[Appended] = []
        self._numbers: list[Numbered] = []
        self._states: dict[str, SessionState] = {}
        self._jobs: dict[str, LoggedJobState] = {}
        self._watches: dict[tuple[str, str], Watch] = {}
        self._freed: dict[str, int] = {}
        self._trimmed: dict[str, int] = {}
        self._gone_sessions: list[str] = []
        self._gone_jobs: list[str] = []
        self._started: list[str] = []
        used: set[str] = set()
        for entry in entries:
            session = (
                entry.id
                if isinstance(entry, SessionState)
                else (getattr(entry, "session_id", None))
            )
            if isinstance(entry, Appended):
                self._events.append(entry)
                if session is None or session not in held:
                    continue
                record = entry.record
                self._numbers.append(Numbered(session, entry.seq, record.job_id, record.index))
            elif session is not None and session not in held:
                continue
            elif isinstance(entry, Numbered):
                self._numbers.append(entry)
            elif isinstance(entry, SessionState):
                self._states[entry.id] = entry
            elif isinstance(entry, LoggedJobState):
                self._jobs[entry.id] = entry
            elif isinstance(entry, Watch):
                self._watches[entry.session_id, entry.job_id] = entry
            elif isinstance(entry, Freed):
                self._freed[entry.session_id] = max(
                    entry.floor, self._freed.get(entry.session_id, 0)
                )
            elif isinstance(entry, Started):
                self._started.append(entry.job_id)
            elif isinstance(entry, Trimmed):
                self._trimmed[entry.job_id] = entry.floor
            elif isinstance(entry, Gone):
                if entry.session_id is not None:
                    self._gone_sessions.append(entry.session_id)
                if entry.job_id is not None:
                    self._gone_jobs.append(entry.job_id)
            else:  # keys are stored with their jobs, questions by `DialogueBatch`
                continue
            if session is not None:
                used.add(session)
        self.sessions = {session: held[session] for session in sorted(used)}

    def __bool__(self) -> bool:
        return bool(
            self.sessions
            or self._events
            or self._jobs
            or self._trimmed
            or self._gone_jobs
            or self._started
        )

    @property
    def jobs(self) -> set[str]:
        """The ids of the jobs with new events or another state."""
        return {entry.record.job_id for entry in self._events} | self._jobs.keys()

    @property
    def last(self) -> tuple[str, int] | None:
        """A session and its highest number in this batch."""
        if not self._numbers:
            return None
        return self._numbers[-1].session_id, self._numbers[-1].seq

    def columns(self) -> Iterable[Any]:
        """Yield the columns, in the order of the function's parameters."""
        runs = event_runs(self._events)
        yield [run[0].record.job_id for run in runs]
        yield [run[0].record.index for run in runs]
        yield [len(run) for run in runs]
        yield [_encode([entry.record.id for entry in run]) for run in runs]
        yield [_encode([entry.record.type for entry in run]) for run in runs]
        yield [_encode([entry.record.payload for entry in run]) for run in runs]
        yield [_encode([entry.record.needs for entry in run]) for run in runs]
        ranges = number_runs(self._numbers)
        yield [run[0].session_id for run in ranges]
        yield [run[0].seq for run in ranges]
        yield [run[0].job_id for run in ranges]
        yield [run[0].index for run in ranges]
        yield [len(run) for run in ranges]
        states = list(self._states.values())
        yield [state.id for state in states]
        yield [state.floor for state in states]
        yield [_encode(state) for state in states]
        jobs = list(self._jobs.values())
        yield [job.id for job in jobs]
        yield [job.status for job in jobs]
        yield [job.ended is not None for job in jobs]
        yield [_encode(job) for job in jobs]
        watches = list(self._watches.values())
        yield [watch.session_id for watch in watches]
        yield [watch.job_id for watch in watches]
        yield [watch.next for watch in watches]
        yield [watch.first for watch in watches]
        yield list(self._freed)
        yield list(self._freed.values())
        yield list(self._trimmed)
        yield list(self._trimmed.values())
        yield self._gone_sessions
        yield self._gone_jobs
        yield self._started
