"""The kinds of updates that an agent sends, for ``match`` and for ``session.on``.

::

    match update:
        case updates.AgentMessageChunk(content=updates.Text(text=text)):
            print(text, end="")
        case updates.ToolCall(title=title, status=status):
            print("→", title, status)
        case updates.Unknown(kind=kind):
            print("?", kind, update.raw)

Every update is an immutable value. In addition to its fields it has ``origin`` (its session, its
turn, whether it is replayed history), ``turn``, ``replay``, and ``raw``, the update as received.
Some classes are unstable: only the unstable schema defines them, and agents send them only on
request. `StateUpdate`, `UserMessage`, `AgentMessage`, `AgentThought`, `ToolCallContentChunk`,
`TerminalUpdate` and `TerminalOutputChunk` are of the draft of version 2 of the protocol.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from arcp_client.acp._base import Gap, Origin, Update
from arcp_client.acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AudioContent,
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    EmbeddedResource,
    ImageContent,
    Notice,
    Plan,
    PlanRemoved,
    PlanUpdate,
    ResourceLink,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    SubagentUpdate,
    TextContent,
    ToolCall,
    ToolCallUpdate,
    UnknownContentBlock,
    UnknownSessionUpdate,
    UsageUpdate,
    UserMessageChunk,
)

if TYPE_CHECKING:
    from arcp_client.acp.schema_v2 import (
        AgentMessage,
        AgentThought,
        StateUpdate,
        TerminalOutputChunk,
        TerminalUpdate,
        ToolCallContentChunk,
        UserMessage,
    )

__all__ = [
    "AgentMessage",
    "AgentMessageChunk",
    "AgentThought",
    "AgentThoughtChunk",
    "Audio",
    "AvailableCommandsUpdate",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "ConfigOptionUpdate",
    "CurrentModeUpdate",
    "Gap",
    "Image",
    "Link",
    "Notice",
    "Origin",
    "Plan",
    "PlanRemoved",
    "PlanUpdate",
    "Resource",
    "SessionInfoUpdate",
    "SessionMessage",
    "SessionMessageChunk",
    "StateUpdate",
    "SubagentUpdate",
    "TerminalOutputChunk",
    "TerminalUpdate",
    "Text",
    "ToolCall",
    "ToolCallContentChunk",
    "ToolCallUpdate",
    "Unknown",
    "UnknownContent",
    "Update",
    "UsageUpdate",
    "UserMessage",
    "UserMessageChunk",
]

Unknown = UnknownSessionUpdate
Text = TextContent
Image = ImageContent
Audio = AudioContent
Link = ResourceLink
Resource = EmbeddedResource
UnknownContent = UnknownContentBlock

_VERSION2 = frozenset(
    {
        "AgentMessage",
        "AgentThought",
        "StateUpdate",
        "TerminalOutputChunk",
        "TerminalUpdate",
        "ToolCallContentChunk",
        "UserMessage",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _VERSION2:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module("arcp_client.acp.schema_v2"), name)
    globals()[name] = value
    return value
