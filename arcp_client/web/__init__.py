"""A client in, web pages of its jobs out: a dashboard, and parts of it for pages of your own.

::

    app = web.Application()
    add_routes(app, client, prefix="/dashboard")     # the dashboard, under a path of your own app

    async def follow(request):                       # a stream for your own page
        return sse(client.job(request.match_info["id"]))

    async for event in ag_ui(job):                   # for a front end that speaks AG-UI
        ...

Needs the extra ``web``, and `ag_ui` the extra ``ag-ui``. The page "A dashboard in the browser" in
the docs says who can see it.
"""

from __future__ import annotations

from arcp_client.web.pages import end_streams, sse
from arcp_client.web.routes import add_routes
from arcp_client.web.serving import Server, TokenRequired, serve

__all__ = ["Server", "TokenRequired", "add_routes", "end_streams", "serve", "sse"]
