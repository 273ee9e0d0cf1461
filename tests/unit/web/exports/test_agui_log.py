"""A front end that attaches to a run has what one has that followed it from the beginning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import BaseEvent
from hypothesis import given
from hypothesis import strategies as st

from arcp_client import Event, events
from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.streams import Iteration
from arcp_client._feeds.stream import FrameStream
from arcp_client.transcripts import Scrubber
from arcp_client.web.exports import agui_kept, agui_log
from arcp_client.web.exports.agui import Run
from arcp_client.web.exports.agui_log import RunLog, RunView
from arcp_client.web.exports.masking import masked
from tests.unit.feeds.test_frames import received
from tests.unit.web.exports.test_agui import GIVEN, TEXT

PREFIX = "run-0"
OWN = {"id": f"{PREFIX}:1", "role": "developer", "content": "an old message of the run"}
USER = {"id": "u", "role": "user", "content": "go"}


class Job:
    """As much of a job as a log reads; `given` are its next events."""

    id = "job_1"
    agent = "a@1"
    credentials: dict[str, Any] = {}  # noqa: RUF012
    history_last = ""

    def __init__(self) -> None:
        self.given: list[Event] = []

    def events(self) -> Iteration[Event]:
        iterator: Iteration[Event] = Iteration(EventFilter(), until_terminal=True)
        iterator.extend(self.given, 0.0)
        iterator.end(None)
        return iterator


class Reader:
    """A log, and what a front end reads of it."""

    def __init__(self) -> None:
        self.job = Job()
        self.log = RunLog(self.job, PREFIX)  # type: ignore[arg-type]

    async def take(self, given: list[Event]) -> None:
        self.job.given = given
        if given:
            await self.log.read()

    async def rest(self, *, snapshot: bool) -> list[tuple[str, dict[str, Any]]]:
        """The ids and events of a run from now on, until the log is closed."""
        conversation = [USER, OWN] if snapshot else [USER]
        view = RunView(thread_id="t", run_id="r", conversation=conversation)
        parts = [part async for part in self.log.play(FrameStream(), view, None)]
        return parsed(b"".join(parts))


def parsed(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for frame in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if ": " in line)
        if "data" in fields:
            found.append((fields.get("id", ""), json.loads(fields["data"])))
    return found


class Front:
    """The messages and the state that a front end makes of the events of a run."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = [USER]
        self.state: dict[str, Any] = {}

    def take(self, event: dict[str, Any]) -> None:
        match event:
            case {"type": "MESSAGES_SNAPSHOT", "messages": found}:
                self.messages = list(found)
            case {"type": "STATE_SNAPSHOT", "snapshot": found}:
                self.state = found
            case {"type": "STATE_DELTA", "delta": operations}:
                for each in operations:
                    *holders, name = each["path"].replace("~1", "/").split("/", 2)[1:]
                    name = name.replace("~0", "~")
                    (self.state[holders[0]] if holders else self.state)[name] = each.get("value")
            case {"type": "TEXT_MESSAGE_START", "messageId": found, "role": role}:
                if self.of(found) is None:
                    named = {"name": event["name"]} if "name" in event else {}
                    self.messages.append({"id": found, "role": role, **named, "content": ""})
            case {"type": "REASONING_MESSAGE_START", "messageId": found}:
                self.messages.append({"id": found, "role": "reasoning", "content": ""})
            case {
                "type": "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT",
                "messageId": found,
                "delta": text,
            }:
                message = self.of(found)
                assert message is not None
                message["content"] += text
            case {"type": "TOOL_CALL_START", "toolCallId": found, "toolCallName": name}:
                call = {"id": found, "type": "function"}
                call["function"] = {"name": name, "arguments": ""}  # type: ignore[assignment]
                self.messages.append({"id": found, "role": "assistant", "toolCalls": [call]})
            case {"type": "TOOL_CALL_ARGS", "toolCallId": found, "delta": text}:
                message = self.of(found)
                assert message is not None
                message["toolCalls"][0]["function"]["arguments"] += text
            case {"type": "TOOL_CALL_RESULT", "messageId": found, "toolCallId": call}:
                message = {"id": found, "toolCallId": call, "role": "tool"}
                message["content"] = event["content"]
                self.messages.insert(self.after(call), message)

    def of(self, message_id: str) -> dict[str, Any] | None:
        return next((each for each in self.messages if each["id"] == message_id), None)

    def after(self, call: str) -> int:
        """The index after a call and the results that follow it."""
        at = next(n for n, each in enumerate(self.messages) if each["id"] == call) + 1
        while at < len(self.messages) and self.messages[at]["role"] == "tool":
            at += 1
        return at


