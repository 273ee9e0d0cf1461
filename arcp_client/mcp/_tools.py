"""Describes agents and jobs as MCP tools: names, input schemas, and the input of a call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types

from arcp_client.errors import AgentNotFound
from arcp_client.models import AgentInfo

__all__ = ["JOB_CANCEL", "JOB_RESULT", "JOB_STATUS", "JOB_TOOLS", "AgentTool", "agent_tools"]

JOB_STATUS = "job_status"
JOB_RESULT = "job_result"
JOB_CANCEL = "job_cancel"

_LONGEST_NAME = 128

ANSWER = {
    "type": "object",
    "properties": {
        "job_id": {"type": "string", "description": "The id of the job."},
        "status": {
            "type": "string",
            "description": "pending, running, success, error, cancelled or timed_out.",
        },
        "agent": {"type": "string"},
        "result": {"description": "The result of a job with the status success; any JSON value."},
        "encoding": {
            "const": "base64",
            "description": "Present if the result is binary: it is then a base64 text.",
        },
        "summary": {"type": "string"},
        "size": {"type": "integer", "description": "Size of a result that is sent in parts."},
        "next_offset": {
            "type": "integer",
            "description": "Present if the result continues: the offset for the next job_result.",
        },
        "progress": {"type": "object"},
        "code": {"type": "string", "description": "Why the job did not succeed."},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "remedy": {"type": "string", "description": "What to do about it."},
    },
    "required": ["job_id", "status"],
}
"""The schema of the structured content of every tool."""

_JOB_ID = {"type": "string", "description": "The job_id that an earlier call returned."}

JOB_TOOLS = [
    types.Tool(
        name=JOB_STATUS,
        title="Status of a job",
        description="Tells whether a job still runs, how far it is, or how it ended.",
        input_schema={
            "type": "object",
            "properties": {"job_id": _JOB_ID},
            "required": ["job_id"],
        },
        output_schema=ANSWER,
        annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    types.Tool(
        name=JOB_RESULT,
        title="Result of a job",
        description=(
            "Waits for the end of a job and returns its result. If the job does not end in time,"
            " the answer has its status, and the tool can be called again."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "job_id": _JOB_ID,
                "wait": {
                    "type": "number",
                    "minimum": 0,
                    "description": "Seconds to wait at most; the server may wait for less.",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "default": 0,
                    "description": "Where to continue a long result: next_offset of an answer.",
                },
            },
            "required": ["job_id"],
        },
        output_schema=ANSWER,
        annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    types.Tool(
        name=JOB_CANCEL,
        title="Cancel a job",
        description="Cancels a job that one of the tools of this server started.",
        input_schema={
            "type": "object",
            "properties": {"job_id": _JOB_ID, "reason": {"type": "string"}},
            "required": ["job_id"],
        },
        output_schema=ANSWER,
        annotations=types.ToolAnnotations(destructive_hint=True, idempotent_hint=True),
    ),
]
"""The tools that continue with a job by its id."""


@dataclass(frozen=True, slots=True)
class AgentTool:
    """An agent as a tool.

    Attributes:
        name: the name of the tool.
        agent: the agent, name or name@version.
        tool: what ``tools/list`` shows.
        wrapped: whether the tool has one argument, ``input``; otherwise its arguments are the input
            of the agent.
    """

    name: str
    agent: str
    tool: types.Tool
    wrapped: bool

    def input_of(self, arguments: Mapping[str, Any] | None) -> Any:
        """Return the input of the agent for the arguments of a call."""
        given = dict(arguments or {})
        return given.get("input") if self.wrapped else given


def agent_tools(
    agents: Iterable[AgentInfo], wanted: Iterable[str] | None = None
) -> dict[str, AgentTool]:
    """Return the tools of a runtime's agents, by name.

    Args:
        agents: the agent inventory.
        wanted: the agents to show, as name or name@version; by default all, by their bare names.

    Raises:
        AgentNotFound: the runtime does not have one of the wanted agents.
    """
    known = {each.name: each for each in agents}
    taken = {tool.name for tool in JOB_TOOLS}
    tools: dict[str, AgentTool] = {}
    for reference in known if wanted is None else wanted:
        name, _, version = reference.partition("@")
        info = known.get(name)
        if info is None or (version and version not in info.versions):
            raise AgentNotFound(f"{reference} is not an agent of this runtime")
        tool = _tool(reference, version or None, info, taken)
        taken.add(tool.name)
        tools[tool.name] = tool
    return tools


def _tool(reference: str, version: str | None, info: AgentInfo, taken: set[str]) -> AgentTool:
    declared = info.declaration(version)
    schema = dict(declared.input_schema) if declared.input_schema is not None else None
    wrapped = schema is None or not _takes_objects(schema)
    if schema is None:
        shown = _wrapped({"description": "The input of the agent: any JSON value."}, needed=False)
    else:
        shown = _wrapped(schema, needed=True) if wrapped else {**schema, "type": "object"}
    text = declared.description or f"Runs the agent {reference}."
    if version is None and len(info.versions) > 1:
        chosen = f", by default {info.default}" if info.default else ""
        text += f" Versions: {', '.join(info.versions)}{chosen}."
    name = _name(reference, taken)
    tool = types.Tool(name=name, description=text, input_schema=shown, output_schema=ANSWER)
    return AgentTool(name, reference, tool, wrapped)


def _name(reference: str, taken: set[str]) -> str:
    """Return a tool name that MCP allows and that is not taken."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", reference)[:_LONGEST_NAME]
    unique, n = name, 1
    while unique in taken:
        n += 1
        suffix = "-agent" if n == 2 else f"-agent{n - 1}"
        unique = name[: _LONGEST_NAME - len(suffix)] + suffix
    return unique


def _takes_objects(schema: Mapping[str, Any]) -> bool:
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        definitions = schema.get("$defs")
        name = reference.removeprefix("#/$defs/")
        target = definitions.get(name) if isinstance(definitions, Mapping) else None
        return isinstance(target, Mapping) and target.get("type") == "object"
    return schema.get("type") == "object"


def _wrapped(schema: Mapping[str, Any], *, needed: bool) -> dict[str, Any]:
    moved = _moved(schema, "#/properties/input")
    shown: dict[str, Any] = {"type": "object", "properties": {"input": moved}}
    return {**shown, "required": ["input"]} if needed else shown


_DATA = frozenset({"const", "default", "enum", "examples"})


def _moved(value: Any, to: str) -> Any:
    """Let the references of a schema point to its new position in a larger schema."""
    if isinstance(value, list):
        return [_moved(each, to) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: to + each[1:]
        if name == "$ref" and isinstance(each, str) and each.startswith("#")
        else each
        if name in _DATA
        else _moved(each, to)
        for name, each in value.items()
    }
