"""The types of the Agent Client Protocol, to decode and encode its JSON. GENERATED.

Made by scripts/generate_acp_types.py from schema/v1/schema.json and schema.unstable.json of npm
@agentclientprotocol/sdk 2.4.0 (protocol version 1; sha256 ce7881d10c854bca…).

Do not edit. Classes and fields that the stable schema lacks are marked as unstable.
Enumerations are open: they are ``str``, with the known values in a comment. Unions are
open too, and keep what they do not know as an `Unknown`.
"""

# ruff: noqa: E501, RUF012
from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

from msgspec import field

from arcp_client.acp._base import Base, Unknown, UnknownUpdate, Update

__all__ = [
    "STABLE_METHODS",
    "UNSTABLE_METHODS",
    "UNTAGGED",
    "UPDATES",
    "AgentAuthCapabilities",
    "AgentCapabilities",
    "AgentMessageChunk",
    "AgentThoughtChunk",
    "Annotations",
    "ArchiveSessionRequest",
    "ArchiveSessionResponse",
    "AudioContent",
    "AuthAccount",
    "AuthCapabilities",
    "AuthMethod",
    "AuthMethodAgent",
    "AuthMethodId",
    "AuthMethodTerminal",
    "AuthState",
    "AuthStatusCapabilities",
    "AuthStatusRequest",
    "AuthStatusResponse",
    "AuthStatusUpdateNotification",
    "AuthenticateRequest",
    "AuthenticateResponse",
    "AvailableCommand",
    "AvailableCommandInput",
    "AvailableCommandsUpdate",
    "BlobResourceContents",
    "BooleanConfigOptionCapabilities",
    "BooleanPropertySchema",
    "CancelNotification",
    "CancelRequestNotification",
    "ClientCapabilities",
    "ClientSessionCapabilities",
    "CloseSessionRequest",
    "CloseSessionResponse",
    "CompactionCapabilities",
    "CompactionId",
    "CompactionStatus",
    "CompactionSummaryChunk",
    "CompactionUpdate",
    "CompleteElicitationNotification",
    "ConfigOptionUpdate",
    "Content",
    "ContentBlock",
    "ContentChunk",
    "Cost",
    "CreateElicitationRequest",
    "CreateElicitationRequestForm",
    "CreateElicitationRequestUrl",
    "CreateElicitationResponse",
    "CreateElicitationResponseAccept",
    "CreateElicitationResponseCancel",
    "CreateElicitationResponseDecline",
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "CurrentModeUpdate",
    "DeleteSessionRequest",
    "DeleteSessionResponse",
    "Diff",
    "DisableProviderRequest",
    "DisableProviderResponse",
    "ElicitationAcceptAction",
    "ElicitationCapabilities",
    "ElicitationContentValue",
    "ElicitationFormCapabilities",
    "ElicitationFormMode",
    "ElicitationId",
    "ElicitationPropertySchema",
    "ElicitationRequestScope",
    "ElicitationSchema",
    "ElicitationSchemaType",
    "ElicitationSessionScope",
    "ElicitationUrlCapabilities",
    "ElicitationUrlMode",
    "EmbeddedResource",
    "EmbeddedResourceResource",
    "EnumOption",
    "EnvVariable",
    "Error",
    "ErrorCode",
    "ErrorStopReason",
    "FileSystemCapabilities",
    "ForkSessionRequest",
    "ForkSessionResponse",
    "HttpHeader",
    "IdleStateUpdate",
    "ImageContent",
    "Implementation",
    "InitializeRequest",
    "InitializeResponse",
    "IntegerPropertySchema",
    "KillTerminalRequest",
    "KillTerminalResponse",
    "ListProvidersRequest",
    "ListProvidersResponse",
    "ListSessionsRequest",
    "ListSessionsResponse",
    "LlmProtocol",
    "LoadSessionRequest",
    "LoadSessionResponse",
    "LogoutCapabilities",
    "LogoutRequest",
    "LogoutResponse",
    "McpCapabilities",
    "McpServer",
    "McpServerAcp",
    "McpServerAcpId",
    "McpServerHttp",
    "McpServerSse",
    "McpServerStdio",
    "MessageId",
    "MultiSelectItems",
    "MultiSelectPropertySchema",
    "NewSessionRequest",
    "NewSessionResponse",
    "Notice",
    "NoticeCapabilities",
    "NoticeSeverity",
    "NumberPropertySchema",
    "OtherStateUpdate",
    "PermissionOption",
    "PermissionOptionId",
    "PermissionOptionKind",
    "Plan",
    "PlanCapabilities",
    "PlanEntry",
    "PlanEntryPriority",
    "PlanEntryStatus",
    "PlanFile",
    "PlanId",
    "PlanItems",
    "PlanMarkdown",
    "PlanRemoved",
    "PlanUpdate",
    "PlanUpdateContent",
    "PromptCapabilities",
    "PromptRequest",
    "PromptResponse",
    "ProtocolVersion",
    "ProviderCurrentConfig",
    "ProviderId",
    "ProviderInfo",
    "ProvidersCapabilities",
    "ReadTextFileRequest",
    "ReadTextFileResponse",
    "ReleaseTerminalRequest",
    "ReleaseTerminalResponse",
    "RequestId",
    "RequestPermissionOutcome",
    "RequestPermissionOutcomeCancelled",
    "RequestPermissionRequest",
    "RequestPermissionResponse",
    "RequiresActionStateUpdate",
    "ResourceLink",
    "ResumeSessionRequest",
    "ResumeSessionResponse",
    "Role",
    "RunningStateUpdate",
    "SelectedPermissionOutcome",
    "SessionAdditionalDirectoriesCapabilities",
    "SessionArchiveCapabilities",
    "SessionArchiveFilter",
    "SessionCancelCapabilities",
    "SessionCapabilities",
    "SessionCloseCapabilities",
    "SessionConfigBoolean",
    "SessionConfigGroupId",
    "SessionConfigId",
    "SessionConfigOption",
    "SessionConfigOptionBoolean",
    "SessionConfigOptionCategory",
    "SessionConfigOptionSelect",
    "SessionConfigOptionsCapabilities",
    "SessionConfigSelect",
    "SessionConfigSelectEntry",
    "SessionConfigSelectGroup",
    "SessionConfigSelectOption",
    "SessionConfigSelectOptions",
    "SessionConfigValueId",
    "SessionDeleteCapabilities",
    "SessionForkCapabilities",
    "SessionId",
    "SessionInfo",
    "SessionInfoUpdate",
    "SessionListCapabilities",
    "SessionMessage",
    "SessionMessageChunk",
    "SessionMode",
    "SessionModeId",
    "SessionModeState",
    "SessionNotification",
    "SessionResumeCapabilities",
    "SessionStatus",
    "SessionStatusCapabilities",
    "SessionStatusRequest",
    "SessionStatusResponse",
    "SessionSystemPromptCapabilities",
    "SessionSystemPromptModeCapabilities",
    "SessionSystemPromptOverrideCapabilities",
    "SessionTitleCapabilities",
    "SessionUpdate",
    "SetProviderRequest",
    "SetProviderResponse",
    "SetSessionConfigOptionRequest",
    "SetSessionConfigOptionResponse",
    "SetSessionModeRequest",
    "SetSessionModeResponse",
    "SetSessionTitleRequest",
    "SetSessionTitleResponse",
    "StateUpdate",
    "StopReason",
    "StringFormat",
    "StringMultiSelectItems",
    "StringPropertySchema",
    "SubagentCapabilities",
    "SubagentSessionCapabilities",
    "SubagentUpdate",
    "SystemPrompt",
    "SystemPromptMode",
    "Terminal",
    "TerminalExitStatus",
    "TerminalId",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "TextContent",
    "TextResourceContents",
    "TitledMultiSelectItems",
    "ToolCall",
    "ToolCallContent",
    "ToolCallId",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolCallUpdate",
    "ToolKind",
    "UnarchiveSessionRequest",
    "UnarchiveSessionResponse",
    "UnknownAuthMethod",
    "UnknownContentBlock",
    "UnknownCreateElicitationRequest",
    "UnknownCreateElicitationResponse",
    "UnknownElicitationPropertySchema",
    "UnknownMultiSelectItems",
    "UnknownPlanUpdateContent",
    "UnknownRequestPermissionOutcome",
    "UnknownSessionConfigOption",
    "UnknownSessionUpdate",
    "UnknownStateUpdate",
    "UnknownToolCallContent",
    "UnstructuredCommandInput",
    "Usage",
    "UsageUpdate",
    "UserMessageChunk",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
    "WriteTextFileRequest",
    "WriteTextFileResponse",
]


