"""Kills replicas, clients and the database while jobs run, and checks what was seen."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg

from arcp_client.testing import FaultyProxy
from tests.alone import ROOT
from tests.e2e.shell import COMMAND, fresh
from tests.postgres import PASSWORD, Cluster, free_port
from tests.replicas.balancer import RecordingBalancer

FAULTS = (
    "kill a replica",
    "kill a replica",
    "kill a client",
    "kill a client",
    "kill the database",
    "stop a replica",
    "cut a replica from the database",
    "terminate a listener",
    "restart all replicas",
)
SCHEMA = "arcp"


@dataclass(frozen=True)
class Size:
    """How much happens. Times are in seconds.

    ``lease`` is that of replicas and of the stores of clients. ``late`` is how long after the lease
    of a dead replica its jobs may take to end.
    """

    replicas: int = 3
    clients: int = 12
    jobs: int = 40
    events: int = 500
    watched: int = 8
    pause: float = 0.04
    lease: float = 5.0
    spacing: tuple[float, float] = (2.0, 5.0)
    late: float = 2.0
    deadline: float = 150.0


def once(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines without the events that were seen before: these must be flagged as redelivered."""
    known: set[tuple[str, int]] = set()
    first = []
    for line in seen:
        what = line["type"], line["n"]
        if what in known:
            assert line["again"], line
        else:
            known.add(what)
            first.append(line)
    return first


def accepted(job_id: str) -> float:
    """When a job was accepted, in seconds since 1970: the time in its ULID."""
    moment = 0
    for digit in job_id.removeprefix("job_")[:10]:
        moment = moment * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(digit)
    return moment / 1000


