"""Connects to a runtime and measures one round trip."""

from __future__ import annotations

from typing import Any

from arcp_client import Client
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import terminal
from arcp_client.errors import FeatureNotNegotiated

__all__ = ["ping"]


def ping(where: Place) -> Exit:
    """Connect, and measure one round trip."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            try:
                seconds: float | None = await client.ping()
            except FeatureNotNegotiated:
                seconds = None
            _say_ping(where, client, seconds)
        return Exit.SUCCESS

    return execute(body, at_once=True)


def _say_ping(where: Place, client: Client, seconds: float | None) -> None:
    session = client.session
    agents = [
        {"name": agent.name, "versions": list(agent.versions), "default": agent.default}
        for agent in session.agents
    ]
    if where.output is not Output.TEXT:
        facts: dict[str, Any] = {
            "schema": "arcp-client.ping/1",
            "runtime": {"name": session.runtime.name, "version": session.runtime.version},
            "dialect": session.dialect,
            "round_trip_ms": round(seconds * 1000, 3) if seconds is not None else None,
            "features": sorted(session.features),
            "agents": agents,
        }
        print(terminal.as_json(facts))
        return
    trip = f"{seconds * 1000:.1f} ms" if seconds is not None else "connected (it has no heartbeat)"
    print(terminal.harmless(f"{session.runtime.name} {session.runtime.version}: {trip}"))
    for agent in session.agents:
        print(terminal.harmless(f"  {agent.name}  {', '.join(agent.versions)}".rstrip()))
