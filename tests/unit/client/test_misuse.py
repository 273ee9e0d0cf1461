"""Wrong arguments of public calls: an error of this package, or a plain TypeError or ValueError.

What the package is built from stays inside: no pydantic error, and nothing from its depth.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from arcp_client import Client, Runtime
from arcp_client.errors import ArcpError

WRONG: list[Any] = [
    None,
    True,
    5,
    -1,
    float("nan"),
    float("inf"),
    "",
    "\ud800",
    b"bytes",
    [],
    [5],
    {},
    {"a": {1, 2}},
    {"fs.read": 5},
    {"fs.read": [5]},
    {5: ["x"]},
    ("a",),
    object(),
    datetime(2026, 5, 13),  # noqa: DTZ001
    datetime.max.replace(tzinfo=UTC),
    lambda: None,
    int,
]
RIGHT = {"agent": "echo", "job_id": "job_1", "handler": print, "store": None}
CALLS = ("submit", "watch", "jobs", "ping", "drain", "events", "job", "on", "subscribe")


def parameters() -> Iterator[tuple[str, str]]:
    for call in CALLS:
        for name, parameter in inspect.signature(getattr(Client, call)).parameters.items():
            if name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
                yield call, name


async def tried(client: Client, call: str, name: str, value: Any) -> None:
    given: list[Any] = []
    named: dict[str, Any] = {}
    for each in inspect.signature(getattr(Client, call)).parameters.values():
        if each.name == name:
            if each.kind is each.KEYWORD_ONLY:
                named[name] = value
            else:
                given.append(value)
        elif each.name != "self" and each.default is each.empty and each.kind < each.VAR_POSITIONAL:
            given.append(RIGHT.get(each.name, "x"))
    done = getattr(client, call)(*given, **named)
    if inspect.isawaitable(done):
        await done
    elif hasattr(done, "__anext__") and call == "jobs":
        async for _ in done:
            pass
    elif callable(done) and call == "on":
        done(print)


@pytest.mark.parametrize(("call", "name"), list(parameters()))
async def test_a_wrong_argument_is_refused_by_an_error_that_is_documented(
    runtime: Runtime, call: str, name: str
) -> None:
    undocumented: list[tuple[Any, BaseException]] = []
    for value in WRONG:
        async with Client(runtime) as client:
            try:
                await asyncio.wait_for(tried(client, call, name, value), 20)
            except ArcpError:
                pass
            except Exception as error:
                if type(error) not in (TypeError, ValueError, UnicodeEncodeError):
                    undocumented.append((value, error))
    assert undocumented == []
