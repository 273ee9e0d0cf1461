"""Lets one call to the database fail in replicas of this process, and a client that survives it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

import arcp_client
from arcp_client._postgres.database import Database
from arcp_client._wire import names
from arcp_client.errors import ConnectFailed, LinkLost
from arcp_client.runtime import Runtime
from arcp_client.runtime._connection.connection import Connection
from arcp_client.runtime._core import Core
from arcp_client.runtime._dialogue.shared_book import SharedQuestionBook
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.outcomes import Failure
from arcp_client.runtime._jobs.runner import Runner
from tests.unit.runtime.peer import Frame, Peer

SOURCE = str(Path(arcp_client.__file__).parent)
FAULTS = ("refused", "unknown", "cancelled", "cut", "away")
POLLS = ("_poll", ".poll", "_send", "UnclaimedJobs._run", "Leases.keep")
"""Parts of the places of calls that a replica makes again and again."""
LONG = 0.8
"""Seconds that a statement or its answer is under way at most."""
AWAY = 0.3
"""Seconds for which a replica loses the database."""
CANCELLED = Failure(names.STATUS_CANCELLED, names.CODE_CANCELLED, "by the test")


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the database: who makes it, for the how-many-th time, and what can befall it."""

    replica: str
    place: str
    nth: int
    faults: tuple[str, ...] = ()

    @property
    def polls(self) -> bool:
        """Whether the replica makes it also if nothing happens."""
        return any(poll in self.place for poll in POLLS)

    def __str__(self) -> str:
        return f"{self.replica} {self.place} #{self.nth}."


