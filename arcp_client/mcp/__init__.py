"""Serves the agents of a runtime as tools of the Model Context Protocol (MCP).

::

    async with Client(URL, token=TOKEN) as client:
        bridge = server(client)                      # an mcp.server.Server of the official SDK
        app = http_app(bridge)                       # an ASGI application, streamable HTTP

``arcp-client mcp`` does both without code. Each agent is a tool; a job that outlives the call
continues, and the tools ``job_status``, ``job_result`` and ``job_cancel`` take its id, also in
another process. Needs the extra ``mcp``.
"""

from __future__ import annotations

try:
    import mcp as _sdk
except ModuleNotFoundError as _missing:
    if _missing.name is None or _missing.name.partition(".")[0] != "mcp":
        raise
    raise ModuleNotFoundError(
        "arcp_client.mcp needs the extra mcp: pip install 'arcp-client[mcp]'", name=_missing.name
    ) from _missing

from arcp_client.mcp.bridge import BridgeServer, server
from arcp_client.mcp.http import HttpBridge, http_app
from arcp_client.mcp.submits import FileSubmits, Submits

__all__ = ["BridgeServer", "FileSubmits", "HttpBridge", "Submits", "http_app", "server"]

del _sdk
