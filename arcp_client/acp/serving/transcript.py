"""Translates the events of jobs into steps for an editor: updates, prompts, turns and questions.

A `Transcript` is pure: the same events always give the same steps. So an editor that loads a
session later shows the same as an editor that was connected all the time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from arcp_client import events
from arcp_client.acp._kinds import OTHER, PERMISSION, REPLY, SESSION, TURN
from arcp_client.events import Event

__all__ = [
    "AgentOpened",
    "CallReplied",
    "EditorAttached",
    "JobOver",
    "PromptTaken",
    "QuestionAsked",
    "QuestionGone",
    "Step",
    "Transcript",
    "TurnEnded",
    "TurnStarted",
    "UpdateShown",
    "text_update",
]


@dataclass(frozen=True, slots=True)
class UpdateShown:
    """An update of the session."""

    update: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PromptTaken:
    """The runtime took a prompt."""

    message_id: str
    blocks: list[Any]


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The turn of a prompt begins."""

    message_id: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn of a prompt has ended: with the ``result`` of ``session/prompt``, or an error."""

    message_id: str
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """A question is open. ``permission`` is the agent's own request, if it asks for one."""

    job_id: str
    question: events.Question
    permission: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class QuestionGone:
    """A question needs no answer any more."""

    question_id: str


@dataclass(frozen=True, slots=True)
class AgentOpened:
    """The agent runs; ``facts`` is the body of its ``x-vendor.acp.session``."""

    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EditorAttached:
    """The runtime took the message with which an editor attached."""

    message_id: str


@dataclass(frozen=True, slots=True)
class CallReplied:
    """The agent answered a call, such as ``session/set_mode``."""

    message_id: str
    result: Any = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JobOver:
    """The job has ended; ``error`` has the code and the message if it failed."""

    error: dict[str, Any] | None = None
    cancelled: bool = False


Step: TypeAlias = (
    "UpdateShown | PromptTaken | TurnStarted | TurnEnded | QuestionAsked | QuestionGone"
    " | AgentOpened | EditorAttached | CallReplied | JobOver"
)


def text_update(kind: str, text: str) -> dict[str, Any]:
    """Make an update that has only a text."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


@dataclass(slots=True)
class Transcript:
    """The steps of one job.

    Args:
        conversation: whether the job is a conversation of a hosted agent. Otherwise it is a single
            turn, whose events of the specification are translated.
    """

    conversation: bool
    _skip: str | None = None
    _permissions: list[dict[str, Any]] = field(default_factory=list)
    _spoke: bool = False

    def feed(self, event: Event) -> Iterator[Step]:
        """Return the steps of the next event."""
        match event:
            case events.Question():
                yield QuestionAsked(event.job_id or "", event, self._permission(event))
            case events.Answered() | events.Expired() | events.Withdrawn():
                yield QuestionGone(event.question_id)
            case events.Gap():
                text = f"[updates were lost: {event.reason}]\n"
                yield UpdateShown(text_update("agent_message_chunk", text))
            case events.Failed():
                yield from self._failed(event)
            case _:
                yield from self._hosted(event) if self.conversation else self._plain(event)

    def _permission(self, question: events.Question) -> dict[str, Any] | None:
        for asked in self._permissions:
            if asked.get("text") == question.text:
                self._permissions.remove(asked)
                return asked
        return None

    def _failed(self, event: events.Failed) -> Iterator[Step]:
        if event.status == "cancelled":
            yield JobOver(cancelled=True)
            return
        error = {"code": event.code, "message": event.message or event.status}
        yield UpdateShown(text_update("agent_message_chunk", _told(error)))
        yield JobOver(error)

    # ------------------------------------------------------------------ conversations

    def _hosted(self, event: Event) -> Iterator[Step]:
        match event:
            case events.ResultChunk():
                if event.data and not self._skipped("result_chunk"):
                    yield UpdateShown(text_update("agent_message_chunk", event.data))
            case events.Thought():
                if not self._skipped("thought"):
                    yield UpdateShown(text_update("agent_thought_chunk", event.text))
            case events.Sent():
                yield from self._sent(event)
            case events.Completed():
                yield JobOver()
            case events.Unknown(kind=kind, body=dict() as body):
                yield from self._vendor(kind, body)

    def _skipped(self, kind: str) -> bool:
        """Whether the event repeats the text of the update before it."""
        skipped = self._skip == kind
        if skipped:
            self._skip = None
        return skipped

    def _sent(self, event: events.Sent) -> Iterator[Step]:
        value = event.value
        if isinstance(value, dict) and "prompt" not in value:
            if "attach" in value:
                yield EditorAttached(event.message_id)
            return
        prompt = value["prompt"] if isinstance(value, dict) else value
        blocks = prompt if isinstance(prompt, list) else [prompt]
        texts = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        yield PromptTaken(event.message_id, texts)

    def _vendor(self, kind: str, body: dict[str, Any]) -> Iterator[Step]:
        if kind == OTHER and isinstance(body.get("update"), dict):
            self._skip = body.get("then")
            yield UpdateShown(body["update"])
        elif kind == PERMISSION:
            self._permissions.append(body)
        elif kind == SESSION:
            yield AgentOpened(body)
        elif kind == REPLY:
            yield CallReplied(str(body.get("message_id")), body.get("result"), body.get("error"))
        elif kind == TURN:
            yield from self._turn(str(body.get("message_id")), body)

    def _turn(self, message_id: str, body: dict[str, Any]) -> Iterator[Step]:
        if body.get("state") == "started":
            yield TurnStarted(message_id)
        elif isinstance(error := body.get("error"), dict):
            yield UpdateShown(text_update("agent_message_chunk", _told(error)))
            yield TurnEnded(message_id, error=error)
        else:
            result = {"stopReason": body.get("stop_reason", "end_turn")}
            if "usage" in body:
                result["usage"] = body["usage"]
            yield TurnEnded(message_id, result)

    # ------------------------------------------------------------------ other agents

    def _plain(self, event: Event) -> Iterator[Step]:
        match event:
            case events.ResultChunk():
                self._spoke = True
                if event.encoding == "utf8" and event.data:
                    yield UpdateShown(text_update("agent_message_chunk", event.data))
            case events.Thought():
                yield UpdateShown(text_update("agent_thought_chunk", event.text))
            case events.Log():
                yield UpdateShown(text_update("agent_thought_chunk", f"{event.message}\n"))
            case events.ToolCall():
                yield UpdateShown(
                    {
                        "sessionUpdate": "tool_call",
                        "toolCallId": event.call_id,
                        "title": event.tool,
                        "kind": "other",
                        "status": "in_progress",
                        "rawInput": event.args,
                    }
                )
            case events.ToolResult():
                failed = event.error is not None
                yield UpdateShown(
                    {
                        "sessionUpdate": "tool_call_update",
                        "toolCallId": event.call_id,
                        "status": "failed" if failed else "completed",
                        "rawOutput": event.error if failed else event.result,
                    }
                )
            case events.ArtifactRef():
                link = {"type": "resource_link", "uri": event.uri, "name": event.uri}
                yield UpdateShown({"sessionUpdate": "agent_message_chunk", "content": link})
            case events.Completed():
                if not self._spoke and event.value is not None:
                    yield UpdateShown(text_update("agent_message_chunk", _as_text(event.value)))
                yield JobOver()


def _told(error: dict[str, Any]) -> str:
    return f"[{error.get('code')}: {error.get('message')}]\n"


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"```json\n{json.dumps(value, ensure_ascii=False, indent=2)}\n```\n"