class WriteTextFileRequest(Base, frozen=True, kw_only=True):
    """Request to write content to a text file.

    Attributes:
        session_id: The session ID for this request.
        path: Absolute path to the file to write.
        content: The text content to write to the file.
    """

    session_id: SessionId
    path: str
    content: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ReadTextFileRequest(Base, frozen=True, kw_only=True):
    """Request to read content from a text file.

    Attributes:
        session_id: The session ID for this request.
        path: Absolute path to the file to read.
        line: Line number to start reading from (1-based).
        limit: Maximum number of lines to read.
    """

    session_id: SessionId
    path: str
    line: int | None = None
    limit: int | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class RequestPermissionRequest(Base, frozen=True, kw_only=True):
    """Request for user permission to execute a tool call.

    Attributes:
        session_id: The session ID for this request.
        tool_call: Details about the tool call requiring permission.
        options: Available permission options for the user to choose from.
    """

    session_id: SessionId
    tool_call: ToolCallUpdate
    options: list[PermissionOption]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ToolCallUpdate(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"
):
    """An update to an existing tool call.

    Attributes:
        tool_call_id: The ID of the tool call being updated.
        kind: Update the tool kind.
        status: Update the execution status.
        title: Update the human-readable title.
        name: Update the programmatic name of the tool being invoked.
        content: Replace the content collection.
        locations: Replace the locations collection.
        raw_input: Update the raw input.
        raw_output: Update the raw output.
    """

    tool_call_id: ToolCallId
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    title: str | None = None
    name: str | None = None
    content: list[ToolCallContent] | None = None
    locations: list[ToolCallLocation] | None = None
    raw_input: Any = None
    raw_output: Any = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownToolCallContent(Unknown, frozen=True, tag_field="type", tag="\0"):
    """A ToolCallContent that the schema does not have, or not in this shape."""


class UnknownContentBlock(Unknown, frozen=True, tag_field="type", tag="\0"):
    """A ContentBlock that the schema does not have, or not in this shape."""


