"""Registers agent functions and finds the function that an agent reference names (§7.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from arcp_client._wire.messages import parse_agent
from arcp_client.errors import AgentNotFound, AgentVersionNotFound

__all__ = ["AgentRegistry"]

AgentFunction = Callable[..., Any]


class AgentRegistry:
    """The registered agents, by name and version. An agent without versions has only its name."""

    def __init__(self) -> None:
        self._functions: dict[str, dict[str | None, AgentFunction]] = {}
        self._defaults: dict[str, str | None] = {}

    def add(self, name: str, version: str | None, function: AgentFunction, default: bool) -> None:
        """Register a function.

        Raises:
            ValueError: the name or version is invalid (§7.5), or already registered.
        """
        reference = name if version is None else f"{name}@{version}"
        if parse_agent(reference) != (name, version):
            raise ValueError(f"{name!r} is not a valid agent name")
        versions = self._functions.setdefault(name, {})
        if version in versions:
            raise ValueError(f"agent {reference} is already registered")
        versions[version] = function
        if default or name not in self._defaults:
            self._defaults[name] = version

    def resolve(self, reference: str) -> tuple[str, AgentFunction]:
        """Return the full reference and the function for a bare or versioned reference.

        Raises:
            AgentNotFound: no agent has that name.
            AgentVersionNotFound: the agent is not registered in that version.
        """
        name, version = parse_agent(reference)
        versions = self._functions.get(name)
        if versions is None:
            raise AgentNotFound(f"{name} is not registered")
        chosen = self._defaults[name] if version is None else version
        function = versions.get(chosen)
        if function is None:
            raise AgentVersionNotFound(f"{reference} is not registered")
        return name if chosen is None else f"{name}@{chosen}", function

    def inventory(self) -> list[dict[str, Any]]:
        """Return the agents as the welcome lists them."""
        shown = []
        for name, versions in self._functions.items():
            entry: dict[str, Any] = {"name": name, "versions": [v for v in versions if v]}
            if self._defaults[name] is not None:
                entry["default"] = self._defaults[name]
            shown.append(entry)
        return shown