def shown(told: list[tuple[str, dict[str, Any]]]) -> str:
    front = Front()
    for _, event in told:
        front.take(event)
    return json.dumps([front.messages, front.state], sort_keys=True)


FRAMES: st.SearchStrategy[Event] = st.one_of(
    st.builds(lambda text, level: received("log", {"message": text, "level": level}), TEXT, TEXT),
    st.builds(lambda text: received("thought", {"text": text}), TEXT),
    st.just(received("log", {"message": "password: hunter3", "level": "info"})),
)
SOME = st.lists(FRAMES | GIVEN.filter(lambda event: not event.terminal), max_size=30)


@given(given=SOME, data=st.data())
async def test_the_state_of_a_snapshot_and_what_follows_is_that_of_all_events(
    given: list[Event], data: st.DataObject
) -> None:
    n = data.draw(st.integers(0, len(given)))
    whole = Reader()
    await whole.take(given)
    whole.log.close()
    late = Reader()
    await late.take(given[:n])
    view = RunView(thread_id="t", run_id="r", conversation=[USER, OWN])
    playing = late.log.play(FrameStream(), view, None)
    parts = [await anext(playing)]
    await late.take(given[n:])
    late.log.close()
    parts += [part async for part in playing]
    assert shown(parsed(b"".join(parts))) == shown(await whole.rest(snapshot=False))
    assert shown(await late.rest(snapshot=True)) == shown(await whole.rest(snapshot=False))


@given(given=SOME)
async def test_events_that_are_made_when_they_are_read_are_those_of_the_run(
    given: list[Event],
) -> None:
    def of(made: list[BaseEvent]) -> list[Any]:
        return [json.loads(each.model_dump_json(by_alias=True)) for each in made]

    one = Reader()
    await one.take(given)
    one.log.close()
    told = await one.rest(snapshot=False)
    run = Run("t", "r", prefix=PREFIX)
    expected = of([*run.begin(one.job)])  # type: ignore[arg-type]
    for event in given:
        expected += of([*run.apply(*masked(event, Scrubber()))])
    assert [event for _, event in told][: len(expected)] == expected
    cursors = [cursor for cursor, _ in told]
    assert len(set(cursors)) == len(cursors)


async def test_a_message_of_a_history_is_made_only_if_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agui_kept, "MEMORY", 10_000)
    monkeypatch.setattr(agui_log, "MESSAGES", 20_000)
    built: list[Event] = []

    def counted(event: Event, scrubber: Scrubber) -> Any:
        built.append(event)
        return masked(event, scrubber)

    monkeypatch.setattr("arcp_client.web.exports.masking.masked", counted)
    one = Reader()
    logs = [received("log", {"message": f"{n}", "level": "info"}) for n in range(5000)]
    await one.take(list[Event](logs))
    assert built == []
    assert one.log.size < 30_000
    told = parsed(
        await anext(one.log.play(FrameStream(), RunView(thread_id="t", run_id="r"), None))
    )
    assert [event["type"] for _, event in told] == [
        "RUN_STARTED", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT",
    ]  # fmt: skip
    texts = [each["content"] for each in told[2][1]["messages"]]
    assert texts == [f"{n}" for n in range(5000)][-len(texts) :]
    assert len(built) == len(texts) + 1, "the newest event is made for its id"
    assert isinstance(logs[0], events.Log)
