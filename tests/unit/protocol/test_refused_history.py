"""A history that is refused ends at the refusal: what waited for it goes on at once."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client._wire import names
from tests.unit.protocol.scripted import Table

A, B = "job_a", "job_b"


def event(table: Table, seq: int, number: int) -> None:
    """The same event has the same id, live and in a history."""
    table.event(seq, A, number, id=f"{A}.{number}")


def pong(table: Table, ping: dict[str, Any]) -> None:
    table.hear({"type": names.PONG, "payload": {"ping_nonce": ping["payload"]["nonce"]}})


@pytest.mark.parametrize("refused_first", [True, False])
def test_a_refused_history_does_not_hold_up_that_of_another_job(refused_first: bool) -> None:
    table = Table("go")  # this runtime mixes histories, which end with the answer to a ping
    table.ask(names.SUBSCRIBE, job_id=A, history=True)
    table.ask(names.SUBSCRIBE, job_id=B, history=True)
    first, ping = (table.sent.pop(0) for _ in range(2))
    table.confirmed(first)
    event(table, 1, 2)
    event(table, 2, 1)
    assert table.numbers == []

    if refused_first:
        table.error(names.JOB_NOT_FOUND)
        assert table.numbers == []
        pong(table, ping)
    else:
        pong(table, ping)
        assert table.numbers == []
        table.error(names.JOB_NOT_FOUND)
    assert table.numbers == [1, 2]
