"""Secrets show in no log, repr, exception, pickle, traceback or store row.

Every secret of these tests is a word that occurs nowhere else, so finding one is finding a leak.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import pickle
import sqlite3
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tenacity import wait_fixed

from arcp_client import (
    Client,
    JobContext,
    Lease,
    MemoryStore,
    Reconnect,
    Runtime,
    SqliteStore,
    Timeouts,
)
from arcp_client.errors import ArcpError
from arcp_client.models import Checkpoint, Credential
from arcp_client.testing import FaultyConnector, Repeat
from arcp_client.transports import WebSocketConnector
from arcp_client.transports.base import Transport

BEARER = "canary-bearer-5f1c"
RESUME = "canary-resume-9a77"
QUICK = Reconnect(wait=wait_fixed(0.0))


class Cage:
    """Collects everything that a careless program would write down."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self.secrets = [BEARER, RESUME]
        self.looked_at = 0

    def look(self, what: str, text: str) -> None:
        self.looked_at += 1
        for secret in self.secrets:
            assert secret not in text, f"{secret} shows in {what}: {text[:2000]}"

    def show(self, thing: object, what: str) -> None:
        self.look(f"the repr of {what}", f"{thing!r} {thing}")

    def error(self, error: BaseException) -> None:
        self.show(error, type(error).__name__)
        self.look("the arguments", repr(error.args) + repr(vars(error)))
        if isinstance(error, ArcpError):
            self.look("the pickle", repr(pickle.dumps(error)))
        # As error trackers print it: each frame with its locals.
        told = traceback.TracebackException.from_exception(error, capture_locals=True)
        ours = [line for line in told.format() if "/tests/" not in line.split("\n")[0]]
        self.look("a traceback with locals", "".join(ours))
        for next_one in (error.__cause__, error.__context__):
            if next_one is not None:
                self.error(next_one)

    def logs(self) -> None:
        formatter = logging.Formatter("%(name)s %(message)s")
        for record in self._caplog.records:
            self.look("a log line", formatter.format(record) + repr(record.args))


@pytest.fixture
def cage(caplog: pytest.LogCaptureFixture) -> Iterator[Cage]:
    caplog.set_level(logging.DEBUG)
    cage = Cage(caplog)
    yield cage
    cage.logs()
    assert cage.looked_at


def give_sync() -> str:
    return BEARER


async def give_async() -> SecretStr:
    return SecretStr(BEARER)


@pytest.mark.parametrize("token", [BEARER, SecretStr(BEARER), give_sync, give_async])
async def test_refused_tokens(cage: Cage, token: Any) -> None:
    async with Runtime(auth={"right": "alice"}) as runtime, runtime.serve() as server:
        for target in (runtime, server.url):
            client = Client(target, token=token)
            with pytest.raises(ArcpError) as caught:
                await client.connect()
            cage.error(caught.value)
            cage.show(client, "the client")
            cage.show(client.state, "the state")
            cage.show(client.stats(), "the counters")


@pytest.mark.parametrize(
    "url",
    [
        "ws://127.0.0.1:1/arcp",
        f"ws://user:{BEARER}@127.0.0.1:1/arcp?token={BEARER}#{BEARER}",
        f"ws://name.invalid/arcp?token={BEARER}",
        f"http://user:{BEARER}@127.0.0.1/",
        f"ws://[{BEARER}",
    ],
)
async def test_failures_to_connect(cage: Cage, url: str) -> None:
    connector = WebSocketConnector(url, headers={"X-Key": BEARER})
    client = Client(connector, token=BEARER, timeouts=Timeouts(open=0.2))
    with pytest.raises(ArcpError) as caught:
        await client.connect()
    cage.error(caught.value)
    cage.show(connector, "the connector")
    cage.show(client.state, "the state")


async def test_a_provider_whose_error_holds_the_token(cage: Cage) -> None:
    def give() -> str:
        raise ValueError(f"cannot renew {BEARER}")

    async with Runtime() as runtime:
        client = Client(runtime, token=give, timeouts=Timeouts(open=0.1))
        with pytest.raises(ArcpError) as caught:
            await client.connect()
        cage.error(caught.value)


async def test_a_connector_of_the_users_that_fails(cage: Cage) -> None:
    class Broken:
        target = "test://broken"

        async def connect(self) -> Transport:
            raise ConnectionRefusedError("refused")

    client = Client(Broken(), token=BEARER, timeouts=Timeouts(open=0.05))
    with pytest.raises(ArcpError) as caught:
        await client.connect()
    cage.error(caught.value)


