"""Translates version 2 of the protocol, a draft, into the terms of version 1.

Sessions and handlers know the classes of version 1. Values that only version 2
has keep the classes of `schema_v2`. The module is imported when an agent speaks version 2.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from arcp_client.acp import schema, schema_v2
from arcp_client.acp._base import Base, Origin, Update
from arcp_client.acp._decode import REFUSED, Misshapen, as_json, as_value, decode, update_of
from arcp_client.acp.errors import CANCELLED, AgentRefused, refused
from arcp_client.errors import FeatureNotNegotiated

__all__ = ["AgentVersion2", "ForegroundWork", "Permission", "UpdateReader", "initialize_request"]

T = TypeVar("T", bound=Base)
Outcome = bytes | Exception

_IDS = 1024  # ids of messages and tool calls that a session remembers
_ECHOES = 64  # ids of user messages that may be the prompt that is not accepted yet


class _NewNotification(msgspec.Struct, gc=False):
    params: _Params


class _Params(msgspec.Struct, gc=False):
    update: (
        schema_v2.StateUpdate
        | schema_v2.UserMessage
        | schema_v2.AgentMessage
        | schema_v2.AgentThought
        | schema_v2.ToolCallContentChunk
        | schema_v2.TerminalUpdate
        | schema_v2.TerminalOutputChunk
    )


_decode_new = msgspec.json.Decoder(_NewNotification).decode
_NEW: dict[str, type[Update]] = {str(cls.__struct_config__.tag): cls for cls in schema_v2.UPDATES}
_CHUNKS: dict[type[Update], Callable[..., Update]] = {
    schema_v2.UserMessage: schema.UserMessageChunk,
    schema_v2.AgentMessage: schema.AgentMessageChunk,
    schema_v2.AgentThought: schema.AgentThoughtChunk,
}


class _NewSession(schema.NewSessionResponse, frozen=True, kw_only=True):
    available_commands: tuple[schema.AvailableCommand, ...] = ()


class _ForkSession(schema.ForkSessionResponse, frozen=True, kw_only=True):
    available_commands: tuple[schema.AvailableCommand, ...] = ()


class _ResumeSession(schema.ResumeSessionResponse, frozen=True, kw_only=True):
    available_commands: tuple[schema.AvailableCommand, ...] = ()


_OPENED: dict[type[Any], type[Any]] = {
    schema.NewSessionResponse: _NewSession,
    schema.ForkSessionResponse: _ForkSession,
    schema.ResumeSessionResponse: _ResumeSession,
    schema.LoadSessionResponse: _ResumeSession,
    schema.SetSessionConfigOptionResponse: schema.SetSessionConfigOptionResponse,
}


def initialize_request(
    version1: schema.InitializeRequest, info: schema.Implementation, *, both: bool
) -> dict[str, Any]:
    """Return the params of ``initialize`` in version 2.

    Args:
        version1: the params in version 1.
        info: name and version of this client.
        both: keep the members of version 1, for an agent that speaks only that.
    """
    declared = version1.client_capabilities
    elicitation = None if declared is None else declared.elicitation
    newer = schema_v2.InitializeRequest(
        protocol_version=2,
        info=info,
        capabilities=schema_v2.ClientCapabilities(
            elicitation=elicitation, meta=None if declared is None else declared.meta
        ),
    )
    older = msgspec.to_builtins(version1) if both else {}
    return {**older, **msgspec.to_builtins(newer)}


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission request in the terms of version 1.

    Attributes:
        request: the request; the id of its tool call is empty if it is about none.
        title: the title of the question.
        description: why the permission is needed.
    """

    request: schema.RequestPermissionRequest
    title: str
    description: str | None


