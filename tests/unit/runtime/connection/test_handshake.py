"""The first frames: who comes in, with what, and who does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client._dialects import recognise
from arcp_client._wire.names import OFFERED
from arcp_client.runtime import Limits, Runtime
from tests.unit.runtime.peer import Peer

TOKENS = {"t-alice": "alice", "t-bob": "bob"}


async def test_a_hello_gets_a_welcome_with_all_that_clients_look_for(
    make: Any, open_peer: Any
) -> None:
    runtime = make(name="mine", version="9.9")

    @runtime.agent("a", "1.0")
    async def one(input: Any, job: Any) -> None: ...

    @runtime.agent("a", "2.0", default=True)
    async def two(input: Any, job: Any) -> None: ...

    @runtime.agent("plain")
    async def plain(input: Any, job: Any) -> None: ...

    peer = await open_peer(runtime)
    payload = peer.welcome["payload"]
    assert peer.welcome["session_id"] == payload["session_id"]
    assert payload["runtime"]["name"] == "mine"
    assert payload["runtime"]["version"] == "9.9"
    assert recognise(payload).name == "arcp-client"
    assert payload["resume_window_sec"] == 600
    assert payload["heartbeat_interval_sec"] == 30
    assert payload["accepted_at"].endswith("Z")
    assert set(payload["capabilities"]["features"]) == set(OFFERED) - {"provisioned_credentials"}
    assert payload["capabilities"]["agents"] == [
        {"name": "a", "versions": ["1.0", "2.0"], "default": "2.0"},
        {"name": "plain", "versions": []},
    ]


async def test_only_features_of_both_sides_are_negotiated(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime, features=("ack", "unheard_of"))
    payload = peer.welcome["payload"]
    assert payload["capabilities"]["features"] == ["ack"]
    assert "heartbeat_interval_sec" not in payload


@pytest.mark.parametrize("token", ["", "wrong", "\ud800"])
async def test_a_wrong_token_is_told_so_and_the_link_ends(make: Any, token: str) -> None:
    peer = await Peer.to(make(auth=TOKENS))
    reply = await peer.hello(token=token)
    assert reply["type"] == "session.error"
    assert reply["payload"]["code"] == "UNAUTHENTICATED"
    assert reply["payload"]["request_id"]
    assert await peer.ended() == []


async def test_an_authenticator_may_be_a_coroutine_function(make: Any, open_peer: Any) -> None:
    async def who(token: str) -> str | None:
        await asyncio.sleep(0)
        return token.removeprefix("t-") if token.startswith("t-") else None

    runtime = make(auth=who)
    assert (await open_peer(runtime, token="t-eve")).session_id
    refused = await (await Peer.to(runtime)).hello(token="x")
    assert refused["payload"]["code"] == "UNAUTHENTICATED"
    empty = await (await Peer.to(runtime)).hello(token="t-")  # nobody is no principal
    assert empty["payload"]["code"] == "UNAUTHENTICATED"


async def test_a_failing_authenticator_is_an_internal_error_without_its_text(make: Any) -> None:
    async def broken(token: str) -> str | None:
        raise RuntimeError(f"no database for {token}")

    peer = await Peer.to(make(auth=broken))
    reply = await peer.hello(token="canary")
    assert reply["payload"]["code"] == "INTERNAL_ERROR"
    assert reply["payload"]["retryable"] is True
    assert "canary" not in str(reply)
    assert await peer.ended() == []


@pytest.mark.parametrize(
    "frame",
    [
        b'{"type":"job.submit","id":"x","payload":{"agent":"a"}}',
        b'{"type":"session.ping","id":"x","payload":{"nonce":"n"}}',
        b'{"type":"job.event","id":"x","payload":{"kind":"log","body":{}}}',
        b'{"type":"no.such","id":"x"}',
        b"[]",
        b"not json",
        b'{"type":"session.hello","id":"x","payload":{"auth":7}}',
    ],
)
async def test_nothing_is_done_before_authentication(make: Any, frame: bytes) -> None:
    runtime = make(auth=TOKENS)
    ran = False

    @runtime.agent("a")
    async def a(input: Any, job: Any) -> None:
        nonlocal ran
        ran = True

    peer = await Peer.to(runtime)
    await peer.raw(frame)
    reply = await peer.read()
    assert reply["type"] == "session.error"
    assert reply["payload"]["code"] == "INVALID_REQUEST"
    assert await peer.ended() == []
    assert not ran


async def test_a_silent_connection_is_closed(make: Any) -> None:
    peer = await Peer.to(make(limits=Limits(handshake_timeout=0.02)))
    (reply,) = await peer.ended()
    assert reply["payload"]["code"] == "UNAUTHENTICATED"


async def test_an_authenticator_that_hangs_does_not_keep_the_connection(make: Any) -> None:
    async def hang(token: str) -> str | None:
        await asyncio.Event().wait()
        return None

    peer = await Peer.to(make(auth=hang, limits=Limits(handshake_timeout=0.02)))
    await peer.send("session.hello", {"auth": {"token": "x"}})
    (reply,) = await peer.ended()
    assert reply["payload"]["code"] == "INTERNAL_ERROR"
    assert reply["payload"]["retryable"]


async def test_a_second_hello_is_refused_and_the_session_lives(
    runtime: Any, open_peer: Any
) -> None:
    peer = await open_peer(runtime)
    reply = await peer.ask("session.hello", {})
    assert reply["payload"]["code"] == "INVALID_REQUEST"
    await peer.send("session.ping", {"nonce": "n"})
    assert (await peer.read())["payload"]["ping_nonce"] == "n"


async def test_one_principal_cannot_open_sessions_without_end(make: Any, open_peer: Any) -> None:
    runtime = make(limits=Limits(sessions_per_principal=2), auth=TOKENS)
    first = await open_peer(runtime, token="t-alice")
    await open_peer(runtime, token="t-alice")
    refused = await (await Peer.to(runtime)).hello(token="t-alice")
    assert refused["payload"]["code"] == "INTERNAL_ERROR"
    assert refused["payload"]["retryable"] is True
    assert (await open_peer(runtime, token="t-bob")).session_id
    await first.send("session.close")
    await first.ended()
    assert (await open_peer(runtime, token="t-alice")).session_id  # the left one made room


async def test_logs_name_principals_and_never_tokens(
    make: Any, open_peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="arcp_client")
    runtime = make(auth=TOKENS)
    peer = await open_peer(runtime, token="t-alice")
    await (await Peer.to(runtime)).hello(token="t-wrong")
    assert "alice" in caplog.text
    for secret in ("t-alice", "t-wrong", peer.token):
        assert secret not in caplog.text


def test_a_runtime_says_whether_anybody_may_come_in() -> None:
    assert Runtime().open
    assert not Runtime(auth={"t": "alice"}).open