async def test_resumes_that_are_refused(cage: Cage, tmp_path: Path) -> None:
    async with Runtime(auth={BEARER: "alice"}) as runtime:
        for store in (MemoryStore(), SqliteStore(tmp_path / "kept.db")):
            await store.acquire(runtime.target, "default")
            checkpoint = Checkpoint(session_id="sess_gone", resume_token=RESUME, mark=3)
            cage.show(checkpoint, "a checkpoint")
            await store.save(runtime.target, "default", checkpoint)
            await store.release(runtime.target, "default")
            client = Client(runtime, token=BEARER, store=store, reconnect=QUICK)
            async with client:
                assert not client.resumed
                cage.show(client.session, "the session")
                cage.show(store, "the store")
                token = client._engine._session.resume_token
                assert token is not None
                cage.secrets.append(token.get_secret_value())
                cage.show(client.session, "the session")
                frames = [task.get_stack() for task in asyncio.all_tasks()]
                for frame in (frame for stack in frames for frame in stack):
                    if "/arcp_client/" in frame.f_code.co_filename:
                        shown = {name: repr(value) for name, value in frame.f_locals.items()}
                        cage.look(f"the locals of {frame.f_code.co_name}", repr(shown))


async def test_stores_that_fail_while_they_hold_a_token(cage: Cage) -> None:
    class Failing(MemoryStore):
        async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
            cage.secrets.append(checkpoint.resume_token)
            raise sqlite3.OperationalError(f"cannot insert {checkpoint.resume_token}")

    async with Runtime() as runtime:
        client = Client(runtime, token=BEARER, store=Failing())
        await client.connect()
        await client.detach()
        assert len(cage.secrets) > 2
        cage.show(client, "the client")


async def test_the_bearer_token_is_in_no_row_of_a_store(cage: Cage, tmp_path: Path) -> None:
    async with Runtime(auth={BEARER: "alice"}) as runtime:

        @runtime.agent("echo")
        async def echo(input: Any, job: JobContext) -> Any:
            return input

        client = Client(runtime, token=BEARER, store=SqliteStore(tmp_path / "kept.db"))
        await client.connect()
        await (await client.submit("echo", 1)).result()
        await client.detach()
    cage.secrets = [BEARER]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            cage.look(path.name, path.read_bytes().decode("latin-1"))


async def test_frames_that_cannot_be_read(cage: Cage) -> None:
    """A welcome with its token that comes twice, garbled frames with secrets in them."""
    async with Runtime(auth={BEARER: "alice"}) as runtime:

        def garble(transport: Transport) -> None:
            receive = transport.receive
            seen: list[bytes] = []

            async def garbled() -> bytes:
                if not seen:
                    frame = await receive()
                    seen.append(frame)
                    return frame
                if len(seen) < 5:
                    seen.append(b"")
                    broken = seen[0].replace(b'"type"', b'"ty\\qpe"')
                    return [broken, broken[:-3], b"\xff" + broken, seen[0]][len(seen) - 2]
                return await receive()

            transport.receive = garbled  # type: ignore[method-assign]

        class Garbling:
            target = "test://garbling"

            async def connect(self) -> Transport:
                transport = await runtime.connect()
                garble(transport)
                return transport

        connector = FaultyConnector(Garbling(), plan=[Repeat(0)])
        async with Client(connector, token=BEARER) as client:
            token = client._engine._session.resume_token
            assert token is not None
            cage.secrets.append(token.get_secret_value())
            await client.ping()
            cage.show(client.session, "the session")
    gc.collect(1)


async def test_credentials_of_jobs(cage: Cage) -> None:
    secret = "canary-credential-33d0"
    cage.secrets.append(secret)

    async with Runtime() as runtime:

        @runtime.agent("echo")
        async def echo(input: Any, job: JobContext) -> Any:
            return input

        async with Client(runtime) as client:
            job = await client.submit("echo", 1, lease=Lease())
            credential = Credential(id="c", scheme="bearer", value=SecretStr(secret))
            job._record.credentials["c"] = credential
            cage.show(job, "the job")
            cage.show(job.credentials, "the credentials")
            cage.show(client, "the client")
            cage.look("the JSON", credential.model_dump_json())
            await job.result()
