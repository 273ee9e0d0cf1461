"""Keeps the current state of a session: tool calls, plan, modes, options, title, usage."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from arcp_client.acp import schema
from arcp_client.acp._base import Update
from arcp_client.acp._decode import as_json

__all__ = ["AcpState"]

_CALLS = 1024  # tool calls kept for one session


class AcpState:
    """The state of a session after the updates so far. Read-only for users.

    Attributes:
        plan: the agent's latest plan.
        mode: the id of the current mode.
        modes: the available modes.
        options: the configuration options, with their current values.
        commands: the available slash commands.
        title: the session's title.
        usage: the latest token and cost figures.
        activity: ``running``, ``requires_action``, ``idle`` or another state, as an agent of
            version 2 of the protocol reports it; otherwise None.
    """

    def __init__(self, limit: int = 32 * 1024 * 1024) -> None:
        self._calls: OrderedDict[str, schema.ToolCall] = OrderedDict()
        self._sizes: dict[str, int] = {}  # size of the largest update of each call, in bytes
        self._bytes = 0
        self._limit = limit
        self.plan: schema.Plan | None = None
        self.mode: str | None = None
        self.modes: tuple[schema.SessionMode, ...] = ()
        self.options: tuple[schema.SessionConfigOption, ...] = ()
        self.commands: tuple[schema.AvailableCommand, ...] = ()
        self.title: str | None = None
        self.usage: schema.UsageUpdate | None = None
        self.activity: str | None = None

    @property
    def tool_calls(self) -> Mapping[str, schema.ToolCall]:
        """The tool calls by id, each with all its updates applied.

        These are the latest 1,024, or fewer if they take more than `AcpLimits.state` bytes.
        """
        return MappingProxyType(self._calls)

    def apply(self, update: Update) -> None:
        """Apply one update."""
        match update:
            case schema.ToolCall() | schema.ToolCallUpdate():
                self.call(update)
            case schema.Plan():
                self.plan = update
            case schema.CurrentModeUpdate(current_mode_id=mode):
                self.mode = mode
            case schema.ConfigOptionUpdate(config_options=options):
                self.options = tuple(options)
            case schema.AvailableCommandsUpdate(available_commands=commands):
                self.commands = tuple(commands)
            case schema.SessionInfoUpdate(title=title) if "title" in (update.raw or {}):
                self.title = title
            case schema.UsageUpdate():
                self.usage = update
            case Update():
                self._apply_newer(update)

    def _apply_newer(self, update: Any) -> None:
        """Apply an update that only version 2 of the protocol has."""
        match update.__struct_config__.tag:
            case "state_update":
                self.activity = update.state
            case "tool_call_content_chunk":
                known = self._calls.get(update.tool_call_id)
                content = [] if known is None else known.content
                size = self._sizes.get(update.tool_call_id, 0)
                self.call(
                    schema.ToolCallUpdate(
                        tool_call_id=update.tool_call_id, content=[*content, update.content]
                    ),
                    size + len(update.__dict__["at"][0]),
                )
            case _:
                pass

    def call(
        self, update: schema.ToolCall | schema.ToolCallUpdate, size: int | None = None
    ) -> schema.ToolCall:
        """Apply an update to its tool call, which is created if unknown.

        Args:
            update: the update.
            size: bytes of the tool call with it; by default those of the update.
        """
        known = self._calls.get(update.tool_call_id)
        # An empty list clears the field in an update; in a start it only means that there is none
        # yet.
        nothing: tuple[Any, ...] = (
            (None,) if isinstance(update, schema.ToolCallUpdate) else (None, [])
        )
        said = {
            name: value
            for name in schema.ToolCall.__struct_fields__
            if (value := getattr(update, name)) not in nothing
        }
        if known is None:
            known = schema.ToolCall(**{"title": "", **said})
        else:
            known = msgspec.structs.replace(known, **said)
        self._calls[update.tool_call_id] = known
        self._calls.move_to_end(update.tool_call_id)
        self._count(update, size)
        return known

    def _count(self, update: schema.ToolCall | schema.ToolCallUpdate, size: int | None) -> None:
        at = update.__dict__.get("at")
        if size is None:
            size = len(as_json(update) if at is None else at[0])
        before = self._sizes.get(update.tool_call_id, 0)
        self._sizes[update.tool_call_id] = max(before, size)
        self._bytes += max(size - before, 0)
        while len(self._calls) > _CALLS or (self._bytes > self._limit and len(self._calls) > 1):
            oldest, _ = self._calls.popitem(last=False)
            self._bytes -= self._sizes.pop(oldest)

    def opened(self, response: Any) -> None:
        """Apply the answer to new, load, resume, fork or set_config_option."""
        modes = getattr(response, "modes", None)
        if modes is not None:
            self.modes = tuple(modes.available_modes)
            self.mode = modes.current_mode_id
        if response.config_options is not None:
            self.options = tuple(response.config_options)
        if commands := getattr(response, "available_commands", None):
            self.commands = tuple(commands)
