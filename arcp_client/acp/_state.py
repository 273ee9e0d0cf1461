"""Updates in order in, what a session is like now out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from arcp_client.acp import schema
from arcp_client.acp._base import Update

__all__ = ["State"]

_CALLS = 1024  # tool calls of one session that are remembered


class State:
    """What the updates so far add up to. Read-only for users.

    Attributes:
        plan: the agent's latest plan.
        mode: the id of the current mode.
        modes: the modes there are.
        options: configuration options, with their current values.
        commands: the slash commands there are.
        title: the session's title.
        usage: the latest tokens and costs.
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[str, schema.ToolCall] = OrderedDict()
        self.plan: schema.Plan | None = None
        self.mode: str | None = None
        self.modes: tuple[schema.SessionMode, ...] = ()
        self.options: tuple[schema.SessionConfigOption, ...] = ()
        self.commands: tuple[schema.AvailableCommand, ...] = ()
        self.title: str | None = None
        self.usage: schema.UsageUpdate | None = None

    @property
    def tool_calls(self) -> Mapping[str, schema.ToolCall]:
        """The tool calls by id, each with all its updates applied; the latest 1,024."""
        return MappingProxyType(self._calls)

    def apply(self, update: Update) -> None:
        """One more update."""
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
            case _:
                pass

    def call(self, update: schema.ToolCall | schema.ToolCallUpdate) -> schema.ToolCall:
        """Merge what is said of a tool call into what is known of it, which may be nothing."""
        known = self._calls.get(update.tool_call_id)
        # An empty list clears in an update; in a start it only says that nothing is there yet.
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
        if len(self._calls) > _CALLS:
            self._calls.popitem(last=False)
        return known

    def opened(self, response: Any) -> None:
        """What the answer to new, load, resume, fork or set_config_option says."""
        modes = getattr(response, "modes", None)
        if modes is not None:
            self.modes = tuple(modes.available_modes)
            self.mode = modes.current_mode_id
        if response.config_options is not None:
            self.options = tuple(response.config_options)
