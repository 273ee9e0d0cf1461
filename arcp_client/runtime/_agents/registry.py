"""Registers agent functions and finds the function that an agent reference names (§7.5)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from arcp_client._wire import names
from arcp_client._wire.messages import parse_agent
from arcp_client._wire.stamp import payload_bytes
from arcp_client.errors import AgentNotFound, AgentVersionNotFound
from arcp_client.runtime._agents.input_schema import InputSchema, input_schema
from arcp_client.runtime._log.inventories import MOST_DECLARED, Offer

__all__ = ["MOST_DECLARED", "Agent", "AgentRegistry", "agent_elsewhere"]

AgentFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent in one version.

    Attributes:
        function: the agent's function, for the input as it was sent.
        schema: validates the input.
        description: what the agent does, for people and models.
    """

    function: AgentFunction
    schema: InputSchema | None = None
    description: str | None = None

    def check(self, input: bytes) -> None:
        """Validate an input, as JSON.

        Raises:
            InvalidInput: the input does not match the declared schema.
        """
        if self.schema is not None:
            self.schema.check(input)

    def declaration(self, version: str | None) -> dict[str, Any]:
        """Return what the inventory says of the agent beyond the specification."""
        declared: dict[str, Any] = {} if version is None else {"version": version}
        if self.description is not None:
            declared["description"] = self.description
        if self.schema is not None:
            declared["input_schema"] = self.schema.wire
        return declared


class AgentRegistry:
    """The registered agents, by name and version. An agent without versions has only its name."""

    def __init__(self) -> None:
        self._agents: dict[str, dict[str | None, Agent]] = {}
        self._defaults: dict[str, str | None] = {}
        self._declared = 0

    def add(
        self,
        name: str,
        version: str | None,
        function: AgentFunction,
        default: bool,
        *,
        schema: InputSchema | None = None,
        description: str | None = None,
    ) -> None:
        """Register a function.

        Raises:
            ValueError: the name or version is invalid (§7.5) or already registered, or the
                declarations of all agents are too large for the welcome.
        """
        reference = name if version is None else f"{name}@{version}"
        if parse_agent(reference) != (name, version):
            raise ValueError(f"{name!r} is not a valid agent name")
        if version in self._agents.get(name, ()):
            raise ValueError(f"agent {reference} is already registered")
        agent = Agent(function, schema, description)
        if schema is not None:
            agent = Agent(partial(_with_value, function, schema), schema, description)
        if schema is not None or description is not None:
            size = len(payload_bytes(agent.declaration(version)))
            if self._declared + size > MOST_DECLARED:
                raise ValueError(
                    f"agent {reference}: the descriptions and input schemas of all agents take"
                    f" {self._declared + size} bytes, over the limit of {MOST_DECLARED}"
                )
            self._declared += size
        self._agents.setdefault(name, {})[version] = agent
        if default or name not in self._defaults:
            self._defaults[name] = version

    def resolve(self, reference: str) -> tuple[str, Agent]:
        """Return the full reference and the agent for a bare or versioned reference.

        Raises:
            AgentNotFound: no agent has that name.
            AgentVersionNotFound: the agent is not registered in that version.
        """
        name, version = parse_agent(reference)
        versions = self._agents.get(name)
        if versions is None:
            raise AgentNotFound(f"{name} is not registered")
        chosen = self._defaults[name] if version is None else version
        agent = versions.get(chosen)
        if agent is None:
            raise AgentVersionNotFound(f"{reference} is not registered")
        return name if chosen is None else f"{name}@{chosen}", agent

    @property
    def references(self) -> list[str]:
        """The full references of all agents."""
        return [
            name if version is None else f"{name}@{version}"
            for name, versions in self._agents.items()
            for version in versions
        ]

    def inventory(self) -> list[dict[str, Any]]:
        """Return the agents as the welcome lists them.

        The entry of an agent that declares a description or a schema has an additional member,
        which other clients ignore. Without one, the entry is that of the specification.
        """
        shown = []
        for name, versions in self._agents.items():
            entry: dict[str, Any] = {"name": name, "versions": [v for v in versions if v]}
            if self._defaults[name] is not None:
                entry["default"] = self._defaults[name]
            declared = [
                agent.declaration(version)
                for version, agent in versions.items()
                if agent.schema is not None or agent.description is not None
            ]
            if declared:
                entry[names.DECLARATIONS] = declared
            shown.append(entry)
        return shown


def agent_elsewhere(offer: Offer) -> Agent:
    """Return an agent of another replica: it checks its input, and cannot be run here."""
    schema = None
    if offer.schema is not None:
        # The replica that runs the job checks the input in any case.
        with suppress(ModuleNotFoundError, TypeError, ValueError):
            schema = input_schema(offer.schema)
    return Agent(_elsewhere, schema)


def _elsewhere(*_: object) -> None:
    raise AssertionError("another replica runs this agent")


def _with_value(function: AgentFunction, schema: InputSchema, input: Any, job: Any) -> Any:
    """Call an agent with what its schema makes of the input."""
    return function(schema.value(input), job)