class Interruption:
    """Counts the calls of all replicas to the database, and lets one of them fail.

    Each statement is a call. In a transaction, the first one can be refused, and the outcome of its
    commit can be unknown.

    Args:
        words: the first call whose text has all of them fails; without any, all are recorded.
        fault: one of `FAULTS`.
        delays: chooses how long each statement and its answer are under way; ``None`` for no time.

    Attributes:
        moves: the calls so far that were no polls.
    """

    def __init__(self, *words: str, fault: str = "", delays: random.Random | None = None) -> None:
        self.words = words
        self.fault = fault
        self._delays = delays
        self.calls: list[Call] = []
        self.moves = 0
        self.joined: set[str] = set()
        self.struck = False
        self.cancelled: set[str] = set()
        self._away: str | None = None
        self._counts: Counter[tuple[str, str]] = Counter()

    def connections(self, replica: str) -> type[Any]:
        """The class of the connections of a replica."""
        interruption = self
        base = Database.connection_class

        class Interrupted(base):  # type: ignore[misc, valid-type]
            async def execute(self, query: str, *args: Any, **options: Any) -> Any:
                call = partial(super().execute, query, *args, **options)
                if args:  # `_execute` follows
                    return await call()
                return await interruption.made(replica, self, query, call)

            async def _execute(self, query: str, *args: Any, **options: Any) -> Any:
                call = partial(super()._execute, query, *args, **options)
                return await interruption.made(replica, self, query, call)

            async def _executemany(self, query: str, *args: Any, **options: Any) -> Any:
                call = partial(super()._executemany, query, *args, **options)
                return await interruption.made(replica, self, query, call)

        return Interrupted

    async def made(
        self, replica: str, connection: Any, query: str, call: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Make a call, or let it fail."""
        if self._delays is None or replica not in self.joined:
            return await self._made(replica, connection, query, call)
        # What is cancelled meanwhile has begun no transaction, and has no other way to end one.
        if not query.startswith(("COMMIT", "ROLLBACK")):
            await asyncio.sleep(self._delay(self._delays))
        try:
            return await self._made(replica, connection, query, call)
        finally:
            if not query.startswith(("BEGIN", "ROLLBACK")):
                await asyncio.sleep(self._delay(self._delays))

    def _delay(self, delays: random.Random) -> float:
        """Mostly none; at times longer than a poll, as if a process had been suspended."""
        kind = delays.random()
        if kind < 0.7:
            return 0.0
        return delays.uniform(0.0, 0.02 if kind < 0.95 else LONG)

    async def _made(
        self, replica: str, connection: Any, query: str, call: Callable[[], Awaitable[Any]]
    ) -> Any:
        if self._away == replica:
            raise lost(connection)
        begins, commits = query.startswith("BEGIN"), query.startswith("COMMIT")
        within = connection.is_in_transaction()
        if replica not in self.joined:
            return await call()
        if query.startswith("ROLLBACK") or (within and not (begins or commits)):
            return await call()
        frames = callers()
        place = " < ".join(frames) + (" COMMIT" if commits else "")
        self._counts[replica, place] += 1
        found = Call(replica, place, self._counts[replica, place], self._possible(begins, commits))
        self.calls.append(found)
        self.moves += not found.polls
        name = str(found)
        wanted = self.fault in found.faults and all(word in name for word in self.words)
        if self.struck or not wanted:
            return await call()
        self.struck = True
        return await self._strike(replica, connection, call)

    def _possible(self, begins: bool, commits: bool) -> tuple[str, ...]:
        faults = []
        if not commits:
            faults += ["refused", "away"]
        if not begins:
            faults += ["unknown"]
            if victim() is not None:
                faults += ["cancelled"]
        if not commits and isinstance(victim(), Connection):
            faults += ["cut"]
        return tuple(faults)

    async def _strike(
        self, replica: str, connection: Any, call: Callable[[], Awaitable[Any]]
    ) -> Any:
        if self.fault == "refused":
            raise lost(connection)
        if self.fault == "away":
            self._away = replica
            asyncio.get_running_loop().call_later(AWAY, self.back)
            raise lost(connection)
        struck = victim()
        if self.fault == "cut":
            assert isinstance(struck, Connection)
            await struck._transport.close(timeout=0)
            return await call()
        result = await call()
        if self.fault == "unknown":
            raise lost(connection)
        if isinstance(struck, Connection):
            cancel(struck)
        elif struck is not None:  # as if its client had cancelled it
            runner, job = struck
            self.cancelled.add(job.id)
            runner.stop(job, CANCELLED)
        await asyncio.sleep(0)
        return result

    def back(self) -> None:
        """Let the database be there again."""
        self._away = None


def lost(connection: Any) -> Exception:
    """What is raised for a call whose connection was lost."""
    connection.terminate()
    return asyncpg.ConnectionDoesNotExistError("the connection was lost")


def frames_of() -> list[Any]:
    """The frames of the package below this call, the innermost first."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        if frame.f_code.co_filename.startswith(SOURCE):
            found.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def callers() -> list[str]:
    """The functions of the package that make a call, the innermost first."""
    found = [
        frame.f_code.co_qualname.replace(".<locals>", "")
        for frame in frames_of()
        if not frame.f_code.co_filename.endswith("database.py")
    ]
    return found[:5]


def victim() -> Connection | tuple[Runner, ServerJob] | None:
    """The connection, or the job, for which a call is made."""
    for frame in frames_of():
        given, of = frame.f_locals, frame.f_locals.get("self")
        for name in ("line", "connection"):
            if isinstance(given.get(name), Connection):
                return given[name]  # type: ignore[no-any-return]
        if isinstance(of, Core) and isinstance(given.get("parent"), ServerJob):
            return of.jobs.runner, given["parent"]
        if isinstance(of, SharedQuestionBook) and isinstance(given.get("job"), ServerJob):
            return of._jobs.runner, given["job"]
    return None


def cancel(connection: Connection) -> None:
    """Cancel the task of a link."""
    for task in asyncio.all_tasks():
        coro: Any = task.get_coro()
        if coro.cr_code is Connection.run.__code__ and coro.cr_frame.f_locals["self"] is connection:
            task.cancel()


class Turns:
    """Connects to each of some runtimes in turn; a balancer."""

    target = "memory:turns"

    def __init__(self, *runtimes: Runtime) -> None:
        self.runtimes = list(runtimes)

    async def connect(self) -> Any:
        self.runtimes.append(self.runtimes.pop(0))
        return await self.runtimes[-1].connect()


class Persistent:
    """A raw client that resumes its session on the next replica whenever its link ends.

    A request whose link ended, or whose refusal is retryable, is sent again.

    Attributes:
        events: the numbered frames, each once.
        odd: what should not have come.
    """

    def __init__(self, *runtimes: Runtime) -> None:
        self._turns = list(runtimes)
        self._answers: dict[str, asyncio.Future[Frame]] = {}
        self._peer: Peer | None = None
        self._state: Frame | None = None
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._ending = False
        self.last = 0
        self.at: Runtime | None = None
        self.events: list[Frame] = []
        self.odd: list[Any] = []
        self.notices: list[str] = []

    async def open(self) -> Persistent:
        self._task = asyncio.create_task(self._run())
        await self._link()
        return self

    async def _run(self) -> None:
        try:
            await self._stay_connected()
        except Exception as error:
            self.odd.append(error)
        self._ending = True
        await self._note(None)

    async def _stay_connected(self) -> None:
        while not self._ending:
            try:
                peer = await self._connected()
            except (LinkLost, ConnectFailed):
                self._turns.append(self._turns.pop(0))
                continue
            if peer is None:
                await asyncio.sleep(0.02)
                continue
            self.at = self._turns[0]
            await self._note(peer)
            try:
                while True:
                    await self._read(await peer.read())
            except LinkLost:
                await self._note(None)
            finally:
                await peer.close()
            self._turns.append(self._turns.pop(0))

    async def _connected(self) -> Peer | None:
        peer = await Peer.to(self._turns[0])
        state = self._state
        resume = None if state is None else {**state, "last_event_seq": self.last}
        try:
            reply = await peer.hello(resume=resume)
        except BaseException:
            await peer.close()
            raise
        if reply["type"] == "session.welcome":
            if resume is not None and not reply["payload"]["resumed"]:
                self.odd.append(reply)
            self._state = peer.block()
            return peer
        await peer.close()
        if not reply["payload"]["retryable"]:
            self.odd.append(reply)
            self._ending = True
        self._turns.append(self._turns.pop(0))
        return None

    async def _note(self, peer: Peer | None) -> None:
        async with self._changed:
            self._peer = peer
            for answer in self._answers.values():
                if peer is None and not answer.done():
                    answer.cancel()
            self._changed.notify_all()

    async def _read(self, frame: Frame) -> None:
        seq = frame.get("event_seq")
        request = frame["payload"].get("request_id")
        if seq is not None:
            if seq == self.last + 1:
                self.last = seq
                self.events.append(frame)
            elif seq > self.last:
                self.odd.append(("gap", self.last, frame))
            else:
                self.odd.append(("repeated", self.last, frame))
        elif request in self._answers:
            if not self._answers[request].done():
                self._answers[request].set_result(frame)
        elif frame["type"] == "session.error" and not frame["payload"]["retryable"]:
            self.odd.append(frame)
        else:
            self.notices.append(frame["type"])
        async with self._changed:
            self._changed.notify_all()

    async def _link(self) -> Peer:
        async with self._changed:
            await self._changed.wait_for(lambda: self._peer is not None or self._ending)
        assert self._peer is not None, self.odd
        return self._peer

    async def ask(self, type: str, payload: Frame) -> Frame:
        """Make a request until it is answered, other than by a retryable refusal."""
        while True:
            peer = await self._link()
            answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
            request = ""
            try:
                request = await peer.send(type, payload)
                self._answers[request] = answer
                frame = await answer
            except LinkLost:
                await asyncio.sleep(0)
                continue
            except asyncio.CancelledError:
                if not answer.cancelled():
                    raise
                continue
            finally:
                self._answers.pop(request, None)
            if frame["type"] == "session.error" and frame["payload"]["retryable"]:
                await asyncio.sleep(0.05)
                continue
            return frame

    async def submit(self, agent: str, input: Any, **options: Any) -> str:
        answer = await self.ask("job.submit", {"agent": agent, "input": input, **options})
        assert answer["type"] == "job.accepted", answer
        job_id: str = answer["payload"]["job_id"]
        return job_id

    async def hop(self) -> None:
        """Cut the link, and continue on the next replica."""
        peer = await self._link()
        await peer.cut()
        await self._note(None)
        await self._link()

    async def acknowledge(self) -> None:
        """Acknowledge all events."""
        with contextlib.suppress(LinkLost):
            await (await self._link()).send("session.ack", {"last_processed_seq": self.last})

    async def until(self, enough: Callable[[], Any]) -> None:
        """Wait for what a frame brings."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._ending or enough())
        assert enough(), self.odd

    def of(self, job_id: str) -> list[Frame]:
        """The events of a job."""
        return [frame for frame in self.events if frame["job_id"] == job_id]

    def ended(self, job_id: str) -> bool:
        return any(f["type"] in ("job.result", "job.error") for f in self.of(job_id))

    async def close(self) -> None:
        self._ending = True
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task


@contextlib.asynccontextmanager
async def persistent(*runtimes: Runtime) -> AsyncIterator[Persistent]:
    client = Persistent(*runtimes)
    try:
        yield await client.open()
    finally:
        await client.close()
