"""Keeps the messages of a run of AG-UI, in the form in which a front end keeps them.

The messages of an event that changes nothing else are made when a snapshot needs them: of a long
history, most messages are never needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from ag_ui.core import (
    BaseEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from arcp_client._feeds.kept_events import Unencoded

__all__ = ["Messages", "joined"]


_FIELDS = 128
"""Bytes that the JSON of a message has besides its text, about."""


class _Message:
    """A message, with the parts of its text.

    Attributes:
        n: the number of the job's event that made it.
        size: the bytes of its JSON, about.
    """

    def __init__(self, n: int, fields: dict[str, Any]) -> None:
        self.n = n
        self.size = _FIELDS
        self._fields = fields
        self._parts: list[str] = []

    @property
    def role(self) -> str:
        return str(self._fields["role"])

    def add(self, text: str) -> None:
        self._parts.append(text)
        self.size += len(text if text.isascii() else text.encode("utf-8", "replace"))

    def to_dict(self) -> dict[str, Any]:
        """The message as the protocol writes it."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        text = self._parts[0] if self._parts else ""
        if self.role != "assistant" or "function" not in self._fields:
            return {**self._fields, "content": text}
        call = {
            "id": self._fields["id"],
            "type": "function",
            "function": {"name": self._fields["function"], "arguments": text},
        }
        return {"id": self._fields["id"], "role": "assistant", "toolCalls": [call]}


class Messages:
    """The messages of the runs of one job: what the client of AG-UI makes of their events.

    Args:
        limit: the bytes to keep; the oldest messages are dropped beyond them.
        make: returns the message of an event of the job that was added with `later`.

    Attributes:
        size: the bytes that are kept, about.
    """

    def __init__(self, limit: int, make: Callable[[int, Unencoded], dict[str, Any]]) -> None:
        self._limit = limit
        self._make = make
        self._made: dict[str | int, _Message | Unencoded] = {}
        self.size = 0

    def later(self, n: int, event: Unencoded) -> None:
        """Add the message of an event of the job, which is made when it is needed.

        Args:
            n: the number of the job's event.
            event: the event.
        """
        self._made[n] = event
        self.size += len(event.envelope)
        if self.size > self._limit:
            self._drop()

    def apply(self, n: int, event: BaseEvent) -> None:
        """Add what an event says.

        Args:
            n: the number of the job's event that it was made of.
            event: the event.
        """
        match event:
            case TextMessageStartEvent(message_id=found, role=role, name=name):
                named = {} if name is None else {"name": name}
                self._add(n, {"id": found, "role": role or "assistant", **named})
            case ReasoningMessageStartEvent(message_id=found):
                self._add(n, {"id": found, "role": "reasoning"})
            case ToolCallStartEvent(tool_call_id=found, tool_call_name=tool):
                self._add(n, {"id": found, "role": "assistant", "function": tool})
            case ToolCallResultEvent(message_id=found, tool_call_id=call, content=text):
                self._add(n, {"id": found, "toolCallId": call, "role": "tool"})
                self._extend(found, str(text))
            case TextMessageContentEvent(message_id=found, delta=text):
                self._extend(found, text)
            case ReasoningMessageContentEvent(message_id=found, delta=text):
                self._extend(found, text)
            case ToolCallArgsEvent(tool_call_id=found, delta=text):
                self._extend(found, text)
            case _:
                pass

    def after(self, after: int) -> list[dict[str, Any]]:
        """The messages that were made after an event of the job, in the order of their making."""
        found: list[dict[str, Any]] = []
        for key, made in self._made.items():
            if isinstance(made, _Message):
                if made.n > after:
                    found.append(made.to_dict())
            elif isinstance(key, int) and key > after:
                found.append(self._make(key, made))
        return found

    def _add(self, n: int, fields: dict[str, Any]) -> None:
        self._made[fields["id"]] = made = _Message(n, fields)
        self.size += made.size

    def _extend(self, message_id: str, text: str) -> None:
        found = self._made.get(message_id)
        if not isinstance(found, _Message):
            return
        self.size -= found.size
        found.add(text)
        self.size += found.size
        if self.size > self._limit:
            self._drop()

    def _drop(self) -> None:
        """Drop an eighth of the limit at once, as to find the first key of a dictionary is slow."""
        spare, dropped = self.size - self._limit * 7 // 8, []
        for key, made in islice(self._made.items(), len(self._made) - 1):
            if spare <= 0:
                break
            size = made.size if isinstance(made, _Message) else len(made.envelope)
            spare -= size
            self.size -= size
            dropped.append(key)
        for key in dropped:
            del self._made[key]


def joined(
    before: Sequence[dict[str, Any]], made: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The conversation after messages were added to it.

    As in the client of AG-UI, the result of a call follows the message with the call, and the
    results that are there already.
    """
    results: dict[str, list[dict[str, Any]]] = {}
    others = list(before)
    for message in made:
        if message["role"] == "tool":
            results.setdefault(message["toolCallId"], []).append(message)
        else:
            others.append(message)
    placed: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for message in others:
        if message.get("role") != "tool":
            placed += waiting
            waiting = []
        placed.append(message)
        for call in _calls(message):
            waiting += results.pop(call, ())
    placed += waiting
    for unplaced in results.values():
        placed += unplaced
    return placed


def _calls(message: dict[str, Any]) -> Iterator[str]:
    calls = message.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and isinstance(call.get("id"), str):
            yield call["id"]
