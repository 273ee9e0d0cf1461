"""Serves agents of a runtime to editors, as an ACP agent whose sessions outlive the editor.

::

    editor ──▶ link ──▶ server ──▶ conversation | turns ──▶ a job of the runtime
       ▲         ▲                        │
       └─────────┴── session ◀── transcript ◀── the events of the job
"""

from __future__ import annotations

from arcp_client.acp.serving.server import refuse, serve

__all__ = ["refuse", "serve"]
