"""Stores for checkpoints, from which a client resumes after a restart (rule S10).

S10, D22 and the like are rules in ``docs/explanation/rules.md``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from arcp_client.stores.base import CheckpointStore

if TYPE_CHECKING:
    from arcp_client.stores.memory import MemoryStore
    from arcp_client.stores.postgres import PostgresStore as PostgresStore
    from arcp_client.stores.sqlite import SqliteStore

__all__ = ["CheckpointStore", "MemoryStore", "SqliteStore"]

_HOME_OF = {"MemoryStore": "memory", "PostgresStore": "postgres", "SqliteStore": "sqlite"}


def __getattr__(name: str) -> Any:
    """Import a store on first use: a client without a store does not import SQLite."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
