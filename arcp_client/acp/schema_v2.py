"""The types of the Agent Client Protocol, to decode and encode its JSON. GENERATED.

Made by scripts/generate_acp_types.py from schema/v2 of npm @agentclientprotocol/sdk 2.4.0 (the
draft of protocol version 2; sha256 49e10f8c19358543…). It has what the client uses
and `schema` does not have.

Do not edit. Classes and fields that the stable schema lacks are marked as unstable.
Enumerations are open: they are ``str``, with the known values in a comment. Unions are
open too, and keep what they do not know as an `Unknown`.
"""

# ruff: noqa: RUF012
from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from msgspec import field

from arcp_client.acp._base import Base, Unknown, Update
from arcp_client.acp.schema import (
    AuthMethodId,
    AuthStatusCapabilities,
    ContentBlock,
    ElicitationCapabilities,
    EnvVariable,
    Error,
    Implementation,
    MessageId,
    PermissionOption,
    ProtocolVersion,
    ProvidersCapabilities,
    SessionAdditionalDirectoriesCapabilities,
    SessionArchiveCapabilities,
    SessionDeleteCapabilities,
    SessionForkCapabilities,
    SessionId,
    SessionStatusCapabilities,
    SessionSystemPromptCapabilities,
    SessionTitleCapabilities,
    TerminalExitStatus,
    TerminalId,
    ToolCallContent,
    ToolCallId,
    ToolCallUpdate,
    UnknownAuthMethod,
    Usage,
)

__all__ = [
    "UPDATES",
    "AbsolutePath",
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AgentMessage",
    "AgentThought",
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodTerminal",
    "BackgroundSubagent",
    "BackgroundTerminal",
    "BackgroundToolCall",
    "BackgroundWork",
    "ClientAuthCapabilities",
    "ClientCapabilities",
    "CommandPermissionSubject",
    "InitializeRequest",
    "InitializeResponse",
    "McpAcpCapabilities",
    "McpCapabilities",
    "McpHttpCapabilities",
    "McpStdioCapabilities",
    "PromptAudioCapabilities",
    "PromptCapabilities",
    "PromptEmbeddedContextCapabilities",
    "PromptImageCapabilities",
    "PromptResponse",
    "RequestPermissionRequest",
    "RequestPermissionSubject",
    "SessionCapabilities",
    "StateUpdate",
    "TerminalAuthCapabilities",
    "TerminalCancelCapabilities",
    "TerminalCapabilities",
    "TerminalOutput",
    "TerminalOutputChunk",
    "TerminalSize",
    "TerminalUpdate",
    "ToolCallContentChunk",
    "ToolCallPermissionSubject",
    "UnknownBackgroundWork",
    "UnknownRequestPermissionSubject",
    "UnsupportedProtocolVersionErrorData",
    "UserMessage",
]


class RequestPermissionRequest(Base, frozen=True, kw_only=True):
    """Request for user permission to proceed with an operation.

    Attributes:
        session_id: The session ID for this request.
        title: Human-readable title for the permission prompt.
        options: Available permission options for the user to choose from.
        description: Optional human-readable explanation of why permission is needed.
        subject: Optional structured context about the operation requiring permission.
    """

    session_id: SessionId
    title: str
    options: list[PermissionOption]
    description: str | None = None
    subject: RequestPermissionSubject | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownRequestPermissionSubject(Unknown, frozen=True, tag_field="type", tag="\0"):
    """A RequestPermissionSubject that the schema does not have, or not in this shape."""


