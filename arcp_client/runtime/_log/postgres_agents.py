"""Reads the agents of the other live replicas from PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from arcp_client._postgres.database import Database
from arcp_client.runtime._log.inventories import Offer, find_offer, merged
from arcp_client.runtime._log.postgres_members import Membership

__all__ = ["OtherAgents"]


class OtherAgents:
    """The agents of the replicas that accept jobs, except this one.

    Args:
        database: the connections.
        member: this replica.
    """

    def __init__(self, database: Database, member: Membership) -> None:
        self._db = database
        self._member = member
        self._known: dict[str, tuple[str, Sequence[Mapping[str, Any]]]] = {}

    async def refresh(self, connection: Any) -> None:
        """Read what has changed."""
        rows = await connection.fetch(
            "SELECT r.id, md5(r.agents) AS hash,"
            " CASE WHEN md5(r.agents) IS DISTINCT FROM k.hash THEN r.agents END AS agents"
            " FROM replicas AS r LEFT JOIN unnest($2::text[], $3::text[]) AS k(id, hash)"
            " ON k.id = r.id WHERE r.id <> $1 AND NOT r.draining AND r.until > clock_timestamp()"
            " ORDER BY r.id",
            self._member.id,
            list(self._known),
            [hash for hash, _ in self._known.values()],
        )
        self._known = {
            row["id"]: self._known[row["id"]]
            if row["agents"] is None
            else (row["hash"], json.loads(row["agents"]))
            for row in rows
        }

    def merged(self, own: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the agents of all replicas, given this replica's."""
        return merged(own, [agents for _, agents in self._known.values()])

    def has(self, reference: str) -> bool:
        """Whether another replica was known to have an agent, given its full reference."""
        return self._find(reference) is not None

    async def offer(self, reference: str) -> Offer | None:
        """Return the agent that a reference names on another replica.

        Raises:
            StorageError: the database cannot be used.
        """
        found = self._find(reference)
        if found is None:
            async with self._db.connection() as connection:
                await self.refresh(connection)
            found = self._find(reference)
        return found

    def _find(self, reference: str) -> Offer | None:
        offers = (find_offer(agents, reference) for _, agents in self._known.values())
        return next((offer for offer in offers if offer is not None), None)
