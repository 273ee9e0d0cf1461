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
The classes at the end of the list are unstable: only the unstable schema defines them, and agents
send them only on request.
"""

from __future__ import annotations

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

__all__ = [
    "AgentMessageChunk",
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
    "SubagentUpdate",
    "Text",
    "ToolCall",
    "ToolCallUpdate",
    "Unknown",
    "UnknownContent",
    "Update",
    "UsageUpdate",
    "UserMessageChunk",
]

Unknown = UnknownSessionUpdate
Text = TextContent
Image = ImageContent
Audio = AudioContent
Link = ResourceLink
Resource = EmbeddedResource
UnknownContent = UnknownContentBlock