class Replica:
    """One ``arcp-client serve`` process, and its ways to both databases."""

    def __init__(self, port: int, ways: list[FaultyProxy]) -> None:
        self.port = port
        self.ways = ways
        self.process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The id of its process, which is a part of the replica's id."""
        assert self.process is not None
        return self.process.pid

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Chaos:
    """One run.

    Args:
        seed: chooses the order of the faults, their victims, and the pauses between them.
        folder: for the files of the clients and the logs of the replicas.
        size: how much happens.
        faults: what happens.
    """

    def __init__(
        self, seed: int, folder: Path, size: Size, faults: tuple[str, ...] = FAULTS
    ) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.size = size
        self.faults = list(faults)
        self.rng.shuffle(self.faults)
        self.primary = Cluster(Cluster.make_folder())
        self.standby: Cluster | None = None
        self.balancer = RecordingBalancer()
        self.promoted = False
        self.replicas: list[Replica] = []
        self.begun: list[Replica] = []
        self.clients: dict[str, asyncio.subprocess.Process] = {}
        self.told: defaultdict[str, list[str]] = defaultdict(list)
        self.dead: dict[int, float] = {}
        self.database_killed = 0.0
        self.rolled: tuple[float, float] = (0.0, 0.0)
        self.job_ids: dict[int, str] = {}
        self._stack = contextlib.AsyncExitStack()
        self._readers: dict[str, asyncio.Task[bool]] = {}
        self._log = (folder / "replicas.log").open("ab")

    # ------------------------------------------------------------------------ databases

    async def begin(self) -> None:
        """Start the databases, the replicas and the clients."""
        await asyncio.to_thread(self.primary.create)
        self.standby = await asyncio.to_thread(self.primary.standby)
        self.primary.configure("synchronous_standby_names = 'standby'")
        await asyncio.to_thread(self.primary.reload)
        await self._stack.enter_async_context(self.balancer)
        await self.replica()
        await self.audit()
        await asyncio.gather(*(self.replica() for _ in range(self.size.replicas - 1)))
        for n in range(self.size.clients):
            await self.client(f"client-{n}")
        while len(self.job_ids) < min(self.size.clients, self.size.jobs):
            await asyncio.sleep(0.05)

    @property
    def serving(self) -> Cluster:
        """The database that accepts writes."""
        assert self.standby is not None
        return self.standby if self.promoted else self.primary

    @contextlib.asynccontextmanager
    async def database(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(
            self.serving.dsn, server_settings={"search_path": SCHEMA}
        )
        yield connection
        await connection.close()

    async def audit(self) -> None:
        """Note which epoch of a replica writes, and when an epoch ends, in the same order."""
        async with self.database() as connection:
            row = await connection.fetchrow(
                "SELECT pg_get_function_arguments(oid) AS arguments, proargnames AS names"
                f" FROM pg_proc WHERE proname = 'write_batch'"
                f" AND pronamespace = '{SCHEMA}'::regnamespace"
            )
            await connection.execute(
                "CREATE TABLE audit (n bigserial, replica text, epoch bigint, ended boolean);"
                "ALTER FUNCTION write_batch RENAME TO audited_write_batch;"
                f"CREATE FUNCTION write_batch({row['arguments']}) RETURNS text[]"
                f" LANGUAGE plpgsql SET search_path = {SCHEMA} AS $$"
                " DECLARE lost text[]; BEGIN"
                f" lost := audited_write_batch({', '.join(row['names'])});"
                " INSERT INTO audit (replica, epoch, ended) VALUES (p_replica, p_epoch, false);"
                " RETURN lost; END $$;"
                "CREATE FUNCTION audit_end() RETURNS trigger LANGUAGE plpgsql"
                f" SET search_path = {SCHEMA} AS $$ BEGIN"
                " INSERT INTO audit (replica, epoch, ended) VALUES (OLD.id, OLD.epoch, true);"
                " RETURN OLD; END $$;"
                "CREATE TRIGGER audit_end AFTER DELETE ON replicas"
                " FOR EACH ROW EXECUTE FUNCTION audit_end()"
            )

    # ------------------------------------------------------------------------- replicas

    async def replica(self) -> Replica:
        """Start a replica, and let the balancer use it once it is ready."""
        assert self.standby is not None
        ways = [
            await self._stack.enter_async_context(FaultyProxy("127.0.0.1", each.port))
            for each in (self.primary, self.standby)
        ]
        hosts = ",".join(f"127.0.0.1:{way.port}" for way in ways)
        dsn = f"postgresql://arcp:{PASSWORD}@{hosts}/postgres?target_session_attrs=read-write"
        made = Replica(free_port(), ways)
        self.begun.append(made)
        made.process = await asyncio.create_subprocess_exec(
            *COMMAND, "serve", "--port", str(made.port), "--agents", "tests.replicas.ticking:make",
            "--lease", str(self.size.lease), "--grace", "60",
            cwd=ROOT, env=fresh(self.folder) | {"ARCP_STORE": dsn},
            stdout=self._log, stderr=self._log,
        )  # fmt: skip
        async with aiohttp.ClientSession() as session:
            while made.process.returncode is None:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"http://127.0.0.1:{made.port}/readyz") as answer:
                        if answer.status == 200:
                            break
                await asyncio.sleep(0.05)
        assert made.process.returncode is None, (self.folder / "replicas.log").read_text()[-3000:]
        self.replicas.append(made)
        self.balancer.targets.append(made.port)
        return made

    def drop(self, replica: Replica) -> None:
        self.replicas.remove(replica)
        self.balancer.targets.remove(replica.port)

    # -------------------------------------------------------------------------- clients

    async def client(self, name: str) -> None:
        """Start a client, or continue a killed one."""
        assert self.standby is not None
        number = int(name.rpartition("-")[2])
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        given = {
            "url": self.balancer.url,
            "name": name,
            "out": str(self.folder / f"{name}.jsonl"),
            "store": f"postgresql://arcp:{PASSWORD}@{hosts}/postgres"
            if number % 2
            else str(self.folder / f"{name}.db"),
            "lease": self.size.lease,
            "jobs": list(range(number, self.size.jobs, self.size.clients)),
            "input": {"count": self.size.events, "pause": self.size.pause},
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.replicas.chaos_client", json.dumps(given),
            cwd=ROOT, env=fresh(self.folder), stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        self.clients[name] = process
        for job_id in self.told[name]:
            self.tell(name, job_id)
        self._readers[name] = asyncio.create_task(self.read(name, process))

    def tell(self, name: str, job_id: str) -> None:
        stdin = self.clients[name].stdin
        assert stdin is not None
        stdin.write(f"{job_id}\n".encode())

    async def read(self, name: str, process: asyncio.subprocess.Process) -> bool:
        """Read a client's output; return whether its jobs have ended."""
        assert process.stdout is not None
        async for line in process.stdout:
            found = json.loads(line)
            if "done" in found:
                return True
            number, job_id = found["job"], found["id"]
            assert self.job_ids.setdefault(number, job_id) == job_id
            if number < self.size.watched:
                watcher = f"client-{(number + 1) % self.size.clients}"
                if job_id not in self.told[watcher]:
                    self.told[watcher].append(job_id)
                    self.tell(watcher, job_id)
        return False

    # --------------------------------------------------------------------------- faults

    async def run(self) -> None:
        """Let everything happen, until all clients have ended."""
        try:
            async with asyncio.timeout(self.size.deadline):
                await self.begin()
                for fault in self.faults:
                    await asyncio.sleep(self.rng.uniform(*self.size.spacing))
                    print(f"{time.time():.1f} {fault}", flush=True)
                    await self.happen(fault)
                for name in list(self.clients):
                    assert await self._readers[name], f"{name} failed"
                for process in self.clients.values():
                    assert process.stdin is not None
                    process.stdin.close()
                for name, process in self.clients.items():
                    assert await process.wait() == 0, f"{name} failed"
        except BaseException:
            with contextlib.suppress(Exception):
                await self.explain()
            print((self.folder / "replicas.log").read_text(errors="replace")[-6000:])
            raise

    async def happen(self, fault: str) -> None:
        match fault:
            case "kill a replica":
                victim = self.rng.choice(self.replicas)
                self.drop(victim)
                self.dead[victim.pid] = time.time()
                victim.signal(signal.SIGKILL)
                await self.replica()
            case "kill a client":
                await self.kill_client()
            case "kill the database":
                assert self.standby is not None
                self.database_killed = time.time()
                self.primary.kill()
                await asyncio.to_thread(self.standby.promote)
                self.promoted = True
            case "stop a replica":
                victim = self.rng.choice(self.replicas)
                self.balancer.targets.remove(victim.port)  # as the probe of a balancer does
                self.dead[victim.pid] = time.time()
                victim.signal(signal.SIGSTOP)
                await asyncio.sleep(2 * self.size.lease)
                victim.signal(signal.SIGCONT)
                self.balancer.targets.append(victim.port)
            case "cut a replica from the database":
                for way in self.rng.choice(self.replicas).ways:
                    way.cut()
            case "terminate a listener":
                async with self.database() as connection:
                    await connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE application_name = 'arcp-client' AND query LIKE 'LISTEN%'"
                        " ORDER BY random() LIMIT 1"
                    )
            case "restart all replicas":
                begun = time.time()
                for old in tuple(self.replicas):
                    await self.replica()
                    self.drop(old)
                    old.signal(signal.SIGTERM)
                self.rolled = begun, time.time()

    async def kill_client(self) -> None:
        name = self.rng.choice([n for n, p in self.clients.items() if p.returncode is None])
        process = self.clients[name]
        process.kill()
        await process.wait()
        await self._readers[name]
        await self.client(name)

    async def end(self) -> None:
        """End all processes and delete the databases."""
        for task in self._readers.values():
            task.cancel()
        for process in self.clients.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        for replica in self.begun:
            if replica.process is not None:
                replica.signal(signal.SIGKILL)
                await replica.process.wait()
        await self._stack.aclose()
        if self.standby is not None:
            await asyncio.to_thread(self.standby.remove)
        await asyncio.to_thread(self.primary.remove)
        self._log.close()

    # --------------------------------------------------------------------------- checks

    def lines(self, name: str) -> list[dict[str, Any]]:
        """What a client has noted."""
        text = (self.folder / f"{name}.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    async def check(self) -> str:
        """Check what clients saw, what went over the wire, and what is stored; return numbers."""
        completed: set[str] = set()
        failed: set[str] = set()
        handled = again = 0
        away: list[float] = []
        for name in self.clients:
            events: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
            reached: defaultdict[str, int] = defaultdict(int)
            before: dict[tuple[str, str], int] = {}
            since: float | None = None
            for line in self.lines(name):
                match line["kind"]:
                    case "event":
                        of = line["observer"], line["job"]
                        before.setdefault(of, reached[line["job"]])
                        events[of].append(line)
                        reached[line["job"]] = max(reached[line["job"]], line["n"])
                    case "completed":
                        completed.add(line["job"])
                    case "failed":
                        assert line["retryable"], line
                        assert line["code"] == "INTERNAL_ERROR", line
                        failed.add(line["job"])
                    case "link" if line["state"] == "Reconnecting":
                        since = since or line["at"]
                    case "link" if line["state"] == "Live" and since is not None:
                        if self.rolled[0] <= since <= self.rolled[1]:
                            away.append(line["at"] - since)
                        since = None
            number = int(name.rpartition("-")[2])
            own = {self.job_ids[n] for n in range(number, self.size.jobs, self.size.clients)}
            for (observer, job), seen in events.items():
                if observer == "session" and job not in own:
                    continue  # the iterator of `watch` is checked, which also has the history
                first = once(seen)
                again += len(seen) - len(first)
                handled += len(first)
                where = f"{name}, {observer}, job {job}"
                # A session that is resumed by a new process goes on after what it has processed.
                known = 0 if observer == "session" else before[observer, job]
                self.check_observer(where, first, known, whole=job in completed)
        assert not completed & failed
        assert len(completed | failed) == self.size.jobs
        for key, ids in self.balancer.ids.items():
            assert len(ids) == 1, f"number {key} was sent with the ids {ids}"
        for job, ids in self.balancer.ends.items():
            assert len(ids) == 1, f"job {job} ended more than once: {ids}"
        late = await self.check_database(failed)
        passed = sum(len(ports) > 1 for ports in self.balancer.passed.values())
        away.sort()
        p95 = away[math.ceil(0.95 * len(away)) - 1] if away else 0.0
        return (
            f"{len(completed)} jobs completed, {len(failed)} ended retryable"
            f" (latest {late:.1f} s after their replica); {handled} events observed once and in"
            f" order, {again} flagged as redelivered; {len(self.balancer.ids)} numbers on the wire,"
            f" 0 with two ids; {passed} jobs went through several replicas; links away in the"
            f" rolling restart: {len(away)}, p95 {p95:.2f} s, longest {max(away, default=0):.2f} s"
        )

    def check_observer(
        self, where: str, seen: list[dict[str, Any]], known: int, *, whole: bool
    ) -> None:
        """Check what an observer saw of a job, given the last event that its client knew before."""
        gaps = [line["reason"] for line in seen if line["type"] == "Gap"]
        assert not gaps, (where, gaps)
        numbers = [line["n"] for line in seen if line["type"] == "Progress"]
        first = numbers[0] if numbers else 1
        assert 1 <= first <= known + 1, (where, first, known)
        assert numbers == list(range(first, first + len(numbers))), (where, numbers)
        ends = [line["type"] for line in seen if line["type"] in ("Completed", "Failed")]
        assert len(ends) <= 1, (where, ends)
        if whole and not (", watch" in where and not ends):  # that observer was killed
            assert ends == ["Completed"], (where, ends)
            assert seen[-1]["type"] == "Completed", where
            assert not numbers or numbers[-1] == self.size.events, where
            assert numbers or known == self.size.events, where

    async def explain(self) -> None:
        """Print the jobs that have not ended, and what is stored of them."""
        async with self.database() as connection:
            for row in await connection.fetch(
                "SELECT id, status, runner, ended_at, owner_id, (SELECT holder FROM sessions AS s"
                " WHERE s.id = owner_id) AS holder, (SELECT max(idx + count) FROM events AS e"
                " WHERE e.job_id = jobs.id) AS events, (SELECT max(idx + count) FROM numbers AS n"
                " WHERE n.job_id = jobs.id AND n.session_id = owner_id) AS numbered FROM jobs"
            ):
                print(dict(row))
            for row in await connection.fetch("SELECT id, until, draining FROM replicas"):
                print(dict(row))

    async def check_database(self, failed: set[str]) -> float:
        async with self.database() as connection:
            fenced = await connection.fetch(
                "SELECT w.replica, w.epoch FROM audit AS w JOIN audit AS e"
                " ON e.replica = w.replica AND e.epoch = w.epoch AND e.ended"
                " WHERE NOT w.ended AND w.n > e.n"
            )
            assert not fenced, f"fenced replicas wrote: {fenced}"
            rows = await connection.fetch(
                "SELECT job_id, idx, count, type FROM events ORDER BY job_id, idx"
            )
            jobs = await connection.fetch("SELECT id, runner, ended_at FROM jobs")
            numbers = await connection.fetch(
                "SELECT session_id, seq, count FROM numbers ORDER BY session_id, seq"
            )
        runs: defaultdict[str, list[Any]] = defaultdict(list)
        for row in rows:
            runs[row["job_id"]].append(row)
        for job_id, stored in runs.items():
            for before, after in itertools.pairwise(stored):
                assert before["idx"] + before["count"] == after["idx"], (job_id, before, after)
            ends = sum(row["type"].count(b"job.result") + row["type"].count(b"job.error")
                       for row in stored)  # fmt: skip
            assert ends == 1, (job_id, ends)
        for before, after in itertools.pairwise(numbers):
            if before["session_id"] == after["session_id"]:
                assert before["seq"] + before["count"] <= after["seq"], (before, after)
        assert len(jobs) == self.size.jobs
        assert all(row["ended_at"] for row in jobs)
        late = 0.0
        for row in jobs:
            died = self.dead.get(int(row["runner"].split("-")[-2])) if row["runner"] else None
            if row["id"] in failed and died is not None:
                took = row["ended_at"].timestamp() - died
                if accepted(row["id"]) > died:  # by a stopped replica that went on later
                    continue
                if not died < self.database_killed < died + took:  # then it had to wait for it
                    late = max(late, took)
        bound = self.size.lease + self.size.late
        assert late <= bound, f"a job of a dead replica ended after {late} s"
        return late
