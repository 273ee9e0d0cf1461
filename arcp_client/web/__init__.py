"""Shows the jobs of a client in the browser: in a dashboard, or in pages of your own.

::

    app = web.Application()
    add_routes(app, client, prefix="/dashboard")     # the dashboard, under a path of your own app

    async def follow(request):                       # a stream for your own page
        return sse(job)

    add_ag_ui_routes(app, client, "report", path="/report")      # for front ends that use AG-UI

    async for event in ag_ui(job):                   # AG-UI events of a job, to serve yourself
        ...

`ag_ui` and `add_ag_ui_routes` need the extra ``ag-ui``. Three pages of the docs have more: "A
dashboard in the browser" (who can see the dashboard), "Stream jobs to browsers" (streams under
other frameworks), and "Serve front ends that use AG-UI" (what such a front end gets).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from arcp_client._feeds.frames import SSE_HEADERS
from arcp_client.web.asgi import AsgiDashboard, asgi_app
from arcp_client.web.pages import end_streams, sse
from arcp_client.web.routes import add_routes
from arcp_client.web.serving import Server, TokenRequired, serve

if TYPE_CHECKING:
    from arcp_client.web.agui_routes import add_ag_ui_routes
    from arcp_client.web.exports.agui import ag_ui

__all__ = [
    "SSE_HEADERS",
    "AsgiDashboard",
    "Server",
    "TokenRequired",
    "add_ag_ui_routes",
    "add_routes",
    "ag_ui",
    "asgi_app",
    "end_streams",
    "serve",
    "sse",
]


def __getattr__(name: str) -> Any:
    """Import what needs an extra at its first use."""
    if name not in ("ag_ui", "add_ag_ui_routes"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = importlib.import_module("arcp_client.web.exports.agui")  # it names the missing extra
    if name == "add_ag_ui_routes":
        found = importlib.import_module("arcp_client.web.agui_routes")
    return getattr(found, name)
