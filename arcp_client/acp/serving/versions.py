"""Writes the steps of a session in the version of the protocol that the editor speaks.

Jobs contain updates of version 1.

In version 2, the end of a turn is an update, every message has an id, and the editor gets its own
prompts back. It was implemented from the draft schema in npm ``@agentclientprotocol/sdk`` 2.4.0.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Version1", "Version2"]

_MESSAGES = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_INTERNAL = -32603


class Version1:
    """Version 1: the updates of the agent, unchanged."""

    number = 1
    echoes = False
    """Whether the editor gets its own prompts back."""

    def updates(self, update: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """Return what the editor gets for an update of version 1."""
        return (update,)

    def prompt(self, message_id: str, blocks: list[Any]) -> Sequence[dict[str, Any]]:
        """Return what the editor gets for a prompt."""
        return [{"sessionUpdate": "user_message_chunk", "content": block} for block in blocks]

    def running(self) -> Sequence[dict[str, Any]]:
        """Return what the editor gets at the beginning of a turn."""
        return ()

    def waiting(self) -> Sequence[dict[str, Any]]:
        """Return what the editor gets when the agent asks a question."""
        return ()

    def idle(
        self, result: Mapping[str, Any] | None, error: Mapping[str, Any] | None
    ) -> Sequence[dict[str, Any]]:
        """Return what the editor gets at the end of a turn."""
        return ()

    def permission(self, call: Any, title: str) -> dict[str, Any]:
        """Return the subject of a request for a permission."""
        return {"toolCall": call}

    def opened(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the answer to ``session/new`` says of the agent."""
        told = {}
        if "modes" in facts:
            told["modes"] = facts["modes"]
        if "options" in facts:
            told["configOptions"] = facts["options"]
        return told

    @staticmethod
    def config_option(params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the params of ``session/set_config_option`` in version 1."""
        return params

    @staticmethod
    def config_options(result: Any) -> Any:
        """Return the result of ``session/set_config_option``."""
        return result


class Version2(Version1):
    """Version 2 (a draft)."""

    number = 2
    echoes = True

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._message: tuple[str, str] | None = None  # kind and id of the current message

    def updates(self, update: dict[str, Any]) -> Sequence[dict[str, Any]]:
        """Return what the editor gets for an update of version 1."""
        kind = update.get("sessionUpdate")
        if kind in _MESSAGES:
            return [{**update, "messageId": self._message_id(kind, update.get("messageId"))}]
        self._message = None
        match kind:
            case "tool_call" | "tool_call_update":
                return [{**_tool_call(update), "sessionUpdate": "tool_call_update"}]
            case "plan":
                plan = {"type": "items", "planId": "plan", "entries": update.get("entries", [])}
                return [{"sessionUpdate": "plan_update", "plan": plan}]
            case "available_commands_update":
                given = update.get("availableCommands")
                commands = [_command(each) for each in given or () if isinstance(each, dict)]
                return [{"sessionUpdate": kind, "availableCommands": commands}]
            case "config_option_update":
                return [{"sessionUpdate": kind, "configOptions": _options(update["configOptions"])}]
            case "current_mode_update":
                return ()  # there are no modes
        return (update,)

    def _message_id(self, kind: str, given: Any) -> str:
        if isinstance(given, str):
            self._message = (kind, given)
        elif self._message is None or self._message[0] != kind:
            self._message = (kind, f"m{next(self._numbers)}")
        return self._message[1]

    def prompt(self, message_id: str, blocks: list[Any]) -> Sequence[dict[str, Any]]:
        """Return what the editor gets for a prompt."""
        self._message = None
        return [{"sessionUpdate": "user_message", "messageId": message_id, "content": blocks}]

    def running(self) -> Sequence[dict[str, Any]]:
        """Return what the editor gets at the beginning of a turn."""
        self._message = None
        return [{"sessionUpdate": "state_update", "state": "running"}]

    def waiting(self) -> Sequence[dict[str, Any]]:
        """Return what the editor gets when the agent asks a question."""
        return [{"sessionUpdate": "state_update", "state": "requires_action"}]

    def idle(
        self, result: Mapping[str, Any] | None, error: Mapping[str, Any] | None
    ) -> Sequence[dict[str, Any]]:
        """Return what the editor gets at the end of a turn."""
        self._message = None
        state: dict[str, Any] = {"sessionUpdate": "state_update", "state": "idle"}
        if error is not None:
            state["stopReason"] = "error"
            state["error"] = {"code": _INTERNAL, "message": str(error.get("message"))}
        elif result is not None:
            state["stopReason"] = result.get("stopReason", "end_turn")
        return [state]

    def permission(self, call: Any, title: str) -> dict[str, Any]:
        """Return the subject of a request for a permission."""
        call = {k: v for k, v in _tool_call(call).items() if k != "sessionUpdate"}
        return {"title": title, "subject": {"type": "tool_call", "toolCall": call}}

    def opened(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the answer to ``session/new`` says of the agent."""
        return {"configOptions": _options(facts["options"])} if "options" in facts else {}

    @staticmethod
    def config_option(params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the params of ``session/set_config_option`` in version 1."""
        return {"configId": params.get("configId"), "value": params.get("value")}

    @staticmethod
    def config_options(result: Any) -> Any:
        """Return the result of ``session/set_config_option``."""
        return {"configOptions": _options(result["configOptions"])}


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(call)
    if isinstance(content := call.get("content"), list):
        parts = [_part(each) for each in content if isinstance(each, dict)]
        changed["content"] = [each for each in parts if each is not None]
    return changed


def _part(part: dict[str, Any]) -> dict[str, Any] | None:
    if part.get("type") == "terminal":
        return None  # it is a terminal of the runtime's machine
    if part.get("type") != "diff":
        return part
    old, new = part.get("oldText"), part.get("newText")
    lines = [f"-{line}" for line in str(old or "").splitlines()]
    lines += [f"+{line}" for line in str(new or "").splitlines()]
    text = f"{part.get('path')}\n```diff\n" + "\n".join(lines) + "\n```"
    return {"type": "content", "content": {"type": "text", "text": text}}


def _command(command: dict[str, Any]) -> dict[str, Any]:
    changed = {"type": "command", **command}
    if isinstance(input_ := command.get("input"), dict):
        changed["input"] = {"type": "text", **input_}
    return changed


def _options(options: Any) -> list[Any]:
    changed = []
    for option in options if isinstance(options, list) else ():
        if isinstance(option, dict) and "id" in option:
            kept = {name: value for name, value in option.items() if name != "id"}
            changed.append({"type": "select", **kept, "configId": option["id"]})
    return changed
