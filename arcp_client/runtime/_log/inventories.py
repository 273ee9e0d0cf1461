"""Merges the agent inventories of replicas, and finds the agent that a reference names in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arcp_client._wire import names
from arcp_client._wire.messages import parse_agent

__all__ = ["MOST_DECLARED", "Offer", "find_offer", "merged"]

MOST_DECLARED = 256 * 1024
"""Bytes of all declarations together, as they are sent in each welcome."""

Inventory = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Offer:
    """An agent that another replica has.

    Attributes:
        reference: its full reference.
        schema: the JSON Schema of its input, if the agent declares one.
    """

    reference: str
    schema: Mapping[str, Any] | None = None


def merged(own: list[dict[str, Any]], others: Iterable[Inventory]) -> list[dict[str, Any]]:
    """Return the agents of all replicas; where they differ, this replica's entry counts.

    Declarations beyond `MOST_DECLARED` are left out, because the inventory is sent in each welcome.
    """
    found = {entry["name"]: dict(entry) for entry in own}
    size = sum(len(json.dumps(e[names.DECLARATIONS])) for e in own if names.DECLARATIONS in e)
    for entry in (entry for inventory in others for entry in inventory):
        known = found.setdefault(
            entry["name"],
            {k: v for k, v in entry.items() if k != names.DECLARATIONS} | {"versions": []},
        )
        versions = known["versions"]
        known["versions"] = [*versions, *(v for v in entry["versions"] if v not in versions)]
        declared = known.get(names.DECLARATIONS, [])
        for each in entry.get(names.DECLARATIONS, ()):
            if any(one.get("version") == each.get("version") for one in declared):
                continue
            size += len(json.dumps(each))
            if size <= MOST_DECLARED:
                declared = known[names.DECLARATIONS] = [*declared, each]
    return list(found.values())


def find_offer(inventory: Inventory, reference: str) -> Offer | None:
    """Return the agent that a bare or versioned reference names, if the inventory has it."""
    name, version = parse_agent(reference)
    for entry in inventory:
        if entry["name"] != name:
            continue
        chosen = entry.get("default") if version is None else version
        if chosen is not None and chosen not in entry["versions"]:
            return None
        declared: Mapping[str, Any] = next(
            (d for d in entry.get(names.DECLARATIONS, ()) if d.get("version") == chosen), {}
        )
        full = name if chosen is None else f"{name}@{chosen}"
        return Offer(full, declared.get("input_schema"))
    return None
