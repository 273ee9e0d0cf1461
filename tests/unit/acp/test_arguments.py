"""Arguments of an ACP client that make no sense are refused by name, before anything is sent."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client.acp import AcpClient, AcpLimits, AcpSession, LocalFiles, LocalTerminals, updates
from tests.unit.acp.kit import connected, opened

NAN, INFINITE = float("nan"), float("inf")
SECONDS: list[Any] = ["5", True, NAN, INFINITE, -1]
TEXTS: list[Any] = [None, 5, b"text", ""]
PATHS: list[Any] = [5, "", "a\0b", ["a"]]
MAPPINGS: list[Any] = [5, "a", ["a"]]

MADE: dict[str, list[Any]] = {
    "argv": [None, 5, "agent --acp", "ftp://localhost/acp", [], [5]],
    "cwd": PATHS,
    "env": ["A=b", {5: "b"}, {"A": 5}],
    "on_permission": [5, "allow"],
    "fs": [5, "."],
    "terminal": [5, True],
    "on_elicitation": [5, "yes"],
    "limits": [5, {}],
    "capabilities": [5, {}],
    "info": [5, "name"],
    "versions": [None, 5, "12", (), (3,), (1, 1), ("1",)],
    "token": ["a token without a URL"],
}


@pytest.mark.parametrize("name", MADE)
def test_a_client_says_which_argument_is_wrong(name: str) -> None:
    for value in MADE[name]:
        with pytest.raises((TypeError, ValueError), match=name) as caught:
            AcpClient(**{"argv": ["agent"], name: value})
        assert type(caught.value) in (TypeError, ValueError), value


@pytest.mark.parametrize("token", [5, b"s3cr3t", "", "s3cr3t\n", "s3cr3t\u2019"])
def test_a_token_that_is_none_is_refused_without_showing_it(token: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="token") as caught:
        AcpClient("ws://localhost/acp", token=token)
    assert "s3cr3t" not in str(caught.value)


def test_an_environment_is_only_for_programs() -> None:
    with pytest.raises(ValueError, match="env is for an agent that is a program"):
        AcpClient("wss://localhost/acp", env={})


def test_the_name_of_an_agent_behind_a_url_has_no_secrets() -> None:
    client = AcpClient("wss://user:s3cr3t@localhost/acp?key=s3cr3t", cwd="/")
    assert repr(client) == "<AcpClient wss://localhost:443/acp not connected>"


def test_every_argument_of_a_client_is_in_the_table() -> None:
    assert set(inspect.signature(AcpClient).parameters) == set(MADE)


@pytest.mark.parametrize("name", list(inspect.signature(AcpLimits).parameters))
def test_limits_say_which_of_them_is_wrong(name: str) -> None:
    for value in ("5", -1, 0, NAN, INFINITE, [5]):
        with pytest.raises((TypeError, ValueError), match=rf"AcpLimits\.{name} must be ") as caught:
            AcpLimits(**{name: value})
        assert type(caught.value) in (TypeError, ValueError)


SERVICES: dict[tuple[Any, str], list[Any]] = {
    (LocalFiles, "root"): [None, *PATHS],
    (LocalFiles, "writable"): [None, 1],
    (LocalFiles, "max_bytes"): [None, 0, 1.5],
    (LocalTerminals, "limit"): [None, 0, 1.5],
    (LocalTerminals, "env"): [5, "A=1"],
    (LocalTerminals, "max_open"): [None, 0, 1.5],
    (LocalTerminals, "shell"): ["sh -c", [], [5]],
    (LocalTerminals, "grace"): [None, *SECONDS],
}


@pytest.mark.parametrize(("cls", "name"), SERVICES)
def test_a_service_says_which_argument_is_wrong(cls: Any, name: str) -> None:
    given = {"root": "."} if cls is LocalFiles else {}
    for value in SERVICES[cls, name]:
        with pytest.raises((TypeError, ValueError), match=name):
            cls(**{**given, name: value})
    assert set(inspect.signature(cls).parameters) == {each for of, each in SERVICES if of is cls}


CALLS: dict[tuple[Any, str, str], tuple[Callable[[AcpClient, AcpSession, Any], Any], list[Any]]] = {
    (AcpClient, "close", "drain"): (lambda c, _, v: c.close(drain=v), SECONDS),
    (AcpClient, "close", "timeout"): (lambda c, _, v: c.close(timeout=v), SECONDS),
    (AcpClient, "on_error", "hook"): (lambda c, _, v: c.on_error(v), [None, 5]),
    (AcpClient, "on_strange", "hook"): (lambda c, _, v: c.on_strange(v), [None, 5]),
    (AcpClient, "on_closed", "hook"): (lambda c, _, v: c.on_closed(v), [None, 5]),
    (AcpClient, "on_request", "method"): (lambda c, _, v: c.on_request(v), TEXTS),
    (AcpClient, "on_notification", "method"): (lambda c, _, v: c.on_notification(v), TEXTS),
    (AcpClient, "authenticate", "method_id"): (lambda c, _, v: c.authenticate(v), TEXTS),
    (AcpClient, "new_session", "cwd"): (lambda c, _, v: c.new_session(v), [None, *PATHS]),
    (AcpClient, "new_session", "mcp_servers"): (
        lambda c, _, v: c.new_session(mcp_servers=v),
        [None, 5, "server", [5]],
    ),
    (AcpClient, "new_session", "additional_directories"): (
        lambda c, _, v: c.new_session(additional_directories=v),
        [None, 5, "dir", [5]],
    ),
    (AcpClient, "new_session", "meta"): (lambda c, _, v: c.new_session(meta=v), MAPPINGS),
    (AcpClient, "fork_session", "source"): (lambda c, _, v: c.fork_session(v), [None, "s1"]),
    (AcpClient, "session", "session_id"): (lambda c, _, v: c.session(v), TEXTS),
    (AcpClient, "load_session", "session_id"): (lambda c, _, v: c.load_session(v), TEXTS),
    (AcpClient, "load_session", "cwd"): (lambda c, _, v: c.load_session("s1", v), PATHS),
    (AcpClient, "resume_session", "session_id"): (lambda c, _, v: c.resume_session(v), TEXTS),
    (AcpClient, "resume_session", "cwd"): (lambda c, _, v: c.resume_session("s1", v), PATHS),
    (AcpClient, "list_sessions", "cwd"): (lambda c, _, v: anext(c.list_sessions(cwd=v)), PATHS),
    (AcpClient, "delete_session", "session_id"): (lambda c, _, v: c.delete_session(v), TEXTS),
    (AcpClient, "request", "method"): (lambda c, _, v: c.request(v, {}), TEXTS),
    (AcpClient, "request", "params"): (lambda c, _, v: c.request("x/y", v), [None, *MAPPINGS]),
    (AcpClient, "request", "timeout"): (lambda c, _, v: c.request("x", {}, timeout=v), SECONDS),
    (AcpClient, "notify", "method"): (lambda c, _, v: c.notify(v, {}), TEXTS),
    (AcpClient, "notify", "params"): (lambda c, _, v: c.notify("x/y", v), [None, *MAPPINGS]),
    (AcpClient, "subscribe", "handler"): (
        lambda c, _, v: c.subscribe(v, updates.Update),
        [None, 5],
    ),
    (AcpSession, "prompt", "content"): (lambda _, s, v: s.prompt(v), [None, 5, [5], [None], {}]),
    (AcpSession, "prompt", "meta"): (lambda _, s, v: s.prompt("go", meta=v), MAPPINGS),
    (AcpSession, "load", "cwd"): (lambda _, s, v: s.load(v), PATHS),
    (AcpSession, "load", "mcp_servers"): (lambda _, s, v: s.load(mcp_servers=v), [5, [5]]),
    (AcpSession, "load", "additional_directories"): (
        lambda _, s, v: s.load(additional_directories=v),
        [5, "dir", [5]],
    ),
    (AcpSession, "load", "meta"): (lambda _, s, v: s.load(meta=v), MAPPINGS),
    (AcpSession, "resume", "cwd"): (lambda _, s, v: s.resume(v), PATHS),
    (AcpSession, "resume", "mcp_servers"): (lambda _, s, v: s.resume(mcp_servers=v), [5, [5]]),
    (AcpSession, "resume", "additional_directories"): (
        lambda _, s, v: s.resume(additional_directories=v),
        [5, "dir", [5]],
    ),
    (AcpSession, "resume", "meta"): (lambda _, s, v: s.resume(meta=v), MAPPINGS),
    (AcpSession, "set_mode", "mode"): (lambda _, s, v: s.set_mode(v), TEXTS),
    (AcpSession, "set_config_option", "option"): (
        lambda _, s, v: s.set_config_option(v, True),
        TEXTS,
    ),
    (AcpSession, "set_config_option", "value"): (
        lambda _, s, v: s.set_config_option("a", v),
        [None, 5, ["a"]],
    ),
    (AcpSession, "updates", "kinds"): (lambda _, s, v: s.updates(v), [None, 5, int, "plan"]),
    (AcpSession, "updates", "history"): (lambda _, s, v: s.updates(history=v), [None, 1]),
    (AcpSession, "subscribe", "handler"): (
        lambda _, s, v: s.subscribe(v, updates.Update),
        [None, 5],
    ),
}


@pytest.mark.parametrize(("cls", "call", "name"), CALLS)
async def test_a_call_says_which_argument_is_wrong(cls: Any, call: str, name: str) -> None:
    asked, values = CALLS[cls, call, name]
    async with connected() as (agent, client):
        session = await opened(agent, client)
        sent = len(agent.seen)
        for value in values:
            with pytest.raises((TypeError, ValueError)) as caught:
                done = asked(client, session, value)
                if inspect.isawaitable(done):
                    await done
            assert type(caught.value) in (TypeError, ValueError), (value, caught.value)
            said = str(caught.value)
            assert name in said or (name == "kinds" and "update class" in said), said
        await client.notify("x/last", {})
        assert (await agent.next())["method"] == "x/last"
        assert len(agent.seen) == sent + 1


@pytest.mark.parametrize("cls", [AcpClient, AcpSession])
def test_every_argument_of_every_verb_is_in_the_table(cls: type) -> None:
    for call, member in inspect.getmembers(cls, inspect.isfunction):
        if call.startswith("_"):
            continue
        for name, parameter in inspect.signature(member).parameters.items():
            if name != "self" and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                assert (cls, call, name) in CALLS, (call, name)
