"""Describes an agent and its input, for ``arcp-client run AGENT --help``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from arcp_client import AgentInfo, ArcpError
from arcp_client.cli.connection import Place, make_client, place
from arcp_client.cli.errors import command_error
from arcp_client.cli.exit_codes import CommandError
from arcp_client.cli.options import ConnectionOptions
from arcp_client.cli.view.terminal import harmless
from arcp_client.transcripts import Scrubber

__all__ = ["agent_help"]

_INDENT = "  "


def agent_help(agent: str, options: Mapping[str, Any]) -> str:
    """Return what the runtime says of an agent, or why it cannot be asked. Never raises.

    Args:
        agent: the agent, as name or name@version.
        options: the connection options of the command line that were given.
    """
    shown = "the runtime"
    try:
        where = place(_connection(options))
        shown = harmless(Scrubber().text(where.url))
        agents = asyncio.run(_inventory(where))
    except ArcpError as error:
        return f"The input of {agent} is not known: {shown}: {command_error(error).happened}"
    except CommandError as error:
        return f"The input of {agent} is not known: {error.happened}"
    return harmless("\n".join(_lines(agent, agents, shown)), lines=True)


def _connection(options: Mapping[str, Any]) -> ConnectionOptions:
    token_file = options.get("token_file")
    try:
        timeout = float(options.get("connect_timeout") or 5.0)
    except ValueError:  # the command itself will say so
        timeout = 5.0
    return ConnectionOptions(
        url=options.get("url"),
        token_file=None if token_file is None else Path(token_file),
        profile=options.get("profile"),
        connect_timeout=max(timeout, 0.1),
    )


async def _inventory(where: Place) -> tuple[AgentInfo, ...]:
    async with make_client(where) as client:
        return client.session.agents


def _lines(reference: str, agents: tuple[AgentInfo, ...], where: str) -> Iterator[str]:
    name, _, version = reference.partition("@")
    info = next((each for each in agents if each.name == name), None)
    if info is None or (version and version not in info.versions):
        yield f"{where} has no agent {reference}."
        return
    declared = info.declaration(version or None)
    yield f"Agent {reference}, at {where}:"
    if declared.description:
        yield from (f"{_INDENT}{line}".rstrip() for line in declared.description.splitlines())
    if info.versions and not version:
        default = f", by default {info.default}" if info.default else ""
        yield f"{_INDENT}Versions: {', '.join(info.versions)}{default}."
    if declared.input_schema is None:
        yield f"{_INDENT}It does not declare its input: any JSON value is accepted."
        return
    yield f"{_INDENT}Input:"
    yield from _input(declared.input_schema)


def _input(schema: Mapping[str, Any]) -> Iterator[str]:
    """List the fields of an object; show any other schema as it is."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        text = json.dumps(schema, indent=2, ensure_ascii=False)
        yield from (f"{_INDENT * 2}{line}" for line in text.splitlines())
        return
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    width = min(max(len(str(name)) for name in properties), 24)
    for name, field in properties.items():
        kind = _kind(field, schema)
        if name in needed:
            kind += ", required"
        said = field.get("description") if isinstance(field, Mapping) else None
        line = f"{_INDENT * 2}{name:<{width}}  {kind}"
        yield f"{line}. {said}" if said else line


_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matching {}",
    "format": "{}",
}


def _kind(field: Any, schema: Mapping[str, Any], depth: int = 3) -> str:
    """Write the type of a field in words."""
    if not isinstance(field, Mapping):
        return "any"
    target = _target(field, schema)
    if target is not field and depth:
        own = {rule: value for rule, value in field.items() if rule != "$ref"}
        return _kind({**target, **own}, schema, depth - 1)
    facts = [_type(field, schema, depth)]
    facts += [text.format(field[rule]) for rule, text in _BOUNDS.items() if rule in field]
    if "default" in field:
        facts.append(f"default {json.dumps(field['default'], ensure_ascii=False)}")
    return ", ".join(facts)


def _type(field: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> str:
    for several in ("anyOf", "oneOf"):
        if isinstance(field.get(several), list) and depth:
            return " or ".join(_kind(each, schema, depth - 1) for each in field[several])
    if isinstance(field.get("enum"), list):
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in field["enum"])
    if "const" in field:
        return json.dumps(field["const"], ensure_ascii=False)
    kind = field.get("type", "any")
    if kind == "array" and depth and isinstance(field.get("items"), Mapping):
        return f"list of {_kind(field['items'], schema, depth - 1)}"
    if kind == "object" and depth and isinstance(field.get("properties"), Mapping):
        return f"object with {', '.join(map(str, field['properties']))}"
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _target(field: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference to a definition of the schema."""
    reference = field.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return field
    found: Any = schema
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else field
