"""Keeps the messages of a run of AG-UI, in the form in which a front end keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

__all__ = ["Messages", "joined"]


class _Message:
    """A message, with the parts of its text.

    Attributes:
        n: the number of the job's event that made it.
        size: the characters of its text.
    """

    def __init__(self, n: int, fields: dict[str, Any]) -> None:
        self.n = n
        self.size = 0
        self._fields = fields
        self._parts: list[str] = []

    @property
    def role(self) -> str:
        return str(self._fields["role"])

    def add(self, text: str) -> None:
        self._parts.append(text)
        self.size += len(text)

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
        limit: the characters of text to keep; the oldest messages are dropped beyond them.

    Attributes:
        size: the characters of text that are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._made: dict[str, _Message] = {}
        self.size = 0

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

    def after(self, n: int) -> list[dict[str, Any]]:
        """The messages that were made after an event of the job, in the order of their making."""
        return [made.to_dict() for made in self._made.values() if made.n > n]

    def _add(self, n: int, fields: dict[str, Any]) -> None:
        self._made[fields["id"]] = _Message(n, fields)

    def _extend(self, message_id: str, text: str) -> None:
        found = self._made.get(message_id)
        if found is None:
            return
        found.add(text)
        self.size += len(text)
        while self.size > self._limit and len(self._made) > 1:
            oldest = next(iter(self._made))
            self.size -= self._made.pop(oldest).size


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
