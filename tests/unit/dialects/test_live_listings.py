"""Listings of live Go and Java runtimes, replayed to a session: each event once, in its order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from arcp_client._protocol.session import Session
from arcp_client._wire import names
from arcp_client.models import Checkpoint, OpenJob
from tests.interop.rules import rule
from tests.unit.protocol.kit import JOB, Strict

LISTINGS = Path(__file__).parents[2] / "data" / "transcripts" / "live"
_LINE = re.compile(r"(?:[<>] )?(?P<type>\S+) (?P<seq>\d+|None) (?P<id>\S+) +(?P<rest>.*)")


class Line(NamedTuple):
    type: str
    seq: int
    id: str
    number: int
    ts: str | None


def listing(name: str) -> list[Line]:
    """The runtime's events, its pongs, and where a client began again."""
    lines = []
    for text in (LISTINGS / name).read_text(encoding="utf-8").splitlines():
        match = _LINE.fullmatch(text)
        if match is None:
            continue
        kind = match["type"]
        words = match["rest"].split()
        if kind == names.EVENT:
            ts = f"2026-11-28T08:{words[1]}" if len(words) > 1 else None
            lines.append(Line(kind, int(match["seq"]), match["id"], int(words[0]), ts))
        elif kind in (names.PONG, names.HELLO):
            lines.append(Line(kind, 0, match["id"], 0, None))
    return lines


def play(table: Strict, line: Line) -> None:
    fields = {"id": line.id}
    if line.ts is not None:
        payload = {"kind": "progress", "ts": line.ts, "body": {"current": line.number}}
        table.hear(
            {"type": line.type, "job_id": JOB, "payload": payload, "event_seq": line.seq, **fields}
        )
    else:
        table.event(line.seq, JOB, line.number, **fields)


@rule("java: histories")
@rule("note-5")
@rule("accept-20")
def test_java_a_live_event_behind_the_pong_stands_in_the_order_of_the_history() -> None:
    table = Strict(spoken="java")
    table.ask(names.SUBSCRIBE, job_id=JOB, history=True)
    subscribe, ping = table.said(names.SUBSCRIBE), table.said(names.PING)
    table.confirmed(subscribe)
    for line in listing("java-history-around-the-pong.txt"):
        if line.type == names.PONG:
            table.hear({"type": names.PONG, "payload": {"ping_nonce": ping["payload"]["nonce"]}})
        elif line.type == names.EVENT:
            play(table, line)
    assert table.numbers == list(range(1, 27))
    assert [event.seq for event in table.events] == list(range(1, 27))
    assert table.causes == []  # the number that was missing came by itself


GO = listing("go-twice.txt")
BEGUN_AGAIN = [at for at, line in enumerate(GO) if line.type == names.HELLO][1]
LINES = [line for line in GO if line.type != names.HELLO]


def subscribed() -> tuple[Strict, str]:
    """A client that has subscribed to its own job, and the nonce of the ping behind that."""
    table = Strict(spoken="go")
    table.submit(key="k")
    subscribe, ping = table.said(names.SUBSCRIBE), table.said(names.PING)
    table.confirmed(subscribe)
    return table, str(ping["payload"]["nonce"])


def play_all(table: Strict, lines: list[Line], nonce: str) -> None:
    for line in lines:
        if line.type == names.PONG:
            table.hear({"type": names.PONG, "payload": {"ping_nonce": nonce}})
        else:
            play(table, line)


def restarted(table: Strict, mark: int) -> Strict:
    """A new process, from the checkpoint that says that all up to this number was processed."""
    seen = tuple(dict.fromkeys(line.id for line in LINES if 0 < line.seq <= mark))
    job = OpenJob(JOB, "slow", "k", "h", seen=seen if table.session.remembers(JOB) else ())
    checkpoint = Checkpoint("sess_1", "token", mark, reserved=mark, jobs=(job,))
    return Strict(spoken="go", checkpoint=checkpoint)


@rule("go: own jobs")
@rule("accept-18")
def test_go_every_event_twice_is_delivered_once() -> None:
    table, nonce = subscribed()
    play_all(table, LINES, nonce)
    assert table.numbers == list(range(1, 40))


@rule("note-10")
@rule("accept-18")
@pytest.mark.parametrize("killed_at", range(33))
def test_go_every_event_twice_is_delivered_once_over_a_restart_too(killed_at: int) -> None:
    """Wherever the process dies: between an event and its second copy, or behind both."""
    first, nonce = subscribed()
    play_all(first, LINES[:killed_at], nonce)
    mark = first.session.received
    second = restarted(first, mark)
    play_all(second, [line for line in LINES if line.seq > mark], nonce)
    assert [*first.numbers, *second.numbers] == list(range(1, 40))


def test_go_the_listing_is_of_a_session_that_subscribed_to_its_own_job() -> None:
    counted = [line.number for line in GO[:BEGUN_AGAIN] if line.type == names.EVENT]
    assert counted == [n for n in range(1, 17) for _ in range(2)]


def test_where_nothing_comes_again_nothing_is_remembered() -> None:
    session: Session = Strict(spoken="go").session
    assert not session.remembers(JOB)