class AgentVersion2:
    """What an agent of version 2 offers, and how messages look to it."""

    number = 2

    def __init__(self, offers: schema_v2.InitializeResponse, name: str) -> None:
        self._offers = offers
        self._name = name

    # ------------------------------------------------------------------ the agent

    @classmethod
    def of(cls, answer: bytes, name: str) -> AgentVersion2:
        """Read the answer to ``initialize``.

        Raises:
            Misshapen: a required part is missing or invalid.
        """
        value = as_value(answer)
        if isinstance(value, dict):
            value = {"info": {"name": name, "version": ""}, **value}
        return cls(decode(schema_v2.InitializeResponse, as_json(value)), name)

    def agent(self) -> schema.InitializeResponse:
        """Return what the agent offers, in the terms of version 1."""
        offers = self._offers.capabilities or schema_v2.AgentCapabilities()
        sessions = offers.session
        return schema.InitializeResponse(
            protocol_version=2,
            agent_info=self._offers.info,
            auth_methods=[_auth_method(each) for each in self._offers.auth_methods],
            agent_capabilities=schema.AgentCapabilities(
                load_session=sessions is not None,
                prompt_capabilities=None if sessions is None else _prompts(sessions.prompt),
                mcp_capabilities=None if sessions is None else _mcp(sessions.mcp),
                session_capabilities=None if sessions is None else _sessions(sessions),
                auth=schema.AgentAuthCapabilities(logout=schema.LogoutCapabilities())
                if self._offers.auth_methods
                else None,
                meta=offers.meta,
            ),
            meta=self._offers.meta,
        )

    # ------------------------------------------------------------------ calls

    def request(self, method: str, params: Any) -> tuple[str, Any]:
        """Return method and params of a call.

        Raises:
            FeatureNotNegotiated: version 2 has no such call, or the agent no such MCP servers.
        """
        if method == "session/set_mode":
            raise FeatureNotNegotiated(
                f"{self._name} speaks version 2 of ACP, which has configuration options in place of"
                " modes: use set_config_option"
            )
        if method == "authenticate":
            return "auth/login", {"methodId": params.method_id}
        if method == "logout":
            return "auth/logout", {}
        if not isinstance(params, Base):
            return method, params
        value = msgspec.to_builtins(params)
        if method == "session/load":
            method, value["replayFrom"] = "session/resume", {"type": "start"}
        elif method == "session/set_config_option":
            value.setdefault("type", "id")
        if servers := value.get("mcpServers"):
            value["mcpServers"] = [self._server(each) for each in servers]
        return method, value

    def _server(self, server: dict[str, Any]) -> dict[str, Any]:
        server = {"type": "stdio", **server}
        sessions = (self._offers.capabilities or schema_v2.AgentCapabilities()).session
        reach = (sessions and sessions.mcp) or schema_v2.McpCapabilities()
        if server["type"] == "stdio" and reach.stdio is None:
            raise FeatureNotNegotiated(f"{self._name} does not offer MCP servers over stdio")
        return server

    def result(self, type_: type[T], data: bytes) -> T:
        """Decode the result of a call.

        Raises:
            Misshapen: a required part is missing or invalid.
        """
        if type_ not in _OPENED:
            return decode(type_, data)
        value = as_value(data or b"{}")
        if isinstance(value, dict):
            value = _with_options(value)
        return decode(_OPENED[type_], as_json(value))  # type: ignore[no-any-return]

    def updates(self) -> UpdateReader:
        """Return a reader of the updates of one session."""
        return UpdateReader()

    def work(self) -> ForegroundWork:
        """Return what ends the prompts of one session."""
        return ForegroundWork()

    def permission(self, params: Any) -> Permission:
        """Read the params of ``session/request_permission``.

        Raises:
            Misshapen: a required part is missing or invalid.
        """
        asked = decode(schema_v2.RequestPermissionRequest, as_json(params))
        match asked.subject:
            case schema_v2.ToolCallPermissionSubject(tool_call=call):
                pass
            case schema_v2.CommandPermissionSubject(command=command, cwd=cwd) as subject:
                call = schema.ToolCallUpdate(
                    tool_call_id=subject.tool_call_id or "",
                    title=None if subject.tool_call_id else asked.title,
                    kind="execute",
                    raw_input={"command": command, "cwd": cwd},
                )
            case _:
                call = schema.ToolCallUpdate(tool_call_id="", title=asked.title)
        request = schema.RequestPermissionRequest(
            session_id=asked.session_id, tool_call=call, options=asked.options, meta=asked.meta
        )
        return Permission(request, asked.title, asked.description)


def _auth_method(method: Any) -> Any:
    match method:
        case schema_v2.AuthMethodAgent():
            return schema.AuthMethodAgent(
                id=method.method_id, name=method.name, description=method.description
            )
        case schema_v2.AuthMethodTerminal():
            return schema.AuthMethodTerminal(
                id=method.method_id,
                name=method.name,
                description=method.description,
                args=method.args,
                env={each.name: each.value for each in method.env},
            )
    return method


def _prompts(takes: schema_v2.PromptCapabilities | None) -> schema.PromptCapabilities:
    takes = takes or schema_v2.PromptCapabilities()
    return schema.PromptCapabilities(
        image=takes.image is not None,
        audio=takes.audio is not None,
        embedded_context=takes.embedded_context is not None,
    )


