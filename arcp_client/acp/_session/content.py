"""Checks prompts, MCP servers and directories against the capabilities of the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from arcp_client import _arguments as check
from arcp_client.acp import schema
from arcp_client.acp._base import Base, Unknown
from arcp_client.acp._connection.connection import AgentConnection

__all__ = ["Prompt", "prompt_blocks", "servers", "usable_directories", "usable_servers"]

Prompt: TypeAlias = str | schema.ContentBlock | Sequence[str | schema.ContentBlock]


def prompt_blocks(connection: AgentConnection, content: Prompt) -> list[Any]:
    """Convert a prompt to content blocks.

    Raises:
        FeatureNotNegotiated: the agent does not support one of the kinds of content.
    """
    parts: Sequence[Any] = (
        [content] if isinstance(content, str | Base | Unknown) else _several(content)
    )
    blocks = [schema.TextContent(text=part) if isinstance(part, str) else part for part in parts]
    offers = connection.agent.agent_capabilities
    takes = (offers and offers.prompt_capabilities) or schema.PromptCapabilities()
    for block in blocks:
        if isinstance(block, schema.ImageContent):
            connection.needs(takes.image, "prompts with images")
        elif isinstance(block, schema.AudioContent):
            connection.needs(takes.audio, "prompts with audio")
        elif isinstance(block, schema.EmbeddedResource):
            connection.needs(takes.embedded_context, "prompts with embedded resources")
    return [block.raw if isinstance(block, Unknown) else block for block in blocks]


def _several(content: Any) -> list[Any]:
    check.an_instance("content", content, Sequence, "a text, content blocks, or both in a list")
    for part in content:
        check.an_instance("a part of content", part, (str, Base, Unknown), "a text or a block")
    return list(content)


def servers(given: Any) -> list[Any]:
    """Return MCP servers as a list.

    Raises:
        TypeError: an item is not an MCP server.
    """
    check.an_instance("mcp_servers", given, (list, tuple), "a list of MCP servers")
    for server in given:
        check.an_instance("one of mcp_servers", server, (Base, Unknown), "an MCP server")
    return list(given)


def usable_servers(
    connection: AgentConnection, given: Sequence[schema.McpServer]
) -> list[schema.McpServer]:
    """Return MCP servers as a list, if the agent supports their transports."""
    chosen = servers(given)
    offers = connection.agent.agent_capabilities
    reach = (offers and offers.mcp_capabilities) or schema.McpCapabilities()
    for server in chosen:
        if isinstance(server, schema.McpServerHttp):
            connection.needs(reach.http, "MCP servers over HTTP")
        elif isinstance(server, schema.McpServerSse):
            connection.needs(reach.sse, "MCP servers over SSE")
    return chosen


def usable_directories(connection: AgentConnection, directories: Sequence[str]) -> list[str]:
    """Return a session's additional directories, if the agent supports them."""
    chosen = check.texts("additional_directories", directories)
    if chosen:
        offers = connection.agent.agent_capabilities
        sessions = offers and offers.session_capabilities
        offered = sessions and sessions.additional_directories is not None
        connection.needs(offered, "additional directories")
    return [connection.directory(directory) for directory in chosen]
