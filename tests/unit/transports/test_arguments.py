"""Arguments of connectors that make no sense are refused by name; secrets among them not shown."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client import StdioConnector, WebSocketConnector

NAN, INFINITE = float("nan"), float("inf")

MADE: dict[tuple[str, str], tuple[Callable[[Any], Any], list[Any]]] = {
    ("WebSocketConnector", "url"): (WebSocketConnector, [None, 5, b"ws://h"]),
    ("WebSocketConnector", "ssl"): (lambda v: WebSocketConnector("ws://h", ssl=v), ["no", 5]),
    ("WebSocketConnector", "headers"): (
        lambda v: WebSocketConnector("ws://h", headers=v),
        ["a: b", [("headers", "b")], {5: "b"}],
    ),
    ("WebSocketConnector", "proxy"): (lambda v: WebSocketConnector("ws://h", proxy=v), [5, ""]),
    ("WebSocketConnector", "session"): (lambda v: WebSocketConnector("ws://h", session=v), [5]),
    ("WebSocketConnector", "max_frame"): (
        lambda v: WebSocketConnector("ws://h", max_frame=v),
        [None, 0, 1.5, INFINITE, "5"],
    ),
    ("WebSocketConnector", "connect_timeout"): (
        lambda v: WebSocketConnector("ws://h", connect_timeout=v),
        [None, 0, -1, NAN, INFINITE, "5"],
    ),
    ("StdioConnector", "argv"): (
        StdioConnector,
        [None, 5, "agent --stdio", b"agent", [], [5], {"agent": 1}],
    ),
    ("StdioConnector", "cwd"): (lambda v: StdioConnector(["a"], cwd=v), [5, "", "a\0b"]),
    ("StdioConnector", "env"): (
        lambda v: StdioConnector(["a"], env=v),
        ["A=b", [("A", "b")], {5: "b"}, {"A": 5}],
    ),
    ("StdioConnector", "max_line"): (lambda v: StdioConnector(["a"], max_line=v), [None, 0, 1.5]),
    ("StdioConnector", "stderr_tail"): (
        lambda v: StdioConnector(["a"], stderr_tail=v),
        [None, -1, 1.5],
    ),
}


@pytest.mark.parametrize(("cls", "name"), MADE)
def test_a_connector_says_which_argument_is_wrong(cls: str, name: str) -> None:
    made, values = MADE[cls, name]
    for value in values:
        with pytest.raises((TypeError, ValueError), match=name) as caught:
            made(value)
        assert type(caught.value) in (TypeError, ValueError), value


@pytest.mark.parametrize("cls", [WebSocketConnector, StdioConnector])
def test_every_argument_is_in_the_table(cls: type) -> None:
    for name in inspect.signature(cls).parameters:
        assert (cls.__name__, name) in MADE, name


@pytest.mark.parametrize(
    "made",
    [
        lambda: WebSocketConnector("ws://h", headers={"X-Key": b"secret"}),  # type: ignore[dict-item]
        lambda: StdioConnector(["a"], env={"KEY": b"secret"}),  # type: ignore[dict-item]
    ],
)
def test_a_value_that_may_be_a_secret_is_not_shown(made: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"X-Key|KEY") as caught:
        made()
    assert "secret" not in str(caught.value)