def _mcp(reach: schema_v2.McpCapabilities | None) -> schema.McpCapabilities:
    reach = reach or schema_v2.McpCapabilities()
    return schema.McpCapabilities(http=reach.http is not None, acp=reach.acp is not None)


def _sessions(offers: schema_v2.SessionCapabilities) -> schema.SessionCapabilities:
    return schema.SessionCapabilities(
        list=schema.SessionListCapabilities(),
        resume=schema.SessionResumeCapabilities(),
        close=schema.SessionCloseCapabilities(),
        delete=offers.delete,
        additional_directories=offers.additional_directories,
        fork=offers.fork,
        meta=offers.meta,
    )


def _with_options(value: dict[str, Any]) -> dict[str, Any]:
    """Rename the ids of configuration options and of the groups of their values."""
    options = value.get("configOptions")
    if not isinstance(options, list):
        return value
    return {**value, "configOptions": [_option(option) for option in options]}


def _option(option: Any) -> Any:
    if not isinstance(option, dict):
        return option
    option = {("id" if name == "configId" else name): each for name, each in option.items()}
    if isinstance(entries := option.get("options"), list):
        option["options"] = [_entry(entry) for entry in entries]
    return option


def _entry(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {("group" if name == "groupId" else name): each for name, each in entry.items()}


# ---------------------------------------------------------------------- updates


class _ReadAgain:
    """How an update was read from its line, to read it again in the same way.

    Args:
        first: whether it was the first one about its message or tool call.
        index: its place among the updates of the line.
    """

    __slots__ = ("first", "index")

    def __init__(self, first: bool, index: int) -> None:
        self.first = first
        self.index = index

    def __call__(self, line: bytes, origin: Origin) -> Update:
        """Read the update."""
        return _updates(line, origin, self.first)[self.index]


class UpdateReader:
    """Reads the updates of one session."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def read(self, line: bytes, origin: Origin) -> list[Update]:
        """Decode the updates of a line. Never raises.

        A new message with content becomes one chunk for each block; a new tool call becomes a
        ``ToolCall``. Any other update becomes one update.
        """
        update = _typed(line, origin)
        return _read(update, origin, self._is_first(update))

    def _is_first(self, update: Update) -> bool:
        match update:
            case schema.ToolCallUpdate():
                key = ("tool", update.tool_call_id)
            case (
                schema.AgentMessageChunk()
                | schema.AgentThoughtChunk()
                | schema.UserMessageChunk()
                | schema_v2.UserMessage()
                | schema_v2.AgentMessage()
                | schema_v2.AgentThought()
            ):
                key = ("message", update.message_id or "")
            case _:
                return False
        first = key not in self._known
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > _IDS:
            self._known.popitem(last=False)
        return first


def _updates(line: bytes, origin: Origin, first: bool) -> list[Update]:
    return _read(_typed(line, origin), origin, first)


def _typed(line: bytes, origin: Origin) -> Update:
    update = update_of((line, origin))
    if type(update) is schema.UnknownSessionUpdate and update.kind in _NEW:
        line = update.__dict__["at"][0]  # it may have been repaired
        newer: Any
        try:
            newer = _decode_new(line).params.update
        except REFUSED:
            try:
                newer = decode(_NEW[update.kind], as_json(update.raw))
            except Misshapen:
                return update
        newer.__dict__["at"] = (line, origin)
        return newer  # type: ignore[no-any-return]
    return update


def _read(update: Update, origin: Origin, first: bool) -> list[Update]:
    made = _converted(update, origin, first)
    line: bytes = update.__dict__["at"][0]
    for index, each in enumerate(made):
        each.__dict__["at"] = (line, origin, _ReadAgain(first, index))
    return made


def _converted(update: Update, origin: Origin, first: bool) -> list[Update]:
    match update:
        case schema.ToolCallUpdate() if first:
            said = {
                name: value
                for name in schema.ToolCall.__struct_fields__
                if (value := getattr(update, name, None)) is not None
            }
            return [schema.ToolCall(**{"title": "", **said})]
        case schema.PlanUpdate(plan=schema.PlanItems(entries=entries)):
            return [schema.Plan(entries=entries, meta=update.meta)]
        case schema.ConfigOptionUpdate() | schema.UnknownSessionUpdate(kind="config_option_update"):
            raw = update.raw
            try:
                return [decode(schema.ConfigOptionUpdate, as_json(_with_options(raw)))]
            except Misshapen:
                return [update]
        case schema_v2.UserMessage() if not origin.replay:
            return [update]  # the echo of a prompt, which version 1 does not have
        case schema_v2.UserMessage() | schema_v2.AgentMessage() | schema_v2.AgentThought() if first:
            chunk = _CHUNKS[type(update)]
            blocks = update.content or ()
            made = [chunk(content=block, message_id=update.message_id) for block in blocks]
            return made or [update]
    return [update]


# ---------------------------------------------------------------------- the end of a prompt


class _SentPrompt:
    """A prompt whose work has not ended yet."""

    __slots__ = ("accepted", "cancelled", "early", "echoes", "finish", "worked")

    def __init__(self, cancelled: Callable[[], bool], worked: bool) -> None:
        self.cancelled = cancelled
        self.worked = worked
        self.accepted = False
        self.echoes: set[str] = set()
        self.early: list[tuple[Outcome, frozenset[str]]] = []
        self.finish: Callable[[Outcome], None] | None = None


class ForegroundWork:
    """Ends the prompts of one session when the agent reports that its work has ended.

    The answer to ``session/prompt`` says only that the prompt was accepted. The prompt ends with
    the next update to the state ``idle`` that ends work: one with a stop reason, or one after
    another state. That update may precede the answer; then the prompt's echo precedes both.
    """

    def __init__(self) -> None:
        self._prompts: list[_SentPrompt] = []
        self._active = False

    def prompt(
        self, cancelled: Callable[[], bool]
    ) -> Callable[[Outcome, Callable[[Outcome], None]], None]:
        """Register a prompt that is about to be sent.

        Args:
            cancelled: whether its cancellation was requested.

        Returns:
            The function that takes the answer, and what to call with the outcome of the work.
        """
        prompt = _SentPrompt(cancelled, self._active)
        self._prompts.append(prompt)

        def answered(outcome: Outcome, finish: Callable[[Outcome], None]) -> None:
            prompt.finish = finish
            if isinstance(outcome, Exception):
                if _is_cancellation(outcome) and prompt.cancelled():
                    outcome = as_json({"stopReason": "cancelled"})
                self._end(prompt, outcome)
                return
            try:
                message_id = decode(schema_v2.PromptResponse, outcome).message_id
            except Misshapen:
                message_id = ""  # without it, the next end of work counts
            prompt.accepted = True
            for early, echoes in prompt.early:
                if message_id in echoes:
                    self._end(prompt, early)
                    return

        return answered

    def seen(self, line: bytes) -> None:
        """Note an update when it arrives."""
        update = _typed(line, Origin("", None, False))
        match update:
            case schema_v2.UserMessage(message_id=message_id):
                for prompt in self._prompts:
                    if not prompt.accepted and len(prompt.echoes) < _ECHOES:
                        prompt.echoes.add(message_id)
            case schema_v2.StateUpdate(state="idle"):
                self._idle(update)
            case schema_v2.StateUpdate():
                self._active = True
                for prompt in self._prompts:
                    prompt.worked = True

    def _idle(self, update: schema_v2.StateUpdate) -> None:
        self._active = False
        for prompt in list(self._prompts):
            if not (prompt.worked or update.stop_reason is not None):
                continue
            prompt.worked = False
            outcome = _outcome(update, prompt.cancelled())
            if prompt.accepted:
                self._end(prompt, outcome)
            elif prompt.echoes and len(prompt.early) < _ECHOES:
                prompt.early.append((outcome, frozenset(prompt.echoes)))

    def fail(self, error: Callable[[], Exception]) -> None:
        """End the accepted prompts with an error; the others end with their answers."""
        for prompt in list(self._prompts):
            if prompt.accepted:
                self._end(prompt, error())

    def _end(self, prompt: _SentPrompt, outcome: Outcome) -> None:
        if prompt in self._prompts and prompt.finish is not None:
            self._prompts.remove(prompt)
            prompt.finish(outcome)


def _is_cancellation(error: Exception) -> bool:
    return isinstance(error, AgentRefused) and error.number == CANCELLED


def _outcome(update: schema_v2.StateUpdate, cancelled: bool) -> Outcome:
    """Return the outcome of a prompt in version 1."""
    if update.stop_reason == "error":
        error = update.raw.get("error") if isinstance(update.raw, Mapping) else None
        return refused(error or {"code": 0, "message": "the agent failed and does not say why"})
    reason = update.stop_reason or ("cancelled" if cancelled else "unknown")
    return as_json(schema.PromptResponse(stop_reason=reason, usage=update.usage, meta=update.meta))
