"""Frames that are longer than the runtime takes over the link that is up."""

from __future__ import annotations

import pytest

from arcp_client._protocol import actions
from arcp_client._wire import names
from arcp_client._wire.codec import to_json
from arcp_client.errors import LocalProtocolError
from tests.interop.rules import rule
from tests.unit.protocol.scripted import Table

MIB = 2**20


class Pipes(Table):
    """A table whose links send frames as lines."""

    lines = True


def size_of(table: Table, length: int) -> int:
    """Bytes of the frame of a listing whose cursor is so long."""
    before = len(table.sent)
    table.ask(names.LIST_JOBS, cursor="x" * length)
    (frame,) = table.sent[before:]
    del table.sent[before:]
    page = {"type": names.JOBS, "payload": {"request_id": frame["id"], "jobs": []}}
    table.hear(page)
    return len(to_json(frame))


@rule("python: long frames", "go: long frames")
@rule("note-8")
@rule("send-10")
@pytest.mark.parametrize(
    ("kind", "spoken", "limit"),
    [
        (Table, "python", MIB),
        (Table, "go", MIB),
        (Pipes, "python", 64 * 1024),
        (Pipes, "go", MIB - 1),
    ],
)
def test_what_a_runtime_would_close_the_link_on_is_not_sent(
    kind: type[Table], spoken: str, limit: int
) -> None:
    table = kind(spoken)
    longest = limit - size_of(table, 0)
    assert size_of(table, longest) == limit
    long = table.ask(names.LIST_JOBS, cursor="x" * (longest + 1))
    (refused,) = table.of(actions.Refused)
    assert refused.request is long
    assert isinstance(refused.error, LocalProtocolError)
    assert f"{limit + 1} bytes" in str(refused.error)
    assert ("stdio" in str(refused.error)) is (kind is Pipes)
    assert table.sent == []
    table.ask(names.LIST_JOBS)  # and nothing waits for it
    table.said(names.LIST_JOBS)


@pytest.mark.parametrize("kind", [Table, Pipes])
def test_where_no_bound_is_known_it_is_left_to_the_link(kind: type[Table]) -> None:
    table = kind("java")
    table.ask(names.LIST_JOBS, cursor="x" * 2 * MIB)
    assert table.of(actions.Refused) == []


def test_the_link_that_is_up_decides() -> None:
    table = Pipes("python")
    table.cut()
    table.lines = False
    table.connect()
    table.ask(names.LIST_JOBS, cursor="x" * 100_000)
    assert table.of(actions.Refused) == []
    table.cut()
    table.lines = True
    table.connect()  # what waits for its answer would go out again
    assert len(table.of(actions.Refused)) == 1