class ToolCallPermissionSubject(Base, frozen=True, kw_only=True, tag_field="type", tag="tool_call"):
    """Permission request details for a tool call.

    Attributes:
        tool_call: Details about the tool call requiring permission.
    """

    tool_call: ToolCallUpdate
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CommandPermissionSubject(Base, frozen=True, kw_only=True, tag_field="type", tag="command"):
    """Permission request details for a command.

    Attributes:
        command: The command that would be run if permission is granted.
        cwd: The absolute working directory for the command.
        tool_call_id: The associated tool call, when known.
        terminal_id: The associated terminal, when already known.
    """

    command: str
    cwd: AbsolutePath
    tool_call_id: ToolCallId | None = None
    terminal_id: TerminalId | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class InitializeResponse(Base, frozen=True, kw_only=True):
    """Response to the `initialize` method.

    Attributes:
        protocol_version: The highest protocol version supported by the agent that is at or
            below the version requested by the client.
        info: Information about the implementation sending this initialize response.
        capabilities: Capabilities supported by the agent.
        auth_methods: Authentication methods supported by the agent.
    """

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: AgentCapabilities | None = None
    auth_methods: list[AuthMethod] = []
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AgentCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities supported by the agent.

    Attributes:
        session: Session capabilities supported by the agent.
        auth: Authentication-related extension capabilities supported by the agent.
        providers: (unstable) Provider configuration capabilities supported by the agent.
    """

    session: SessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None
    providers: ProvidersCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionCapabilities(Base, frozen=True, kw_only=True):
    """Session capabilities supported by the agent.

    Attributes:
        prompt: Prompt capabilities supported by the agent in `session/prompt` requests.
        mcp: MCP capabilities supported by the agent for session lifecycle requests.
        delete: Whether the agent supports `session/delete`.
        additional_directories: Whether the agent supports `additionalDirectories` on supported
            session lifecycle requests.
        system_prompt: (unstable) Whether the agent supports `systemPrompt` on session lifecycle
            requests.
        fork: (unstable) Whether the agent supports `session/fork`.
        archive: (unstable) Whether the agent supports `session/archive` and
            `session/unarchive`.
        status: (unstable) Whether the agent supports `session/status`.
        title: (unstable) Whether the agent supports `session/set_title`.
    """

    prompt: PromptCapabilities | None = None
    mcp: McpCapabilities | None = None
    delete: SessionDeleteCapabilities | None = None
    additional_directories: SessionAdditionalDirectoriesCapabilities | None = None
    system_prompt: SessionSystemPromptCapabilities | None = None
    fork: SessionForkCapabilities | None = None
    archive: SessionArchiveCapabilities | None = None
    status: SessionStatusCapabilities | None = None
    title: SessionTitleCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PromptCapabilities(Base, frozen=True, kw_only=True):
    """Prompt capabilities supported by the agent in `session/prompt` requests.

    Attributes:
        image: Agent supports `image` content blocks.
        audio: Agent supports `audio` content blocks.
        embedded_context: Agent supports embedded context in `session/prompt` requests.
    """

    image: PromptImageCapabilities | None = None
    audio: PromptAudioCapabilities | None = None
    embedded_context: PromptEmbeddedContextCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PromptImageCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for image content in prompt requests."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PromptAudioCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for audio content in prompt requests."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PromptEmbeddedContextCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for embedded context in prompt requests."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class McpCapabilities(Base, frozen=True, kw_only=True):
    """MCP capabilities supported by the agent for session lifecycle requests.

    Attributes:
        stdio: Agent supports `stdio` MCP servers.
        http: Agent supports `http` MCP servers.
        acp: (unstable) Agent supports `acp` MCP servers.
    """

    stdio: McpStdioCapabilities | None = None
    http: McpHttpCapabilities | None = None
    acp: McpAcpCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class McpStdioCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for stdio MCP server transports."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class McpHttpCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for HTTP MCP server transports."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class McpAcpCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capabilities for ACP MCP server transports."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AgentAuthCapabilities(Base, frozen=True, kw_only=True):
    """Authentication-related extension capabilities supported by the agent.

    Attributes:
        status: (unstable) Whether the agent supports the `auth/status` method.
    """

    status: AuthStatusCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthMethodTerminal(Base, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """Terminal-based authentication method.

    Attributes:
        method_id: Unique identifier for this authentication method.
        name: Human-readable name of the authentication method.
        description: Optional human-readable description of this authentication method.
        args: Additional arguments to append to the configured agent invocation for terminal
            auth.
        env: Additional environment variables to set on the configured agent invocation for
            terminal auth.
    """

    method_id: AuthMethodId
    name: str
    description: str | None = None
    args: list[str] = []
    env: list[EnvVariable] = []
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthMethodAgent(Base, frozen=True, kw_only=True, tag_field="type", tag="agent"):
    """Agent handles authentication itself through `auth/login`.

    Attributes:
        method_id: Unique identifier for this authentication method.
        name: Human-readable name of the authentication method.
        description: Optional human-readable description of this authentication method.
    """

    method_id: AuthMethodId
    name: str
    description: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class StateUpdate(Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="state_update"):
    """A snapshot of the session's aggregate foreground activity.

    Attributes:
        background: Work running independently of foreground work, as a complete snapshot.
        usage: (unstable) Token usage for completed foreground work.
        error: The failure, as a JSON-RPC error object.
    """

    state: str
    background: list[BackgroundWork] | None = None
    usage: Usage | None = None
    stop_reason: str | None = None
    error: Error | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownBackgroundWork(Unknown, frozen=True, tag_field="type", tag="\0"):
    """A BackgroundWork that the schema does not have, or not in this shape."""


class BackgroundTerminal(Base, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """A listed terminal running in the background.

    Attributes:
        terminal_id: The ID of the listed terminal.
    """

    terminal_id: TerminalId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class BackgroundToolCall(Base, frozen=True, kw_only=True, tag_field="type", tag="tool_call"):
    """A listed tool call whose work continues in the background.

    Attributes:
        tool_call_id: The ID of the listed tool call.
    """

    tool_call_id: ToolCallId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class BackgroundSubagent(Base, frozen=True, kw_only=True, tag_field="type", tag="subagent"):
    """Unstable. A listed subagent session associated with this session through `subagent_update`.

    Attributes:
        session_id: The ID of the listed session.
    """

    unstable: ClassVar[bool] = True
    session_id: SessionId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnsupportedProtocolVersionErrorData(Base, frozen=True, kw_only=True):
    """Data for the `-32022` (Unsupported protocol version) error.

    Attributes:
        requested: The protocol version the Client requested.
        supported: The protocol versions the Agent supports.
    """

    requested: ProtocolVersion
    supported: list[ProtocolVersion]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PromptResponse(Base, frozen=True, kw_only=True):
    """Response acknowledging that a user prompt was inserted into the ACP conversation.

    Attributes:
        message_id: Identifies the user message inserted into the ACP conversation.
    """

    message_id: MessageId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UserMessage(Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="user_message"):
    """A user message upsert.

    Attributes:
        message_id: A unique identifier for the message.
        content: Complete replacement content for this message.
    """

    message_id: MessageId
    content: list[ContentBlock] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AgentMessage(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_message"
):
    """An agent message upsert.

    Attributes:
        message_id: A unique identifier for the message.
        content: Complete replacement content for this message.
    """

    message_id: MessageId
    content: list[ContentBlock] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AgentThought(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_thought"
):
    """An agent thought or reasoning message upsert.

    Attributes:
        message_id: A unique identifier for the thought message.
        content: Complete replacement content for this thought message.
    """

    message_id: MessageId
    content: list[ContentBlock] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ToolCallContentChunk(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_content_chunk"
):
    """A streamed item of tool-call content.

    Attributes:
        tool_call_id: The ID of the tool call this content belongs to.
        content: A single item of content produced by the tool call.
    """

    tool_call_id: ToolCallId
    content: ToolCallContent
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalOutput(Base, frozen=True, kw_only=True):
    """An authoritative replacement snapshot of terminal output bytes.

    Attributes:
        data: Base64-encoded replacement terminal output bytes.
    """

    data: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalSize(Base, frozen=True, kw_only=True):
    """The size of an agent-owned terminal in character cells.

    Attributes:
        cols: Number of columns.
        rows: Number of rows.
    """

    cols: int
    rows: int
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalCapabilities(Base, frozen=True, kw_only=True):
    """Client-initiated controls a terminal currently supports.

    Attributes:
        cancel: Permits the Client to cancel this terminal with `terminal/cancel`.
    """

    cancel: TerminalCancelCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalCancelCapabilities(Base, frozen=True, kw_only=True):
    """Capability to cancel a terminal with `terminal/cancel`."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalUpdate(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="terminal_update"
):
    """An upsert for the stored state of an agent-owned terminal.

    Attributes:
        terminal_id: Unique identifier for this terminal within the session.
        command: The command being run.
        cwd: The absolute working directory of the command.
        output: An authoritative replacement snapshot of terminal output bytes.
        exit_status: Exit information.
        size: The terminal size the command runs with, when known.
        capabilities: Client-initiated controls this terminal currently supports, such as
            cancellation.
    """

    terminal_id: TerminalId
    command: str | None = None
    cwd: AbsolutePath | None = None
    output: TerminalOutput | None = None
    exit_status: TerminalExitStatus | None = None
    size: TerminalSize | None = None
    capabilities: TerminalCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalOutputChunk(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="terminal_output_chunk"
):
    """A chunk of bytes appended to an agent-owned terminal's output.

    Attributes:
        terminal_id: The terminal receiving these bytes.
        data: Independently base64-encoded terminal output bytes.
    """

    terminal_id: TerminalId
    data: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class InitializeRequest(Base, frozen=True, kw_only=True):
    """Request parameters for the initialize method.

    Attributes:
        protocol_version: The latest protocol version supported by the client.
        info: Information about the implementation sending this initialize request.
        capabilities: Capabilities supported by the client.
    """

    protocol_version: ProtocolVersion
    info: Implementation
    capabilities: ClientCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ClientCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities supported by the client.

    Attributes:
        auth: Authentication capabilities supported by the client.
        elicitation: Elicitation capabilities supported by the client.
    """

    auth: ClientAuthCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ClientAuthCapabilities(Base, frozen=True, kw_only=True):
    """Authentication capabilities supported by the client.

    Attributes:
        terminal: Whether the client supports `terminal` authentication methods.
    """

    terminal: TerminalAuthCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalAuthCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for terminal authentication methods."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


RequestPermissionSubject: TypeAlias = (
    ToolCallPermissionSubject | CommandPermissionSubject | UnknownRequestPermissionSubject
)
AbsolutePath: TypeAlias = str
AuthMethod: TypeAlias = AuthMethodTerminal | AuthMethodAgent | UnknownAuthMethod
BackgroundWork: TypeAlias = (
    BackgroundTerminal | BackgroundToolCall | BackgroundSubagent | UnknownBackgroundWork
)

UPDATES: tuple[type[Update], ...] = (
    StateUpdate,
    UserMessage,
    AgentMessage,
    AgentThought,
    ToolCallContentChunk,
    TerminalUpdate,
    TerminalOutputChunk,
)