class Annotations(Base, frozen=True, kw_only=True):
    """Optional annotations for the client.

    Attributes:
        audience: Intended recipients for this content, such as the user or assistant.
        last_modified: Timestamp indicating when the underlying resource was last modified.
        priority: Relative importance of this content when clients choose what to surface.
    """

    audience: list[Role] | None = None
    last_modified: str | None = None
    priority: float | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TextContent(Base, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text provided to or from an LLM.

    Attributes:
        text: Text payload carried by this content block.
        annotations: Optional annotations that help clients decide how to display or route this
            content.
    """

    text: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ImageContent(Base, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image provided to or from an LLM.

    Attributes:
        data: Base64-encoded media payload.
        mime_type: MIME type describing the encoded media payload.
        annotations: Optional annotations that help clients decide how to display or route this
            content.
        uri: URI associated with this resource or media payload.
    """

    data: str
    mime_type: str
    annotations: Annotations | None = None
    uri: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AudioContent(Base, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """Audio provided to or from an LLM.

    Attributes:
        data: Base64-encoded media payload.
        mime_type: MIME type describing the encoded media payload.
        annotations: Optional annotations that help clients decide how to display or route this
            content.
    """

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ResourceLink(Base, frozen=True, kw_only=True, tag_field="type", tag="resource_link"):
    """A resource that the server is capable of reading, included in a prompt or tool call result.

    Attributes:
        name: Human-readable name shown for this protocol object.
        uri: URI associated with this resource or media payload.
        annotations: Optional annotations that help clients decide how to display or route this
            content.
        description: Optional human-readable details shown with this protocol object.
        mime_type: MIME type describing the encoded media payload.
        size: Optional size of the linked resource in bytes, if known.
        title: Optional display title for end-user UI.
    """

    name: str
    uri: str
    annotations: Annotations | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    title: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class EmbeddedResourceResource(Base, frozen=True, kw_only=True):
    """Resource content that can be embedded in a message.

    Attributes:
        uri: URI associated with this resource or media payload.
        mime_type: MIME type describing the encoded media payload.
        text: Text payload carried by this content block.
        blob: Base64-encoded bytes for a binary resource payload.
    """

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TextResourceContents(Base, frozen=True, kw_only=True):
    """Text-based resource contents.

    Attributes:
        text: Text payload carried by this content block.
        uri: URI associated with this resource or media payload.
        mime_type: MIME type describing the encoded media payload.
    """

    text: str
    uri: str
    mime_type: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class BlobResourceContents(Base, frozen=True, kw_only=True):
    """Binary resource contents.

    Attributes:
        blob: Base64-encoded bytes for a binary resource payload.
        uri: URI associated with this resource or media payload.
        mime_type: MIME type describing the encoded media payload.
    """

    blob: str
    uri: str
    mime_type: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class EmbeddedResource(Base, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """The contents of a resource, embedded into a prompt or tool call result.

    Attributes:
        resource: Embedded resource payload, either text or binary data.
        annotations: Optional annotations that help clients decide how to display or route this
            content.
    """

    resource: EmbeddedResourceResource
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Content(Base, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """Standard content block (text, images, resources).

    Attributes:
        content: The actual content block.
    """

    content: ContentBlock
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Diff(Base, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """A diff representing file modifications.

    Attributes:
        path: The absolute file path being modified.
        new_text: The new content after modification.
        old_text: The original content (omitted or `null` for new files).
    """

    path: str
    new_text: str
    old_text: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Terminal(Base, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """Embed a terminal created with `terminal/create` by its id.

    Attributes:
        terminal_id: Identifier of the terminal instance to embed in the content stream.
    """

    terminal_id: TerminalId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ToolCallLocation(Base, frozen=True, kw_only=True):
    """A file location being accessed or modified by a tool.

    Attributes:
        path: The absolute file path being accessed or modified.
        line: Optional 1-based line number within the file.
    """

    path: str
    line: int | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PermissionOption(Base, frozen=True, kw_only=True):
    """An option presented to the user when requesting permission.

    Attributes:
        option_id: Unique identifier for this permission option.
        name: Human-readable label to display to the user.
        kind: Hint about the nature of this permission option.
    """

    option_id: PermissionOptionId
    name: str
    kind: PermissionOptionKind
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CreateTerminalRequest(Base, frozen=True, kw_only=True):
    """Request to create a new terminal and execute a command.

    Attributes:
        session_id: The session ID for this request.
        command: The command to execute.
        args: Array of command arguments.
        env: Environment variables for the command.
        cwd: Working directory for the command.
        output_byte_limit: Maximum number of output bytes to retain.
    """

    session_id: SessionId
    command: str
    args: list[str] = []
    env: list[EnvVariable] = []
    cwd: str | None = None
    output_byte_limit: int | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class EnvVariable(Base, frozen=True, kw_only=True):
    """An environment variable to set when launching an MCP server.

    Attributes:
        name: The name of the environment variable.
        value: The value to set for the environment variable.
    """

    name: str
    value: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalOutputRequest(Base, frozen=True, kw_only=True):
    """Request to get the current output and status of a terminal.

    Attributes:
        session_id: The session ID for this request.
        terminal_id: The ID of the terminal to get output from.
    """

    session_id: SessionId
    terminal_id: TerminalId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ReleaseTerminalRequest(Base, frozen=True, kw_only=True):
    """Request to release a terminal and free its resources.

    Attributes:
        session_id: The session ID for this request.
        terminal_id: The ID of the terminal to release.
    """

    session_id: SessionId
    terminal_id: TerminalId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class WaitForTerminalExitRequest(Base, frozen=True, kw_only=True):
    """Request to wait for a terminal command to exit.

    Attributes:
        session_id: The session ID for this request.
        terminal_id: The ID of the terminal to wait for.
    """

    session_id: SessionId
    terminal_id: TerminalId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class KillTerminalRequest(Base, frozen=True, kw_only=True):
    """Request to kill a terminal without releasing it.

    Attributes:
        session_id: The session ID for this request.
        terminal_id: The ID of the terminal to kill.
    """

    session_id: SessionId
    terminal_id: TerminalId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CreateElicitationRequestForm(Base, frozen=True, kw_only=True, tag_field="mode", tag="form"):
    """Form-based elicitation where the client renders a form from the provided schema.

    Attributes:
        message: A human-readable message describing what input is needed.
        requested_schema: A JSON Schema describing the form fields to present to the user.
        session_id: The session this elicitation is tied to.
        tool_call_id: Optional tool call within the session.
        request_id: The request this elicitation is tied to.
    """

    message: str
    requested_schema: ElicitationSchema
    session_id: SessionId | None = None
    tool_call_id: ToolCallId | None = None
    request_id: RequestId | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CreateElicitationRequestUrl(Base, frozen=True, kw_only=True, tag_field="mode", tag="url"):
    """URL-based elicitation where the client directs the user to a URL.

    Attributes:
        message: A human-readable message describing what input is needed.
        elicitation_id: The unique identifier for this elicitation.
        url: The URL to direct the user to.
        session_id: The session this elicitation is tied to.
        tool_call_id: Optional tool call within the session.
        request_id: The request this elicitation is tied to.
    """

    message: str
    elicitation_id: ElicitationId
    url: str
    session_id: SessionId | None = None
    tool_call_id: ToolCallId | None = None
    request_id: RequestId | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownCreateElicitationRequest(Unknown, frozen=True, tag_field="mode", tag="\0"):
    """A CreateElicitationRequest that the schema does not have, or not in this shape."""


class ElicitationSessionScope(Base, frozen=True, kw_only=True):
    """Session-scoped elicitation, optionally tied to a specific tool call.

    Attributes:
        session_id: The session this elicitation is tied to.
        tool_call_id: Optional tool call within the session.
    """

    session_id: SessionId
    tool_call_id: ToolCallId | None = None


class ElicitationRequestScope(Base, frozen=True, kw_only=True):
    """Request-scoped elicitation, tied to a specific JSON-RPC request outside of a session (e.g.,
    during auth/configuration phases before any session is started).

    Attributes:
        request_id: The request this elicitation is tied to.
    """

    request_id: RequestId


class ElicitationSchema(Base, frozen=True, kw_only=True):
    """Type-safe elicitation schema for requesting structured user input.

    Attributes:
        type: Type discriminator.
        title: Optional title for the schema.
        properties: Property definitions (must be primitive types).
        required: List of required property names.
        description: Optional description of what this schema represents.
    """

    type: ElicitationSchemaType = "object"
    title: str | None = None
    properties: dict[str, ElicitationPropertySchema] = {}
    required: list[str] | None = None
    description: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownElicitationPropertySchema(Unknown, frozen=True, tag_field="type", tag="\0"):
    """A ElicitationPropertySchema that the schema does not have, or not in this shape."""


class EnumOption(Base, frozen=True, kw_only=True):
    """A titled enum option with a const value, human-readable title, and optional description.

    Attributes:
        const: The constant value for this option.
        title: Human-readable title for this option.
        description: Human-readable description.
    """

    const: str
    title: str
    description: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class StringPropertySchema(Base, frozen=True, kw_only=True, tag_field="type", tag="string"):
    """Schema for string properties in an elicitation form.

    Attributes:
        title: Optional title for the property.
        description: Human-readable description.
        min_length: Minimum string length.
        max_length: Maximum string length.
        pattern: Pattern the string must match.
        format: String format.
        default: Default value.
        enum: Enum values for untitled single-select enums.
        one_of: Titled enum options for titled single-select enums.
    """

    title: str | None = None
    description: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: StringFormat | None = None
    default: str | None = None
    enum: list[str] | None = None
    one_of: list[EnumOption] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class NumberPropertySchema(Base, frozen=True, kw_only=True, tag_field="type", tag="number"):
    """Schema for number (floating-point) properties in an elicitation form.

    Attributes:
        title: Optional title for the property.
        description: Human-readable description.
        minimum: Minimum value (inclusive).
        maximum: Maximum value (inclusive).
        default: Default value.
    """

    title: str | None = None
    description: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    default: float | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class IntegerPropertySchema(Base, frozen=True, kw_only=True, tag_field="type", tag="integer"):
    """Schema for integer properties in an elicitation form.

    Attributes:
        title: Optional title for the property.
        description: Human-readable description.
        minimum: Minimum value (inclusive).
        maximum: Maximum value (inclusive).
        default: Default value.
    """

    title: str | None = None
    description: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    default: int | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class BooleanPropertySchema(Base, frozen=True, kw_only=True, tag_field="type", tag="boolean"):
    """Schema for boolean properties in an elicitation form.

    Attributes:
        title: Optional title for the property.
        description: Human-readable description.
        default: Default value.
    """

    title: str | None = None
    description: str | None = None
    default: bool | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownMultiSelectItems(Unknown, frozen=True, tag_field="type", tag="\0"):
    """A MultiSelectItems that the schema does not have, or not in this shape."""


class StringMultiSelectItems(Base, frozen=True, kw_only=True, tag_field="type", tag="string"):
    """String item schema for multi-select enum properties.

    Attributes:
        enum: Allowed enum values.
    """

    enum: list[str]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TitledMultiSelectItems(Base, frozen=True, kw_only=True, tag_field="type", tag="titled"):
    """Items definition for titled multi-select enum properties.

    Attributes:
        any_of: Titled enum options.
    """

    any_of: list[EnumOption]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class MultiSelectPropertySchema(Base, frozen=True, kw_only=True, tag_field="type", tag="array"):
    """Schema for multi-select (array) properties in an elicitation form.

    Attributes:
        items: The items definition describing allowed values.
        title: Optional title for the property.
        description: Human-readable description.
        min_items: Minimum number of items to select.
        max_items: Maximum number of items to select.
        default: Default selected values.
    """

    items: MultiSelectItems
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: list[str] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ElicitationFormMode(Base, frozen=True, kw_only=True):
    """Form-based elicitation mode where the client renders a form from the provided schema.

    Attributes:
        requested_schema: A JSON Schema describing the form fields to present to the user.
        session_id: The session this elicitation is tied to.
        tool_call_id: Optional tool call within the session.
        request_id: The request this elicitation is tied to.
    """

    requested_schema: ElicitationSchema
    session_id: SessionId | None = None
    tool_call_id: ToolCallId | None = None
    request_id: RequestId | None = None


class ElicitationUrlMode(Base, frozen=True, kw_only=True):
    """URL-based elicitation mode where the client directs the user to a URL.

    Attributes:
        elicitation_id: The unique identifier for this elicitation.
        url: The URL to direct the user to.
        session_id: The session this elicitation is tied to.
        tool_call_id: Optional tool call within the session.
        request_id: The request this elicitation is tied to.
    """

    elicitation_id: ElicitationId
    url: str
    session_id: SessionId | None = None
    tool_call_id: ToolCallId | None = None
    request_id: RequestId | None = None


class InitializeResponse(Base, frozen=True, kw_only=True):
    """Response to the `initialize` method.

    Attributes:
        protocol_version: The protocol version the client specified if supported by the agent,
            or the latest protocol version supported by the agent.
        agent_capabilities: Capabilities supported by the agent.
        auth_methods: Authentication methods supported by the agent.
        agent_info: Information about the Agent name and version sent to the Client.
    """

    protocol_version: ProtocolVersion
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: list[AuthMethod] = []
    agent_info: Implementation | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AgentCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities supported by the agent.

    Attributes:
        load_session: Whether the agent supports `session/load`.
        prompt_capabilities: Prompt capabilities supported by the agent.
        mcp_capabilities: MCP capabilities supported by the agent.
        session_capabilities: Session lifecycle and prompt capabilities advertised by the agent.
        auth: Authentication-related capabilities supported by the agent.
        providers: (unstable) Provider configuration capabilities supported by the agent.
    """

    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: SessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None
    providers: ProvidersCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PromptCapabilities(Base, frozen=True, kw_only=True):
    """Prompt capabilities supported by the agent in `session/prompt` requests.

    Attributes:
        image: Agent supports `image` content blocks.
        audio: Agent supports `audio` content blocks.
        embedded_context: Agent supports embedded context in `session/prompt` requests.
    """

    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class McpCapabilities(Base, frozen=True, kw_only=True):
    """MCP capabilities supported by the agent

    Attributes:
        http: Agent supports `http` MCP servers.
        sse: Agent supports `sse` MCP servers.
        acp: (unstable) Agent supports `acp` MCP servers.
    """

    http: bool = False
    sse: bool = False
    acp: bool = False
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionCapabilities(Base, frozen=True, kw_only=True):
    """Session capabilities supported by the agent.

    Attributes:
        list: Whether the agent supports `session/list`.
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
        resume: Whether the agent supports `session/resume`.
        close: Whether the agent supports `session/close`.
    """

    list: SessionListCapabilities | None = None
    delete: SessionDeleteCapabilities | None = None
    additional_directories: SessionAdditionalDirectoriesCapabilities | None = None
    system_prompt: SessionSystemPromptCapabilities | None = None
    fork: SessionForkCapabilities | None = None
    archive: SessionArchiveCapabilities | None = None
    status: SessionStatusCapabilities | None = None
    title: SessionTitleCapabilities | None = None
    resume: SessionResumeCapabilities | None = None
    close: SessionCloseCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionListCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for the `session/list` method."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionDeleteCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for the `session/delete` method."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionAdditionalDirectoriesCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for additional session directories support."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionSystemPromptCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capabilities for client-provided system prompts.

    Attributes:
        mode: Delivery modes the agent supports in addition to `append`.
    """

    unstable: ClassVar[bool] = True
    mode: SessionSystemPromptModeCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionSystemPromptModeCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. System prompt delivery modes the agent supports in addition to `append`.

    Attributes:
        override: Whether the agent supports `override` mode.
    """

    unstable: ClassVar[bool] = True
    override: SessionSystemPromptOverrideCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionSystemPromptOverrideCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capabilities for the `override` system prompt mode."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionForkCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capabilities for the `session/fork` method."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionArchiveCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capabilities for `session/archive` and `session/unarchive`."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionStatusCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capabilities for the `session/status` method."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionTitleCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capabilities for Client-set session titles."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionResumeCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for the `session/resume` method."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionCloseCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for the `session/close` method."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AgentAuthCapabilities(Base, frozen=True, kw_only=True):
    """Authentication-related capabilities supported by the agent.

    Attributes:
        status: (unstable) Whether the agent supports the `auth/status` method.
        logout: Whether the agent supports the logout method.
    """

    status: AuthStatusCapabilities | None = None
    logout: LogoutCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthStatusCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Auth status capabilities supported by the agent."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class LogoutCapabilities(Base, frozen=True, kw_only=True):
    """Logout capabilities supported by the agent."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ProvidersCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Provider configuration capabilities supported by the agent."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownAuthMethod(Unknown, frozen=True, tag_field="type", tag="\0"):
    """A AuthMethod that the schema does not have, or not in this shape."""


class AuthMethodTerminal(Base, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """Terminal-based authentication method.

    Attributes:
        id: Unique identifier for this authentication method.
        name: Human-readable name of the authentication method.
        description: Optional human-readable description of this authentication method.
        args: Additional arguments to append to the configured agent invocation for terminal
            auth.
        env: Additional environment variables to set on the configured agent invocation for
            terminal auth.
    """

    id: AuthMethodId
    name: str
    description: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthMethodAgent(Base, frozen=True, kw_only=True, tag_field="type", tag="agent"):
    """Agent handles authentication itself through `authenticate`.

    Attributes:
        id: Unique identifier for this authentication method.
        name: Human-readable name of the authentication method.
        description: Optional human-readable description of this authentication method.
    """

    id: AuthMethodId
    name: str
    description: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Implementation(Base, frozen=True, kw_only=True):
    """Metadata about the implementation of the client or agent.

    Attributes:
        name: Intended for programmatic or logical use, but can be used as a display name
            fallback if title isn't present.
        version: Version of the implementation.
        title: Intended for UI and end-user contexts and optimized to be human-readable and
            easily understood.
    """

    name: str
    version: str
    title: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthenticateResponse(Base, frozen=True, kw_only=True):
    """Response to the `authenticate` method."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListProvidersResponse(Base, frozen=True, kw_only=True):
    """Unstable. Response to `providers/list`.

    Attributes:
        providers: Configurable providers with current routing info suitable for UI display.
    """

    unstable: ClassVar[bool] = True
    providers: list[ProviderInfo]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ProviderInfo(Base, frozen=True, kw_only=True):
    """Unstable. Information about a configurable LLM provider.

    Attributes:
        provider_id: Provider identifier, for example "main" or "openai".
        supported: Supported protocol types for this provider.
        required: Whether this provider is mandatory and cannot be disabled via
            `providers/disable`.
        current: Current effective non-secret routing config.
    """

    unstable: ClassVar[bool] = True
    provider_id: ProviderId
    supported: list[LlmProtocol]
    required: bool
    current: ProviderCurrentConfig | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ProviderCurrentConfig(Base, frozen=True, kw_only=True):
    """Unstable. Current effective non-secret routing configuration for a provider.

    Attributes:
        api_type: Protocol currently used by this provider.
        base_url: Base URL currently used by this provider.
    """

    unstable: ClassVar[bool] = True
    api_type: LlmProtocol
    base_url: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SetProviderResponse(Base, frozen=True, kw_only=True):
    """Unstable. Response to `providers/set`."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class DisableProviderResponse(Base, frozen=True, kw_only=True):
    """Unstable. Response to `providers/disable`."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class LogoutResponse(Base, frozen=True, kw_only=True):
    """Response to the `logout` method."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthStatusResponse(Base, frozen=True, kw_only=True):
    """Unstable. Response to the `auth/status` method.

    Attributes:
        state: Whether the agent can start sessions without the user signing in first.
        accounts: The accounts the agent has configured, for display.
    """

    unstable: ClassVar[bool] = True
    state: AuthState
    accounts: list[AuthAccount] = []
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthAccount(Base, frozen=True, kw_only=True):
    """Unstable. An account or credential the agent has configured, such as a signed-in user
    account or an API key.

    Attributes:
        label: Human-readable name for the account, suitable for display on its own, for example
            `Claude Max`, `OpenAI API key`, or `Vertex AI`.
        active: Whether the agent currently uses this account by default.
        name: Display name of the user, such as a username or full name.
        email: Email address of the user.
        organization: Display name of the organization, team, or workspace the account is using.
    """

    unstable: ClassVar[bool] = True
    label: str
    active: bool | None = None
    name: str | None = None
    email: str | None = None
    organization: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class NewSessionResponse(Base, frozen=True, kw_only=True):
    """Response from creating a new session.

    Attributes:
        session_id: Unique identifier for the created session.
        modes: Initial mode state if supported by the Agent
        config_options: Initial session configuration options if supported by the Agent.
    """

    session_id: SessionId
    modes: SessionModeState | None = None
    config_options: list[SessionConfigOption] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionModeState(Base, frozen=True, kw_only=True):
    """The set of modes and the one currently active.

    Attributes:
        current_mode_id: The current mode the Agent is in.
        available_modes: The set of modes that the Agent can operate in
    """

    current_mode_id: SessionModeId
    available_modes: list[SessionMode]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionMode(Base, frozen=True, kw_only=True):
    """A mode the agent can operate in.

    Attributes:
        id: Stable identifier used to refer to this protocol object in later messages.
        name: Human-readable name shown for this protocol object.
        description: Optional human-readable details shown with this protocol object.
    """

    id: SessionModeId
    name: str
    description: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionConfigOptionSelect(Base, frozen=True, kw_only=True, tag_field="type", tag="select"):
    """Single-value selector (dropdown).

    Attributes:
        id: Unique identifier for the configuration option.
        name: Human-readable label for the option.
        current_value: The currently selected value.
        options: The set of selectable options.
        description: Optional description for the Client to display to the user.
        category: Optional semantic category for this option (UX only).
    """

    id: SessionConfigId
    name: str
    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions
    description: str | None = None
    category: SessionConfigOptionCategory | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionConfigOptionBoolean(Base, frozen=True, kw_only=True, tag_field="type", tag="boolean"):
    """Boolean on/off toggle.

    Attributes:
        id: Unique identifier for the configuration option.
        name: Human-readable label for the option.
        current_value: The current value of the boolean option.
        description: Optional description for the Client to display to the user.
        category: Optional semantic category for this option (UX only).
    """

    id: SessionConfigId
    name: str
    current_value: bool
    description: str | None = None
    category: SessionConfigOptionCategory | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownSessionConfigOption(Unknown, frozen=True, tag_field="type", tag="\0"):
    """A SessionConfigOption that the schema does not have, or not in this shape."""


class SessionConfigSelectEntry(Base, frozen=True, kw_only=True):
    """An option, or (with ``group`` and ``options``) a group of options.

    Attributes:
        name: Human-readable label for this option value.
        value: Unique identifier for this option value.
        description: Optional description for this option value.
        group: Unique identifier for this group.
        options: The set of option values in this group.
    """

    name: str
    value: SessionConfigValueId | None = None
    description: str | None = None
    group: SessionConfigGroupId | None = None
    options: list[SessionConfigSelectOption] = []
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionConfigSelectOption(Base, frozen=True, kw_only=True):
    """A possible value for a session configuration option.

    Attributes:
        value: Unique identifier for this option value.
        name: Human-readable label for this option value.
        description: Optional description for this option value.
    """

    value: SessionConfigValueId
    name: str
    description: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionConfigSelectGroup(Base, frozen=True, kw_only=True):
    """A group of possible values for a session configuration option.

    Attributes:
        group: Unique identifier for this group.
        name: Human-readable label for this group.
        options: The set of option values in this group.
    """

    group: SessionConfigGroupId
    name: str
    options: list[SessionConfigSelectOption]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionConfigSelect(Base, frozen=True, kw_only=True):
    """A single-value selector (dropdown) session configuration option payload.

    Attributes:
        current_value: The currently selected value.
        options: The set of selectable options.
    """

    current_value: SessionConfigValueId
    options: SessionConfigSelectOptions


class SessionConfigBoolean(Base, frozen=True, kw_only=True):
    """A boolean on/off toggle session configuration option payload.

    Attributes:
        current_value: The current value of the boolean option.
    """

    current_value: bool


class LoadSessionResponse(Base, frozen=True, kw_only=True):
    """Response from loading an existing session.

    Attributes:
        modes: Initial mode state if supported by the Agent
        config_options: Initial session configuration options if supported by the Agent.
    """

    modes: SessionModeState | None = None
    config_options: list[SessionConfigOption] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListSessionsResponse(Base, frozen=True, kw_only=True):
    """Response from listing sessions.

    Attributes:
        sessions: Array of session information objects
        next_cursor: Opaque cursor token.
    """

    sessions: list[SessionInfo]
    next_cursor: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionInfo(Base, frozen=True, kw_only=True):
    """Information about a session returned by session/list

    Attributes:
        session_id: Unique identifier for the session
        cwd: The working directory for this session.
        additional_directories: Additional workspace roots reported for this session.
        title: Human-readable title for the session
        updated_at: ISO 8601 timestamp of last activity
        archived: (unstable) Whether the session is archived.
    """

    session_id: SessionId
    cwd: str
    additional_directories: list[str] = []
    title: str | None = None
    updated_at: str | None = None
    archived: bool | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class DeleteSessionResponse(Base, frozen=True, kw_only=True):
    """Response from deleting a session."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ForkSessionResponse(Base, frozen=True, kw_only=True):
    """Unstable. Response from forking an existing session.

    Attributes:
        session_id: Unique identifier for the newly created forked session.
        modes: Initial mode state if supported by the Agent
        config_options: Initial session configuration options if supported by the Agent.
    """

    unstable: ClassVar[bool] = True
    session_id: SessionId
    modes: SessionModeState | None = None
    config_options: list[SessionConfigOption] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ArchiveSessionResponse(Base, frozen=True, kw_only=True):
    """Unstable. Response from archiving a session."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnarchiveSessionResponse(Base, frozen=True, kw_only=True):
    """Unstable. Response from unarchiving a session."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionStatusResponse(Base, frozen=True, kw_only=True):
    """Unstable. Response from checking the status of a session.

    Attributes:
        status: Whether the Agent has the session in memory.
    """

    unstable: ClassVar[bool] = True
    status: SessionStatus
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SetSessionTitleResponse(Base, frozen=True, kw_only=True):
    """Unstable. Response from setting the title of a session.

    Attributes:
        title: The title the Agent stored.
    """

    unstable: ClassVar[bool] = True
    title: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ResumeSessionResponse(Base, frozen=True, kw_only=True):
    """Response from resuming an existing session.

    Attributes:
        modes: Initial mode state if supported by the Agent
        config_options: Initial session configuration options if supported by the Agent.
    """

    modes: SessionModeState | None = None
    config_options: list[SessionConfigOption] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CloseSessionResponse(Base, frozen=True, kw_only=True):
    """Response from closing a session."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SetSessionModeResponse(Base, frozen=True, kw_only=True):
    """Response to `session/set_mode` method."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SetSessionConfigOptionResponse(Base, frozen=True, kw_only=True):
    """Response to `session/set_config_option` method.

    Attributes:
        config_options: The full set of configuration options and their current values.
    """

    config_options: list[SessionConfigOption]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PromptResponse(Base, frozen=True, kw_only=True):
    """Response from processing a user prompt.

    Attributes:
        stop_reason: Indicates why the agent stopped processing the turn.
        usage: (unstable) Token usage for this turn (optional).
    """

    stop_reason: StopReason
    usage: Usage | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Usage(Base, frozen=True, kw_only=True):
    """Unstable. Token usage information for a prompt turn.

    Attributes:
        total_tokens: Sum of all token types across session.
        input_tokens: Total input tokens across all turns.
        output_tokens: Total output tokens across all turns.
        thought_tokens: Total thought/reasoning tokens
        cached_read_tokens: Total cache read tokens.
        cached_write_tokens: Total cache write tokens.
    """

    unstable: ClassVar[bool] = True
    total_tokens: int
    input_tokens: int
    output_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Error(Base, frozen=True, kw_only=True):
    """JSON-RPC error object.

    Attributes:
        code: A number indicating the error type that occurred.
        message: A string providing a short description of the error.
        data: Optional primitive or structured value that contains additional information about
            the error.
    """

    code: ErrorCode
    message: str
    data: Any = None


class SessionNotification(Base, frozen=True, kw_only=True):
    """Notification containing a session update from the agent.

    Attributes:
        session_id: The ID of the session this update pertains to.
        update: The actual update content.
    """

    session_id: SessionId
    update: SessionUpdate
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownSessionUpdate(UnknownUpdate, frozen=True, tag_field="sessionUpdate", tag="\0"):
    """A SessionUpdate that the schema does not have, or not in this shape."""


class ContentChunk(Update, frozen=True, kw_only=True):
    """A streamed item of content

    Attributes:
        content: A single item of content
        message_id: A unique identifier for the message this chunk belongs to.
    """

    content: ContentBlock
    message_id: MessageId | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ToolCall(Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call"):
    """Represents a tool call that the language model has requested.

    Attributes:
        tool_call_id: Unique identifier for this tool call within the session.
        title: Human-readable title describing what the tool is doing.
        name: Programmatic name of the tool being invoked.
        kind: The category of tool being invoked.
        status: Current execution status of the tool call.
        content: Content produced by the tool call.
        locations: File locations affected by this tool call.
        raw_input: Raw input parameters sent to the tool.
        raw_output: Raw output returned by the tool.
    """

    tool_call_id: ToolCallId
    title: str
    name: str | None = None
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    content: list[ToolCallContent] = []
    locations: list[ToolCallLocation] = []
    raw_input: Any = None
    raw_output: Any = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PlanEntry(Base, frozen=True, kw_only=True):
    """A single entry in the execution plan.

    Attributes:
        content: Human-readable description of what this task aims to accomplish.
        priority: The relative importance of this task.
        status: Current execution status of this task.
    """

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Plan(Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="plan"):
    """An execution plan for accomplishing complex tasks.

    Attributes:
        entries: The list of tasks to be accomplished.
    """

    entries: list[PlanEntry]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownPlanUpdateContent(Unknown, frozen=True, tag_field="type", tag="\0"):
    """A PlanUpdateContent that the schema does not have, or not in this shape."""


class PlanItems(Base, frozen=True, kw_only=True, tag_field="type", tag="items"):
    """Unstable. A plan represented as structured entries.

    Attributes:
        plan_id: The plan ID to update.
        entries: The list of tasks to be accomplished.
    """

    unstable: ClassVar[bool] = True
    plan_id: PlanId
    entries: list[PlanEntry]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PlanFile(Base, frozen=True, kw_only=True, tag_field="type", tag="file"):
    """Unstable. A plan represented by a file URI.

    Attributes:
        plan_id: The plan ID to update.
        uri: The URI of the file containing the plan.
    """

    unstable: ClassVar[bool] = True
    plan_id: PlanId
    uri: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PlanMarkdown(Base, frozen=True, kw_only=True, tag_field="type", tag="markdown"):
    """Unstable. A plan represented as raw markdown content.

    Attributes:
        plan_id: The plan ID to update.
        content: Markdown content for the plan.
    """

    unstable: ClassVar[bool] = True
    plan_id: PlanId
    content: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PlanUpdate(Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="plan_update"):
    """Unstable. A content update for a plan identified by ID.

    Attributes:
        plan: The updated plan content.
    """

    unstable: ClassVar[bool] = True
    plan: PlanUpdateContent
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PlanRemoved(Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="plan_removed"):
    """Unstable. Removal notice for a plan identified by ID.

    Attributes:
        plan_id: The plan ID to remove.
    """

    unstable: ClassVar[bool] = True
    plan_id: PlanId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AvailableCommand(Base, frozen=True, kw_only=True):
    """Information about a command.

    Attributes:
        name: Command name (e.g., `create_plan`, `research_codebase`).
        description: Human-readable description of what the command does.
        input: Input for the command if required
    """

    name: str
    description: str
    input: AvailableCommandInput | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AvailableCommandInput(Base, frozen=True, kw_only=True):
    """The input specification for a command.

    Attributes:
        hint: A hint to display when the input hasn't been provided yet
    """

    hint: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnstructuredCommandInput(Base, frozen=True, kw_only=True):
    """All text that was typed after the command name is provided as input.

    Attributes:
        hint: A hint to display when the input hasn't been provided yet
    """

    hint: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AvailableCommandsUpdate(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="available_commands_update"
):
    """Available commands are ready or have changed

    Attributes:
        available_commands: Commands the agent can execute
    """

    available_commands: list[AvailableCommand]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CurrentModeUpdate(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="current_mode_update"
):
    """The current mode of the session has changed

    Attributes:
        current_mode_id: The ID of the current mode
    """

    current_mode_id: SessionModeId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ConfigOptionUpdate(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="config_option_update"
):
    """Session configuration options have been updated.

    Attributes:
        config_options: The full set of configuration options and their current values.
    """

    config_options: list[SessionConfigOption]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionInfoUpdate(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_info_update"
):
    """Update to session metadata.

    Attributes:
        title: Human-readable title for the session.
        updated_at: ISO 8601 timestamp of last activity.
    """

    title: str | None = None
    updated_at: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Cost(Base, frozen=True, kw_only=True):
    """Cost information for a session.

    Attributes:
        amount: Total cumulative cost for session.
        currency: Unit of `amount`: an ISO 4217 currency code (e.g., "USD", "EUR") for money, or
            another unit such as "credits".
    """

    amount: float
    currency: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UsageUpdate(Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="usage_update"):
    """Context window and cost update for a session.

    Attributes:
        used: Tokens currently in context.
        size: Total context window size in tokens.
        cost: Cumulative session cost (optional).
    """

    used: int
    size: int
    cost: Cost | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class Notice(Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="notice"):
    """Fire-and-forget information for the user.

    Attributes:
        severity: Presentation severity hint.
        title: Required non-empty plain-text title that can stand alone.
        description: Optional plain-text detail or guidance.
    """

    severity: NoticeSeverity
    title: str
    description: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CompactionUpdate(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="compaction_update"
):
    """A context compaction upsert.

    Attributes:
        compaction_id: The Agent-owned ID of this compaction, unique within the session.
        status: Current lifecycle status.
        summary: Complete replacement user-displayable summary content for the compaction.
        error: Human-readable error details for the compaction.
    """

    compaction_id: CompactionId
    status: CompactionStatus
    summary: list[ContentBlock] | None = None
    error: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CompactionSummaryChunk(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="compaction_summary_chunk"
):
    """A content block appended to a compaction's summary.

    Attributes:
        compaction_id: ID of the compaction whose summary receives this content.
        content: One content block to append.
    """

    compaction_id: CompactionId
    content: ContentBlock
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SubagentSessionCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Client-initiated session mutations permitted for a specific subagent session.

    Attributes:
        cancel: Permits the client to cancel this child's current work without ending the
            session.
    """

    unstable: ClassVar[bool] = True
    cancel: SessionCancelCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionCancelCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capability to cancel work in a subagent session without ending that session."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class OtherStateUpdate(Unknown, frozen=True, tag_field="state", tag="\0"):
    """A StateUpdate that the schema does not have, or not in this shape."""


class RunningStateUpdate(Base, frozen=True, kw_only=True, tag_field="state", tag="running"):
    """Unstable. Foreground work is in progress."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ErrorStopReason(Base, frozen=True, kw_only=True):
    """Unstable. Details of a failure that ended a child's foreground work.

    Attributes:
        error: The failure, as a JSON-RPC error object.
    """

    unstable: ClassVar[bool] = True
    error: Error | None = None


class IdleStateUpdate(Base, frozen=True, kw_only=True, tag_field="state", tag="idle"):
    """Unstable. The child is ready to process another prompt.

    Attributes:
        usage: Optional.
        error: The failure, as a JSON-RPC error object.
    """

    unstable: ClassVar[bool] = True
    usage: Usage | None = None
    stop_reason: Any = None
    error: Error | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class RequiresActionStateUpdate(
    Base, frozen=True, kw_only=True, tag_field="state", tag="requires_action"
):
    """Unstable. Foreground work is blocked on user action."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownStateUpdate(Base, frozen=True, kw_only=True, tag_field="state", tag="unknown"):
    """Unstable. The Agent cannot currently determine foreground activity."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SubagentUpdate(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="subagent_update"
):
    """Unstable. Notification that the enclosing parent session created and owns a child session.

    Attributes:
        session_id: The opaque session ID identifying the child in all ACP messages.
        title: The parent's human-readable display title for this child.
        description: The parent's human-readable description of the child's role or purpose.
        capabilities: Client-initiated session mutations permitted for this subagent session.
        state: Current state snapshot for the child session.
        cwd: The child's working directory.
        additional_directories: Additional workspace roots for the child.
    """

    unstable: ClassVar[bool] = True
    session_id: SessionId
    title: str | None = None
    description: str | None = None
    capabilities: SubagentSessionCapabilities | None = None
    state: StateUpdate | None = None
    cwd: str | None = None
    additional_directories: list[str] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionMessage(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_message"
):
    """Unstable. An upsert for an inter-session message.

    Attributes:
        message_id: Identifier of this message within the enclosing session's transcript.
        sender_session_id: The sending session.
        recipient_session_id: The receiving session.
        sender_message_id: On an incoming view, the `messageId` of the same message's outgoing
            view in the sender's transcript.
        recipient_message_id: On an outgoing view, the `messageId` of the same message's
            incoming view in the recipient's transcript.
        content: Omitted leaves content unchanged.
    """

    unstable: ClassVar[bool] = True
    message_id: MessageId
    sender_session_id: SessionId | None = None
    recipient_session_id: SessionId | None = None
    sender_message_id: MessageId | None = None
    recipient_message_id: MessageId | None = None
    content: list[ContentBlock] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionMessageChunk(
    Update, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_message_chunk"
):
    """Unstable. A streamed content block of an inter-session message.

    Attributes:
        message_id: Identifier of this message within the enclosing session's transcript.
        content: A single content block appended to the message.
    """

    unstable: ClassVar[bool] = True
    message_id: MessageId
    content: ContentBlock
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CompleteElicitationNotification(Base, frozen=True, kw_only=True):
    """Notification sent by the agent when a URL-based elicitation is complete.

    Attributes:
        elicitation_id: The ID of the elicitation that completed.
    """

    elicitation_id: ElicitationId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthStatusUpdateNotification(Base, frozen=True, kw_only=True):
    """Unstable. Notification sent by the agent when its authentication status changes.

    Attributes:
        state: Whether the agent can start sessions without the user signing in first.
        accounts: The accounts the agent has configured, for display.
    """

    unstable: ClassVar[bool] = True
    state: AuthState
    accounts: list[AuthAccount] = []
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class InitializeRequest(Base, frozen=True, kw_only=True):
    """Request parameters for the initialize method.

    Attributes:
        protocol_version: The latest protocol version supported by the client.
        client_capabilities: Capabilities supported by the client.
        client_info: Information about the Client name and version sent to the Agent.
    """

    protocol_version: ProtocolVersion
    client_capabilities: ClientCapabilities | None = None
    client_info: Implementation | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ClientCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities supported by the client.

    Attributes:
        fs: File system capabilities supported by the client.
        terminal: Whether the Client support all `terminal/*` methods.
        session: Session-related capabilities supported by the client.
        subagents: (unstable) Whether the client understands exposed subagent sessions.
        plan: (unstable) Whether the client supports `plan_update` and `plan_removed` session
            updates.
        auth: Authentication capabilities supported by the client.
        elicitation: Elicitation capabilities supported by the client.
    """

    fs: FileSystemCapabilities | None = None
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    subagents: SubagentCapabilities | None = None
    plan: PlanCapabilities | None = None
    auth: AuthCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class FileSystemCapabilities(Base, frozen=True, kw_only=True):
    """File system capabilities that a client may support.

    Attributes:
        read_text_file: Whether the Client supports `fs/read_text_file` requests.
        write_text_file: Whether the Client supports `fs/write_text_file` requests.
    """

    read_text_file: bool = False
    write_text_file: bool = False
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ClientSessionCapabilities(Base, frozen=True, kw_only=True):
    """Session-related capabilities supported by the client.

    Attributes:
        compaction: Support for ID-addressed context compaction updates.
        config_options: Config option capabilities supported by the client.
        notices: Support for live user-facing `notice` session updates.
    """

    compaction: CompactionCapabilities | None = None
    config_options: SessionConfigOptionsCapabilities | None = None
    notices: NoticeCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CompactionCapabilities(Base, frozen=True, kw_only=True):
    """Client support for ID-addressed context compaction updates."""


class SessionConfigOptionsCapabilities(Base, frozen=True, kw_only=True):
    """Session configuration option capabilities supported by the client.

    Attributes:
        boolean: Whether the client supports boolean session configuration options.
    """

    boolean: BooleanConfigOptionCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class BooleanConfigOptionCapabilities(Base, frozen=True, kw_only=True):
    """Capabilities for boolean session configuration options."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class NoticeCapabilities(Base, frozen=True, kw_only=True):
    """Client support for presenting live notices to the user."""


class SubagentCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capability marker for exposing reusable child sessions as restricted ACP sessions."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PlanCapabilities(Base, frozen=True, kw_only=True):
    """Unstable. Capabilities for receiving `plan_update` and `plan_removed` session updates."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthCapabilities(Base, frozen=True, kw_only=True):
    """Authentication capabilities supported by the client.

    Attributes:
        terminal: Whether the client supports `terminal` authentication methods.
    """

    terminal: bool = False
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ElicitationCapabilities(Base, frozen=True, kw_only=True):
    """Elicitation capabilities supported by the client.

    Attributes:
        form: Whether the client supports form-based elicitation.
        url: Whether the client supports URL-based elicitation.
    """

    form: ElicitationFormCapabilities | None = None
    url: ElicitationUrlCapabilities | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ElicitationFormCapabilities(Base, frozen=True, kw_only=True):
    """Form-based elicitation capabilities."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ElicitationUrlCapabilities(Base, frozen=True, kw_only=True):
    """URL-based elicitation capabilities."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthenticateRequest(Base, frozen=True, kw_only=True):
    """Request parameters for the authenticate method.

    Attributes:
        method_id: The ID of the authentication method to use.
    """

    method_id: AuthMethodId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListProvidersRequest(Base, frozen=True, kw_only=True):
    """Unstable. Request parameters for `providers/list`."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SetProviderRequest(Base, frozen=True, kw_only=True):
    """Unstable. Request parameters for `providers/set`.

    Attributes:
        provider_id: Provider ID to configure.
        api_type: Protocol type for this provider.
        base_url: Base URL for requests sent through this provider.
        headers: Full headers map for this provider.
    """

    unstable: ClassVar[bool] = True
    provider_id: ProviderId
    api_type: LlmProtocol
    base_url: str
    headers: dict[str, str] = {}
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class DisableProviderRequest(Base, frozen=True, kw_only=True):
    """Unstable. Request parameters for `providers/disable`.

    Attributes:
        provider_id: Provider ID to disable.
    """

    unstable: ClassVar[bool] = True
    provider_id: ProviderId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class LogoutRequest(Base, frozen=True, kw_only=True):
    """Request parameters for the logout method."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AuthStatusRequest(Base, frozen=True, kw_only=True):
    """Unstable. Request parameters for the `auth/status` method."""

    unstable: ClassVar[bool] = True
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class NewSessionRequest(Base, frozen=True, kw_only=True):
    """Request parameters for creating a new session.

    Attributes:
        cwd: The working directory for this session.
        mcp_servers: List of MCP (Model Context Protocol) servers the agent should connect to.
        additional_directories: Additional workspace roots for this session.
        system_prompt: (unstable) System-level instructions for the new session.
    """

    cwd: str
    mcp_servers: list[McpServer]
    additional_directories: list[str] = []
    system_prompt: SystemPrompt | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class HttpHeader(Base, frozen=True, kw_only=True):
    """An HTTP header to set when making requests to the MCP server.

    Attributes:
        name: The name of the HTTP header.
        value: The value to set for the HTTP header.
    """

    name: str
    value: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class McpServerHttp(Base, frozen=True, kw_only=True, tag_field="type", tag="http"):
    """HTTP transport configuration for MCP.

    Attributes:
        name: Human-readable name identifying this MCP server.
        url: URL to the MCP server.
        headers: HTTP headers to set when making requests to the MCP server.
    """

    name: str
    url: str
    headers: list[HttpHeader]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class McpServerSse(Base, frozen=True, kw_only=True, tag_field="type", tag="sse"):
    """SSE transport configuration for MCP.

    Attributes:
        name: Human-readable name identifying this MCP server.
        url: URL to the MCP server.
        headers: HTTP headers to set when making requests to the MCP server.
    """

    name: str
    url: str
    headers: list[HttpHeader]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class McpServerAcp(Base, frozen=True, kw_only=True, tag_field="type", tag="acp"):
    """Unstable. ACP transport configuration for MCP.

    Attributes:
        name: Human-readable name identifying this MCP server.
        server_id: Unique identifier for this MCP server, generated by the component providing
            it.
    """

    unstable: ClassVar[bool] = True
    name: str
    server_id: McpServerAcpId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class McpServerStdio(Base, frozen=True, kw_only=True):
    """Stdio transport configuration for MCP.

    Attributes:
        name: Human-readable name identifying this MCP server.
        command: Absolute path to the MCP server executable.
        args: Command-line arguments to pass to the MCP server.
        env: Environment variables to set when launching the MCP server.
    """

    name: str
    command: str
    args: list[str]
    env: list[EnvVariable]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SystemPrompt(Base, frozen=True, kw_only=True):
    """Unstable. Client-provided system-level instructions for a session.

    Attributes:
        mode: How the Agent combines `content` with its own instructions.
        content: The system prompt content.
    """

    unstable: ClassVar[bool] = True
    mode: SystemPromptMode
    content: list[ContentBlock]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class LoadSessionRequest(Base, frozen=True, kw_only=True):
    """Request parameters for loading an existing session.

    Attributes:
        mcp_servers: List of MCP servers to connect to for this session.
        cwd: The working directory for this session.
        session_id: The ID of the session to load.
        additional_directories: Additional workspace roots to activate for this session.
        system_prompt: (unstable) System-level instructions for the loaded session.
    """

    mcp_servers: list[McpServer]
    cwd: str
    session_id: SessionId
    additional_directories: list[str] = []
    system_prompt: SystemPrompt | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListSessionsRequest(Base, frozen=True, kw_only=True):
    """Request parameters for listing existing sessions.

    Attributes:
        cwd: Filter sessions by working directory.
        cursor: Opaque cursor token from a previous response's nextCursor field for cursor-based
            pagination
        archived: (unstable) Filter sessions by archive state.
    """

    cwd: str | None = None
    cursor: str | None = None
    archived: SessionArchiveFilter | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class DeleteSessionRequest(Base, frozen=True, kw_only=True):
    """Request parameters for deleting an existing session from `session/list`.

    Attributes:
        session_id: The ID of the session to delete.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ForkSessionRequest(Base, frozen=True, kw_only=True):
    """Unstable. Request parameters for forking an existing session.

    Attributes:
        session_id: The ID of the session to fork.
        cwd: The working directory for this session.
        additional_directories: Additional workspace roots to activate for this session.
        mcp_servers: List of MCP servers to connect to for this session.
        system_prompt: System-level instructions for the forked session.
    """

    unstable: ClassVar[bool] = True
    session_id: SessionId
    cwd: str
    additional_directories: list[str] = []
    mcp_servers: list[McpServer] = []
    system_prompt: SystemPrompt | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ArchiveSessionRequest(Base, frozen=True, kw_only=True):
    """Unstable. Request parameters for archiving a session.

    Attributes:
        session_id: The ID of the session to archive.
    """

    unstable: ClassVar[bool] = True
    session_id: SessionId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnarchiveSessionRequest(Base, frozen=True, kw_only=True):
    """Unstable. Request parameters for unarchiving a session.

    Attributes:
        session_id: The ID of the session to unarchive.
    """

    unstable: ClassVar[bool] = True
    session_id: SessionId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SessionStatusRequest(Base, frozen=True, kw_only=True):
    """Unstable. Request parameters for checking the status of a session.

    Attributes:
        session_id: The ID of the session to check.
    """

    unstable: ClassVar[bool] = True
    session_id: SessionId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SetSessionTitleRequest(Base, frozen=True, kw_only=True):
    """Unstable. Request parameters for setting the title of a session.

    Attributes:
        session_id: The ID of the session to retitle.
        title: The new title for the session.
    """

    unstable: ClassVar[bool] = True
    session_id: SessionId
    title: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ResumeSessionRequest(Base, frozen=True, kw_only=True):
    """Request parameters for resuming an existing session.

    Attributes:
        session_id: The ID of the session to resume.
        cwd: The working directory for this session.
        additional_directories: Additional workspace roots to activate for this session.
        mcp_servers: List of MCP servers to connect to for this session.
        system_prompt: (unstable) System-level instructions for the resumed session.
    """

    session_id: SessionId
    cwd: str
    additional_directories: list[str] = []
    mcp_servers: list[McpServer] = []
    system_prompt: SystemPrompt | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CloseSessionRequest(Base, frozen=True, kw_only=True):
    """Request parameters for closing an active session.

    Attributes:
        session_id: The ID of the session to close.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SetSessionModeRequest(Base, frozen=True, kw_only=True):
    """Request parameters for setting a session mode.

    Attributes:
        session_id: The ID of the session to set the mode for.
        mode_id: The ID of the mode to set.
    """

    session_id: SessionId
    mode_id: SessionModeId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class SetSessionConfigOptionRequest(Base, frozen=True, kw_only=True):
    """Request parameters for setting a session configuration option.

    Attributes:
        session_id: The ID of the session to set the configuration option for.
        config_id: The ID of the configuration option to set.
    """

    session_id: SessionId
    config_id: SessionConfigId
    value: Any
    type: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PromptRequest(Base, frozen=True, kw_only=True):
    """Request parameters for sending a user prompt to the agent.

    Attributes:
        session_id: The ID of the session to send this user message to
        prompt: The blocks of content that compose the user's message.
    """

    session_id: SessionId
    prompt: list[ContentBlock]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class WriteTextFileResponse(Base, frozen=True, kw_only=True):
    """Response to `fs/write_text_file`"""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ReadTextFileResponse(Base, frozen=True, kw_only=True):
    """Response containing the contents of a text file.

    Attributes:
        content: Content payload returned by this response.
    """

    content: str
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class RequestPermissionResponse(Base, frozen=True, kw_only=True):
    """Response to a permission request.

    Attributes:
        outcome: The user's decision on the permission request.
    """

    outcome: RequestPermissionOutcome
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class RequestPermissionOutcomeCancelled(
    Base, frozen=True, kw_only=True, tag_field="outcome", tag="cancelled"
):
    """The prompt turn was cancelled before the user responded."""


class UnknownRequestPermissionOutcome(Unknown, frozen=True, tag_field="outcome", tag="\0"):
    """A RequestPermissionOutcome that the schema does not have, or not in this shape."""


class SelectedPermissionOutcome(
    Base, frozen=True, kw_only=True, tag_field="outcome", tag="selected"
):
    """The user selected one of the provided options.

    Attributes:
        option_id: The ID of the option the user selected.
    """

    option_id: PermissionOptionId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CreateTerminalResponse(Base, frozen=True, kw_only=True):
    """Response containing the ID of the created terminal.

    Attributes:
        terminal_id: The unique identifier for the created terminal.
    """

    terminal_id: TerminalId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalOutputResponse(Base, frozen=True, kw_only=True):
    """Response containing the terminal output and exit status.

    Attributes:
        output: The terminal output captured so far.
        truncated: Whether the output was truncated due to byte limits.
        exit_status: Exit status if the command has completed.
    """

    output: str
    truncated: bool
    exit_status: TerminalExitStatus | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TerminalExitStatus(Base, frozen=True, kw_only=True):
    """Exit status of a terminal command.

    Attributes:
        exit_code: The process exit code (may be null if terminated by signal).
        signal: The signal that terminated the process (may be null if exited normally).
    """

    exit_code: int | None = None
    signal: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ReleaseTerminalResponse(Base, frozen=True, kw_only=True):
    """Response to terminal/release method"""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class WaitForTerminalExitResponse(Base, frozen=True, kw_only=True):
    """Response containing the exit status of a terminal command.

    Attributes:
        exit_code: The process exit code (may be null if terminated by signal).
        signal: The signal that terminated the process (may be null if exited normally).
    """

    exit_code: int | None = None
    signal: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class KillTerminalResponse(Base, frozen=True, kw_only=True):
    """Response to `terminal/kill` method"""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CreateElicitationResponseAccept(
    Base, frozen=True, kw_only=True, tag_field="action", tag="accept"
):
    """The user accepted and provided content.

    Attributes:
        content: The user-provided content, if any, as an object matching the requested schema.
    """

    content: dict[str, ElicitationContentValue] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CreateElicitationResponseDecline(
    Base, frozen=True, kw_only=True, tag_field="action", tag="decline"
):
    """The user declined the elicitation."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CreateElicitationResponseCancel(
    Base, frozen=True, kw_only=True, tag_field="action", tag="cancel"
):
    """The elicitation was cancelled."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownCreateElicitationResponse(Unknown, frozen=True, tag_field="action", tag="\0"):
    """A CreateElicitationResponse that the schema does not have, or not in this shape."""


class ElicitationAcceptAction(Base, frozen=True, kw_only=True):
    """The user accepted the elicitation and provided content.

    Attributes:
        content: The user-provided content, if any, as an object matching the requested schema.
    """

    content: dict[str, ElicitationContentValue] | None = None


class CancelNotification(Base, frozen=True, kw_only=True):
    """Notification to cancel ongoing operations for a session.

    Attributes:
        session_id: The ID of the session to cancel operations for.
    """

    session_id: SessionId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CancelRequestNotification(Base, frozen=True, kw_only=True):
    """Notification to cancel an ongoing request.

    Attributes:
        request_id: The ID of the request to cancel.
    """

    request_id: RequestId
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UserMessageChunk(
    ContentChunk, frozen=True, tag_field="sessionUpdate", tag="user_message_chunk"
):
    """A chunk of the user's message being streamed."""


class AgentMessageChunk(
    ContentChunk, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk"
):
    """A chunk of the agent's response being streamed."""


class AgentThoughtChunk(
    ContentChunk, frozen=True, tag_field="sessionUpdate", tag="agent_thought_chunk"
):
    """A chunk of the agent's internal reasoning being streamed."""


RequestId: TypeAlias = int | str | None
SessionId: TypeAlias = str
ToolCallId: TypeAlias = str
ToolKind: TypeAlias = (
    str  # open: read, edit, delete, move, search, execute, think, fetch, switch_mode, other
)
ToolCallStatus: TypeAlias = str  # open: pending, in_progress, completed, failed
ToolCallContent: TypeAlias = Content | Diff | Terminal | UnknownToolCallContent
ContentBlock: TypeAlias = (
    TextContent
    | ImageContent
    | AudioContent
    | ResourceLink
    | EmbeddedResource
    | UnknownContentBlock
)
Role: TypeAlias = str  # open: assistant, user
TerminalId: TypeAlias = str
PermissionOptionId: TypeAlias = str
PermissionOptionKind: TypeAlias = str  # open: allow_once, allow_always, reject_once, reject_always
CreateElicitationRequest: TypeAlias = (
    CreateElicitationRequestForm | CreateElicitationRequestUrl | UnknownCreateElicitationRequest
)
ElicitationSchemaType: TypeAlias = str  # open: object
ElicitationPropertySchema: TypeAlias = (
    StringPropertySchema
    | NumberPropertySchema
    | IntegerPropertySchema
    | BooleanPropertySchema
    | MultiSelectPropertySchema
    | UnknownElicitationPropertySchema
)
StringFormat: TypeAlias = str  # open: email, uri, date, date-time
MultiSelectItems: TypeAlias = (
    StringMultiSelectItems | TitledMultiSelectItems | UnknownMultiSelectItems
)
ElicitationId: TypeAlias = str
McpServerAcpId: TypeAlias = str
ProtocolVersion: TypeAlias = int
AuthMethod: TypeAlias = AuthMethodTerminal | AuthMethodAgent | UnknownAuthMethod
AuthMethodId: TypeAlias = str
ProviderId: TypeAlias = str
LlmProtocol: TypeAlias = str  # open: anthropic, openai, azure, vertex, bedrock
AuthState: TypeAlias = str  # open: authenticated, unauthenticated, not_required, unknown
SessionModeId: TypeAlias = str
SessionConfigOption: TypeAlias = (
    SessionConfigOptionSelect | SessionConfigOptionBoolean | UnknownSessionConfigOption
)
SessionConfigId: TypeAlias = str
SessionConfigOptionCategory: TypeAlias = str  # open: mode, model, model_config, thought_level
SessionConfigValueId: TypeAlias = str
SessionConfigSelectOptions: TypeAlias = list[SessionConfigSelectEntry]
SessionConfigGroupId: TypeAlias = str
SessionStatus: TypeAlias = str  # open: open, saved
StopReason: TypeAlias = str  # open: end_turn, max_tokens, max_turn_requests, refusal, cancelled
ErrorCode: TypeAlias = int
SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | SubagentUpdate
    | SessionMessage
    | SessionMessageChunk
    | UnknownSessionUpdate
)
MessageId: TypeAlias = str
PlanEntryPriority: TypeAlias = str  # open: high, medium, low
PlanEntryStatus: TypeAlias = str  # open: pending, in_progress, completed
PlanUpdateContent: TypeAlias = PlanItems | PlanFile | PlanMarkdown | UnknownPlanUpdateContent
PlanId: TypeAlias = str
NoticeSeverity: TypeAlias = str  # open: info, warning, error
CompactionId: TypeAlias = str
CompactionStatus: TypeAlias = str  # open: in_progress, completed, failed, cancelled
StateUpdate: TypeAlias = (
    RunningStateUpdate
    | IdleStateUpdate
    | RequiresActionStateUpdate
    | UnknownStateUpdate
    | OtherStateUpdate
)
McpServer: TypeAlias = McpServerHttp | McpServerSse | McpServerAcp | McpServerStdio
SystemPromptMode: TypeAlias = str  # open: append, override
SessionArchiveFilter: TypeAlias = str  # open: exclude, include, only
RequestPermissionOutcome: TypeAlias = (
    RequestPermissionOutcomeCancelled | SelectedPermissionOutcome | UnknownRequestPermissionOutcome
)
CreateElicitationResponse: TypeAlias = (
    CreateElicitationResponseAccept
    | CreateElicitationResponseDecline
    | CreateElicitationResponseCancel
    | UnknownCreateElicitationResponse
)
ElicitationContentValue: TypeAlias = str | int | float | bool | list[str]

UPDATES: tuple[type[Update], ...] = (
    UserMessageChunk,
    AgentMessageChunk,
    AgentThoughtChunk,
    ToolCall,
    ToolCallUpdate,
    Plan,
    PlanUpdate,
    PlanRemoved,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    ConfigOptionUpdate,
    SessionInfoUpdate,
    UsageUpdate,
    Notice,
    CompactionUpdate,
    CompactionSummaryChunk,
    SubagentUpdate,
    SessionMessage,
    SessionMessageChunk,
)

UNTAGGED = {"MultiSelectItems": "titled", "AuthMethod": "agent"}

STABLE_METHODS = frozenset(
    {
        "$/cancel_request",
        "authenticate",
        "elicitation/complete",
        "elicitation/create",
        "fs/read_text_file",
        "fs/write_text_file",
        "initialize",
        "logout",
        "session/cancel",
        "session/close",
        "session/delete",
        "session/list",
        "session/load",
        "session/new",
        "session/prompt",
        "session/request_permission",
        "session/resume",
        "session/set_config_option",
        "session/set_mode",
        "session/update",
        "terminal/create",
        "terminal/kill",
        "terminal/output",
        "terminal/release",
        "terminal/wait_for_exit",
    }
)
UNSTABLE_METHODS = frozenset(
    {
        "auth/status",
        "auth/status_update",
        "providers/disable",
        "providers/list",
        "providers/set",
        "session/archive",
        "session/fork",
        "session/set_title",
        "session/status",
        "session/unarchive",
    }
)
