"""Adds the dashboard of a client to an aiohttp application.

Each route checks the request by means of `_http`; `_dashboard` has the handlers.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiohttp import web
from pydantic import SecretStr

from arcp_client import Client
from arcp_client import _arguments as check
from arcp_client._feeds.job_feed import MEMORY
from arcp_client._feeds.registry import LINGER
from arcp_client.web._dashboard import Dashboard
from arcp_client.web._feeds.event_stream import OpenStreams
from arcp_client.web._http.logins import Logins
from arcp_client.web._http.problems import Problem
from arcp_client.web._http.security import AccessControl, Handler
from arcp_client.web._http.write_timeout import WriteTimeout
from arcp_client.web.pages import share_feeds

__all__ = ["DashboardOptions", "add_routes", "host_names", "mount"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """The options of a dashboard; see `add_routes`.

    Attributes:
        everything: whether the dashboard answers every other path under the prefix, with 404.
        mounted: whether another application has removed the prefix from the path of each request.
    """

    prefix: str = ""
    token: str | SecretStr | None = field(default=None, repr=False)
    allow_control: bool = False
    allowed_hosts: tuple[str, ...] = ()
    secrets: tuple[str | SecretStr, ...] = field(default=(), repr=False)
    memory: int = MEMORY
    linger: float = LINGER
    everything: bool = False
    mounted: bool = False

    def __post_init__(self) -> None:
        check.a_text("prefix", self.prefix, empty=True)
        check.an_instance(
            "token", self.token, (str, SecretStr), "a text or a SecretStr", none=True, secret=True
        )
        check.a_flag("allow_control", self.allow_control)
        check.a_number("memory", self.memory, least=1)
        check.seconds("linger", self.linger)


def add_routes(
    app: web.Application,
    client: Client,
    *,
    prefix: str = "",
    token: str | SecretStr | None = None,
    allow_control: bool = False,
    allowed_hosts: Iterable[str] = (),
    secrets: Iterable[str | SecretStr] = (),
    memory: int = MEMORY,
    linger: float = LINGER,
    hosts: Iterable[str] | None = None,
) -> None:
    """Serve the dashboard under a path of an existing aiohttp application.

    All pages share one session, that of the client. The caller connects and closes the client. The
    shutdown of the application ends the streams.

    Without a token the dashboard serves only this machine, under this machine's own host names,
    whatever address the application listens on. See the page "A dashboard in the browser".

    Args:
        app: the application; it must not have started yet.
        client: the client whose jobs are shown.
        prefix: the path of the dashboard, such as ``/dashboard``; the root by default.
        token: the token that users log in with.
        allow_control: whether users can not only view but also submit and cancel jobs, and answer
            the questions of agents.
        allowed_hosts: further host names of the application. Those of this machine are always
            allowed and, with a token, IP addresses.
        secrets: values to mask in everything that is shown, such as the client's own token.
        memory: bytes of events that are kept for each job, for pages that are reloaded.
        linger: seconds for which these events are kept after the last page of the job was closed.
        hosts: deprecated; the former name of ``allowed_hosts``.

    Raises:
        ValueError: the prefix is not a path, or the token is empty.
        TypeError: an argument has the wrong type.
    """
    options = DashboardOptions(
        prefix=prefix,
        token=token,
        allow_control=allow_control,
        allowed_hosts=host_names(allowed_hosts, hosts),
        secrets=check.several("secrets", secrets, SecretStr | str, "texts or SecretStr"),
        memory=memory,
        linger=linger,
        everything=bool(prefix),
    )
    mount(app, client, options)


def host_names(
    allowed_hosts: Iterable[str], hosts: Iterable[str] | None, *, stacklevel: int = 3
) -> tuple[str, ...]:
    """The names of ``allowed_hosts`` and ``hosts``; warns that ``hosts`` is deprecated."""
    names = check.texts("allowed_hosts", allowed_hosts)
    if hosts is None:
        return names
    warnings.warn("hosts= is now allowed_hosts=", DeprecationWarning, stacklevel=stacklevel)
    return (*names, *check.texts("hosts", hosts))


def mount(app: web.Application, client: Client, options: DashboardOptions) -> None:
    """Add the routes of a dashboard with these options; see `add_routes`."""
    check.an_instance("app", app, web.Application, "an aiohttp.web.Application")
    check.an_instance("client", client, Client, "a Client")
    prefix, token = options.prefix, options.token
    if prefix and not re.fullmatch(r"(?:/[A-Za-z0-9._~-]+)+", prefix):
        raise ValueError("prefix must be a path such as /dashboard, without a slash at its end")
    secret = SecretStr(token) if isinstance(token, str) else token
    logins = Logins(secret) if secret is not None else None
    hidden = [*options.secrets, *([secret] if secret is not None else [])]
    access = AccessControl(
        logins,
        allowed_hosts=options.allowed_hosts,
        path="" if options.mounted else f"{prefix}/",
    )
    dashboard = Dashboard(
        client,
        access,
        hidden,
        control=options.allow_control,
        memory=options.memory,
        linger=options.linger,
    )

    def route(path: str, handler: Handler, *methods: str, **how: bool) -> None:
        protected = access.protect(handler, *methods, **how)
        app.router.add_route("*", f"{prefix}/{path}", protected)

    if prefix:
        redirect = access.protect(_to_directory, "GET", "HEAD", public=True, navigation=True)
        app.router.add_route("*", prefix, redirect)
    route("", dashboard.page, "GET", "HEAD", public=True, navigation=True)
    route("static/{path:.+}", dashboard.static, "GET", "HEAD", public=True)
    route("login", dashboard.login, "POST", public=True, changes=True)
    route("logout", dashboard.logout, "POST", public=True, changes=True)
    route("api/overview", dashboard.overview, "GET")
    route("api/overview/stream", dashboard.overview_stream, "GET")
    route("api/visible", dashboard.visible, "POST", changes=True)
    route("api/streams", dashboard.shared_stream, "GET")
    route("api/streams/{id}", dashboard.subscribe, "POST", changes=True)
    route("api/jobs", dashboard.submit, "POST", changes=True)
    route("api/jobs/{id}", dashboard.job, "GET")
    route("api/jobs/{id}/input", dashboard.input, "GET")
    route("api/jobs/{id}/stream", dashboard.job_stream, "GET")
    route("api/jobs/{id}/events", dashboard.older, "GET")
    route("api/jobs/{id}/transcript", dashboard.transcript, "GET")
    route("api/jobs/{id}/document", dashboard.document, "GET")
    route("api/jobs/{id}/result", dashboard.result, "GET")
    route("api/jobs/{id}/cancel", dashboard.cancel, "POST", changes=True)
    route("api/jobs/{id}/answer", dashboard.answer, "POST", changes=True)
    route("api/questions", dashboard.questions, "GET")
    route(
        "{path:.+}" if options.everything else "api/{path:.*}",
        _not_found,
        public=options.everything,
    )
    share_feeds(app, dashboard.feeds)
    OpenStreams.of(app).end_at_shutdown = True
    app.on_startup.append(dashboard.start)
    app.on_shutdown.append(dashboard.stop)
    app.on_cleanup.append(_clean_up)


async def _clean_up(app: web.Application) -> None:
    WriteTimeout.of(app).close()


async def _to_directory(request: web.Request) -> web.StreamResponse:
    """Add the slash at the end of the path, to which the URLs in the page are relative."""
    name = request.path.rpartition("/")[2]
    return web.Response(status=308, headers={"Location": f"{name}/"})


async def _not_found(_: web.Request) -> web.StreamResponse:
    raise Problem(404, "NOT_FOUND", "there is no such page")
