"""Checkpoints in and out: what lets a client go on after a restart (S10)."""

from __future__ import annotations

from arcp_client.stores.base import CheckpointStore
from arcp_client.stores.memory import MemoryStore
from arcp_client.stores.sqlite import SqliteStore

__all__ = ["CheckpointStore", "MemoryStore", "SqliteStore"]
