"""Arguments of the dashboard that make no sense are refused by name; secrets are not shown."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from arcp_client import Client, Runtime
from arcp_client.web import add_ag_ui_routes, add_routes, serve, sse

NAN, INFINITE = float("nan"), float("inf")


def client() -> Client:
    return Client(Runtime())


def given(call: Callable[..., Any], name: str, value: Any) -> Any:
    """The call with one argument of the caller's."""
    right = {
        "app": web.Application(), "client": client(), "agent": "a", "path": "/a", name: value,
    }  # fmt: skip
    needed = inspect.signature(call).parameters
    return call(**{each: right[each] for each in needed if each in right})


WRONG: dict[tuple[Callable[..., Any], str], list[Any]] = {
    (serve, "client"): [None, 5, "ws://h"],
    (serve, "host"): [None, 5, b"h"],
    (serve, "port"): [None, -1, 1.5, "80"],
    (serve, "token"): [5, b"sesame", ["sesame"], ""],
    (serve, "allow_control"): [None, 1, "no"],
    (serve, "allowed_hosts"): [None, 5, "jobs.example", [5]],
    (serve, "secrets"): [None, 5, "sesame", [5], {"a": "sesame"}],
    (add_routes, "app"): [None, 5, web.Application],
    (add_routes, "client"): [None, 5, "ws://h"],
    (add_routes, "prefix"): [None, 5, "dashboard", "/", "/a/", "/a b"],
    (add_routes, "token"): [5, b"sesame", ["sesame"], ""],
    (add_routes, "allow_control"): [None, 1, "no"],
    (add_routes, "allowed_hosts"): [None, 5, "jobs.example", [5]],
    (add_routes, "secrets"): [None, 5, "sesame", [5], {"a": "sesame"}],
    (add_routes, "memory"): [None, 0, -1, 1.5, "5"],
    (add_routes, "linger"): [None, -1, NAN, INFINITE, "5"],
    (add_ag_ui_routes, "app"): [None, 5, web.Application],
    (add_ag_ui_routes, "client"): [None, 5, "ws://h"],
    (add_ag_ui_routes, "agent"): [None, 5, ""],
    (add_ag_ui_routes, "path"): [None, 5, "", "a"],
    (add_ag_ui_routes, "input"): [5, "f"],
    (add_ag_ui_routes, "lease"): [5, "fs", ["fs"]],
    (add_ag_ui_routes, "max_runtime"): [0, -1, NAN, "5"],
    (sse, "job"): [None, 5, "job_1"],
}


@pytest.mark.parametrize(("call", "name"), WRONG, ids=lambda each: getattr(each, "__name__", each))
def test_a_call_says_which_argument_is_wrong(call: Callable[..., Any], name: str) -> None:
    for value in WRONG[call, name]:
        with pytest.raises((TypeError, ValueError), match=name) as caught:
            given(call, name, value)
        assert type(caught.value) in (TypeError, ValueError), value
        assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("call", [serve, add_routes, add_ag_ui_routes, sse])
def test_every_argument_is_in_the_table(call: Callable[..., Any]) -> None:
    named = set(inspect.signature(call).parameters) - {"hosts"}  # the former name of allowed_hosts
    assert {name for of, name in WRONG if of is call} == named
