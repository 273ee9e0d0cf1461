"""Agents of the npm SDK behind its own server for WebSockets and HTTP, in another process."""

from __future__ import annotations

import asyncio
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from arcp_client import WebSocketConnector
from arcp_client.acp import AcpClient, AcpLimits, HttpConnector, updates
from arcp_client.acp._http import dialing
from arcp_client.errors import ConnectFailed, LinkLost, RemoteProtocolError
from tests.e2e import shell
from tests.interop.acp.conftest import NPM_SDK, npm_program
from tests.unit.runtime.certificate import self_signed

pytestmark = pytest.mark.timeout(120)

SECRET = "s3cr3t-of-the-test"


class Server:
    """A node process that serves one of the agents, as one test sees it."""

    def __init__(self, process: subprocess.Popen[str], port: int, scheme: str) -> None:
        self._process = process
        self.url = f"{scheme}://127.0.0.1:{port}/acp"

    def order(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def requests(self) -> list[str]:
        """What the server was asked over HTTP: method, protocol version and session."""
        assert self._process.stdout is not None
        self.order("requests")
        told: list[str] = json.loads(self._process.stdout.readline())
        return told


Started = tuple[subprocess.Popen[str], int]
Serve = Callable[..., AbstractContextManager[Server]]


@contextmanager
def started(name: str, token: str, tls: str) -> Iterator[Started]:
    """A node process, and the port on which it listens for WebSockets and HTTP.

    With ``tls``, a folder with a certificate, it takes HTTP/2 only.
    """
    program = npm_program(name)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        program["argv"],
        env={**program["env"], "ACP_LISTEN": "1", "ACP_TOKEN": token, "ACP_TLS": tls},
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
            process.stdin.close()
            process.wait(10)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def shared() -> Iterator[Callable[[str, str, str], Started]]:
    """Servers that are started once for all tests: the agents keep nothing of a connection."""
    with ExitStack() as stack:
        yield functools.cache(lambda *kind: stack.enter_context(started(*kind)))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate of this machine."""
    folder: Path = tmp_path_factory.mktemp("tls")
    self_signed(folder)
    return folder


@pytest.fixture(params=["ws", "http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    scheme: str = request.param
    return scheme


@pytest.fixture
def tls(
    scheme: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The folder of the certificate, which is trusted, if the scheme needs it."""
    if scheme != "https":
        yield ""
        return
    folder: Path = request.getfixturevalue("certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
    dialing._made.cache_clear()
    yield str(folder)
    dialing._made.cache_clear()


@pytest.fixture
def serve(scheme: str, tls: str, shared: Callable[[str, str, str], Started]) -> Serve:
    """The server of an agent; with ``alone``, one that no other test uses, which then ends.

    The one of ``https`` takes HTTP/2 only.
    """
    if not (NPM_SDK.parents[1] / "ws").exists():
        pytest.skip("the npm package ws is not installed: `make npm` installs it")

    @contextmanager
    def served(
        name: str = "agent_npm.mjs", token: str = "", *, alone: bool = False
    ) -> Iterator[Server]:
        kind = (name, token, tls)
        with started(*kind) if alone else nullcontext(shared(*kind)) as process:
            yield Server(*process, scheme)

    return served


def texts_of(session: Any) -> list[str]:
    said: list[str] = []
    session.subscribe(lambda u: said.append(u.content.text), updates.AgentMessageChunk)
    return said


def trusting(tls: str) -> dict[str, str]:
    return {"SSL_CERT_FILE": f"{tls}/cert.pem"} if tls else {}


async def test_prompts_end_after_their_updates_in_order(serve: Serve) -> None:
    with serve() as server:
        async with AcpClient(server.url) as agent:
            assert agent.protocol_version == 1
            assert agent.info is not None
            assert agent.info.name == "npm agent"
            session = await agent.new_session("/")
            said = texts_of(session)
            for number in range(50):
                assert (await session.prompt("five")).stop_reason == "end_turn"
                assert said == ["0", "1", "2", "3", "4"] * (number + 1)
            await session.load("/")
            assert said[-5:] == ["0", "1", "2", "3", "4"]


async def test_a_permission_is_asked_over_the_link(serve: Serve) -> None:
    asked: list[str] = []

    async def ask(request: Any) -> bool:
        asked.append(request.tool_call.title)
        return True

    with serve() as server:
        async with AcpClient(server.url, on_permission=ask) as agent:
            session = await agent.new_session("/")
            said = texts_of(session)
            await session.prompt("ask")
            assert len(asked) == 1
            assert said


@pytest.mark.parametrize("versions", [(1, 2), (2, 1), (2,)])
async def test_an_agent_that_speaks_version_2_only(serve: Serve, versions: tuple[int, ...]) -> None:
    closed: list[Any] = []
    with serve("agent_npm2.mjs") as server:
        client = AcpClient(server.url, versions=versions, on_permission=lambda _: True)
        client.on_closed(closed.append)
        async with client as agent:
            assert agent.protocol_version == 2
            assert closed == []
            session = await agent.new_session("/")
            said = texts_of(session)
            for number in range(5):
                assert (await session.prompt(f"prompt {number}")).stop_reason == "end_turn"
                assert said[-2:] == [f"prompt {number}", "selected"]
    assert closed == [None]


@pytest.mark.parametrize(("order", "code"), [("cut", 1006), ("close", 1005)])
async def test_a_lost_link_fails_pending_calls_with_its_reason(
    serve: Serve, scheme: str, order: str, code: int
) -> None:
    with serve() as server:
        async with AcpClient(server.url) as agent:
            session = await agent.new_session("/")
            first = asyncio.Event()
            session.subscribe(lambda _: first.set(), updates.AgentMessageChunk)
            turn = asyncio.create_task(session.prompt("wait"))
            await first.wait()
            server.order(order)
            with pytest.raises(LinkLost, match="127.0.0.1") as caught:
                await turn
            if scheme == "ws":
                assert caught.value.close_code == code
            assert isinstance(await agent.wait_closed(), LinkLost)


async def test_a_new_client_goes_on_with_the_session(serve: Serve) -> None:
    with serve() as server:
        async with AcpClient(server.url) as agent:
            session = await agent.new_session("/")
            server.order("cut")
            await agent.wait_closed()
        async with AcpClient(server.url) as agent:
            again = agent.session(session.id)
            said = texts_of(again)
            await again.load("/")
            assert said == ["0", "1", "2", "3", "4"]


async def test_a_new_client_replays_the_session_in_version_2(serve: Serve) -> None:
    with serve("agent_npm2.mjs") as server:
        options: dict[str, Any] = {"versions": (2,), "on_permission": lambda _: True}
        async with AcpClient(server.url, **options) as agent:
            session = await agent.new_session("/")
            await session.prompt("hello")
            server.order("cut")
            assert isinstance(await agent.wait_closed(), LinkLost)
        async with AcpClient(server.url, **options) as agent:
            again = agent.session(session.id)
            told: list[str] = []
            again.subscribe(
                lambda u: told.append(u.content.text),
                updates.UserMessageChunk,
                updates.AgentMessageChunk,
            )
            await again.load("/")  # session/resume with replayFrom
            assert told == ["before", "said"]
            assert (await again.prompt("more")).stop_reason == "end_turn"
            assert told[-2:] == ["more", "selected"]


async def test_a_large_history_comes_before_the_end_of_its_load(serve: Serve) -> None:
    with serve() as server:
        async with AcpClient(server.url) as agent:
            session = agent.session("large")
            said = texts_of(session)
            for _ in range(5):
                said.clear()
                await session.load("/")
                assert [text.rstrip("x") for text in said] == [str(n) for n in range(1000)]


async def test_frames_that_are_no_messages_are_reported_and_skipped(serve: Serve) -> None:
    with serve() as server:
        async with AcpClient(server.url) as agent:
            strange: list[Exception] = []
            three = asyncio.Event()

            @agent.on_strange
            def report(error: Exception) -> None:
                strange.append(error)
                if len(strange) == 3:
                    three.set()

            server.order("garbage")
            await three.wait()
            session = await agent.new_session("/")
            assert (await session.prompt("five")).stop_reason == "end_turn"


@pytest.mark.parametrize("scheme", ["ws"], indirect=True)
async def test_a_frame_over_the_limit_ends_the_link_and_names_the_limit(serve: Serve) -> None:
    limits = AcpLimits(max_line=50_000)
    with serve() as server:
        async with AcpClient(server.url, limits=limits) as agent:
            server.order("large")
            error = await agent.wait_closed()
            assert isinstance(error, LinkLost)
            assert error.close_code == 1009
            assert "50000 bytes" in str(error)


@pytest.mark.parametrize("scheme", ["http", "https"], indirect=True)
async def test_an_event_over_the_limit_is_skipped_and_reported(serve: Serve) -> None:
    limits = AcpLimits(max_line=50_000)
    with serve() as server:
        async with AcpClient(server.url, limits=limits) as agent:
            strange: list[RemoteProtocolError] = []
            told = asyncio.Event()

            @agent.on_strange
            def report(error: RemoteProtocolError) -> None:
                strange.append(error)
                told.set()

            server.order("large")
            await told.wait()
            assert "an event of 100000 bytes is over this side's limit of 50000" in str(strange[0])
            session = await agent.new_session("/")
            assert (await session.prompt("five")).stop_reason == "end_turn"


@pytest.mark.parametrize("scheme", ["http", "https"], indirect=True)
async def test_requests_carry_cookies_version_and_session_and_the_last_one_ends_the_link(
    serve: Serve,
) -> None:
    with serve(alone=True) as server:
        async with AcpClient(server.url) as agent:
            session = await agent.new_session("/")
            await session.prompt("five")
            await session.close()
            assert [s async for s in agent.list_sessions()]
        assert server.requests() == [
            "POST undefined undefined",  # initialize
            "GET 1 undefined",
            "cookie",
            "POST 1 undefined",  # session/new
            "cookie",
            "GET 1 s1",
            "cookie",
            "POST 1 s1",  # session/prompt
            "cookie",
            "POST 1 s1",  # session/close
            "cookie",
            "POST 1 undefined",  # session/list
            "cookie",
            "DELETE 1 undefined",
            "cookie",
        ]


async def test_a_token_is_needed_and_never_shown(serve: Serve, scheme: str) -> None:
    with serve(token=SECRET) as server:
        async with AcpClient(server.url, token=SECRET) as agent:
            assert SECRET not in repr(agent)
        headers = {"Authorization": f"Bearer {SECRET}"}
        connector: Any = WebSocketConnector if scheme == "ws" else HttpConnector
        async with AcpClient(connector(server.url, headers=headers)) as agent:
            assert agent.protocol_version == 1
        for token in (None, f"{SECRET}-old"):
            with pytest.raises(ConnectFailed, match="401.*token") as caught:
                await AcpClient(f"{server.url}?key={SECRET}", token=token).connect()
            assert caught.value.permanent
            assert SECRET not in str(caught.value)


async def test_refused_upgrades_say_what_to_check(serve: Serve) -> None:
    with serve(alone=True) as server:
        with pytest.raises(ConnectFailed, match="404.*check port and path") as caught:
            await AcpClient(f"{server.url}/other").connect()
        assert caught.value.permanent
        url = server.url
    with pytest.raises(ConnectFailed, match="127.0.0.1") as caught:
        await AcpClient(url).connect()
    assert not caught.value.permanent


@pytest.mark.parametrize("scheme", ["https"], indirect=True)
async def test_a_server_of_http_2_only_says_what_to_install_without_the_extra(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "h2", None)
    with serve() as server:
        with pytest.raises(ConnectFailed, match="install 'arcp-client.http2.'") as caught:
            await AcpClient(server.url).connect()
        assert caught.value.permanent


async def test_the_command_talks_to_an_agent_at_a_url_and_shows_no_token(
    serve: Serve, tls: str, tmp_path: Path
) -> None:
    env = shell.fresh(tmp_path) | trusting(tls)
    (tmp_path / "token").write_text(f"{SECRET}\n", encoding="utf-8")

    async def run(url: str, *words: str, **variables: str) -> Any:
        return await asyncio.to_thread(shell.run, {**env, **variables}, "acp", url, *words)

    with serve(token=SECRET) as server:
        secret_url = f"{server.url}?key={SECRET}"
        file = ("--token-file", str(tmp_path / "token"))
        done = await run(server.url, "--prompt", "five", ARCP_ACP_TOKEN=SECRET)
        assert (done.returncode, done.stdout) == (0, "01234\n"), done.stderr
        done = await run(server.url, *file, "--resume", "--prompt", "one more", "--json")
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line["content"]["text"] for line in lines[:-1]] == [*"01234", "more"]
        assert lines[-1]["stopReason"] == "end_turn"
        for words in ([], ["--session", "s1"]):
            done = await run(secret_url, *words, "--prompt", "one x", ARCP_TOKEN=SECRET)
            assert done.returncode == 3
            assert "401" in done.stderr
            assert "ARCP_ACP_TOKEN or --token-file gives a token" in done.stderr
            assert SECRET not in done.stdout + done.stderr
    saved = "".join(path.read_text() for path in tmp_path.rglob("chats.json"))
    assert "127.0.0.1" in saved
    assert SECRET not in saved


async def test_the_command_chooses_the_versions(serve: Serve, tls: str, tmp_path: Path) -> None:
    env = shell.fresh(tmp_path) | trusting(tls)
    with serve("agent_npm2.mjs") as server:
        words = ("acp", server.url, "--allow", "edit", "--prompt", "hello", "--versions")
        done = await asyncio.to_thread(shell.run, env, *words, "2")
        assert done.returncode == 0, done.stderr
        assert "hello" in done.stdout
        done = await asyncio.to_thread(shell.run, env, *words, "1")
        assert done.returncode == 3
        assert "speaks protocol version 2, and this client 1: choose other vers" in done.stderr
        assert "try again" not in done.stderr
