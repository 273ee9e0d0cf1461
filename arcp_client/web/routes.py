"""An application and a client in, a dashboard under a path of it out."""

from __future__ import annotations

import asyncio
import re
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import hdrs, web
from pydantic import SecretStr

from arcp_client import ArcpError, Client, Live, SessionInfo
from arcp_client import _arguments as check
from arcp_client.transcripts import Scrubber
from arcp_client.web import bodies, downloads, frames
from arcp_client.web.board import Board
from arcp_client.web.feed import MEMORY, Feed
from arcp_client.web.feeds import LINGER, Feeds
from arcp_client.web.guard import Guard, Handler
from arcp_client.web.link import Link
from arcp_client.web.logins import Logins
from arcp_client.web.pages import asked, share
from arcp_client.web.problems import Problem
from arcp_client.web.streams import EventStream, Streams
from arcp_client.web.tabs import tell_job, tell_overview

__all__ = ["SCHEMA", "Options", "add_routes", "host_names", "mount"]

SCHEMA = "arcp-client.web/1"
_STATIC = Path(__file__).parent / "static"
_NAME = re.compile(r"(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_FRESH = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a dashboard is told; see `add_routes`.

    Attributes:
        everything: no other address under the prefix is anybody else's.
    """

    prefix: str = ""
    token: str | SecretStr | None = field(default=None, repr=False)
    allow_control: bool = False
    allowed_hosts: tuple[str, ...] = ()
    secrets: tuple[str | SecretStr, ...] = field(default=(), repr=False)
    memory: int = MEMORY
    linger: float = LINGER
    everything: bool = False

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

    All pages share the one session of the client, which stays the caller's: it is neither connected
    nor closed here. The application's shutdown ends the streams.

    Without a token only this machine is served, and only under its own names; so the address that
    the application listens on does not matter. See the page "A dashboard in the browser".

    Args:
        app: the application; not started yet.
        client: whose jobs are shown.
        prefix: the path that it begins with, such as ``/dashboard``; none by default.
        token: what people have to log in with.
        allow_control: whether jobs can be submitted and cancelled, and not only looked at.
        allowed_hosts: names under which the application is reached, besides those of this machine
            and, with a token, addresses.
        secrets: values to mask wherever they would be shown, such as the client's own token.
        memory: bytes of events that are kept of each job, for pages that are loaded again.
        linger: seconds that they are kept once nobody looks at the job.
        hosts: deprecated; the former name of ``allowed_hosts``.

    Raises:
        ValueError: the prefix is no path, or the token is empty.
        TypeError: an argument is none of these.
    """
    options = Options(
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
    """The names of ``allowed_hosts`` and of the deprecated ``hosts``, of which it warns."""
    names = check.texts("allowed_hosts", allowed_hosts)
    if hosts is None:
        return names
    warnings.warn("hosts= is called allowed_hosts= now", DeprecationWarning, stacklevel=stacklevel)
    return (*names, *check.texts("hosts", hosts))


def mount(app: web.Application, client: Client, options: Options) -> None:
    """Do what `add_routes` says."""
    check.an_instance("app", app, web.Application, "an aiohttp.web.Application")
    check.an_instance("client", client, Client, "a Client")
    prefix, token = options.prefix, options.token
    if prefix and not re.fullmatch(r"(?:/[A-Za-z0-9._~-]+)+", prefix):
        raise ValueError("prefix is a path such as /dashboard, without a slash at its end")
    secret = SecretStr(token) if isinstance(token, str) else token
    logins = Logins(secret) if secret is not None else None
    hidden = [*options.secrets, *([secret] if secret is not None else [])]
    guard = Guard(logins, allowed_hosts=options.allowed_hosts, prefix=prefix)
    dashboard = _Dashboard(client, guard, options, hidden)

    def route(path: str, handler: Handler, *methods: str, **how: bool) -> None:
        guarded = guard.wrap(handler, *methods, **how)
        app.router.add_route("*", f"{prefix}/{path}", guarded)

    if prefix:
        redirect = guard.wrap(_to_directory, "GET", "HEAD", anybody=True, navigation=True)
        app.router.add_route("*", prefix, redirect)
    route("", dashboard.page, "GET", "HEAD", anybody=True, navigation=True)
    route("static/{path:.+}", dashboard.static, "GET", "HEAD", anybody=True)
    route("login", dashboard.login, "POST", anybody=True, changes=True)
    route("logout", dashboard.logout, "POST", anybody=True, changes=True)
    route("api/overview", dashboard.overview, "GET")
    route("api/overview/stream", dashboard.overview_stream, "GET")
    route("api/jobs", dashboard.submit, "POST", changes=True)
    route("api/jobs/{id}/stream", dashboard.job_stream, "GET")
    route("api/jobs/{id}/transcript", dashboard.transcript, "GET")
    route("api/jobs/{id}/result", dashboard.result, "GET")
    route("api/jobs/{id}/cancel", dashboard.cancel, "POST", changes=True)
    route(
        "{path:.+}" if options.everything else "api/{path:.*}", _nothing, anybody=options.everything
    )
    share(app, dashboard.feeds)
    Streams.of(app).ends = True
    app.on_startup.append(dashboard.start)
    app.on_shutdown.append(dashboard.stop)


async def _to_directory(request: web.Request) -> web.StreamResponse:
    """The page's addresses are relative, so that it begins with a slash at its end matters."""
    name = request.path.rpartition("/")[2]
    return web.Response(status=308, headers={"Location": f"{name}/"})


async def _nothing(_: web.Request) -> web.StreamResponse:
    raise Problem(404, "NOT_FOUND", "there is nothing at this address")


class _Dashboard:
    """The parts of one dashboard, and what its addresses give."""

    def __init__(
        self,
        client: Client,
        guard: Guard,
        options: Options,
        secrets: list[str | SecretStr],
    ) -> None:
        self._client = client
        self._guard = guard
        self._control = options.allow_control
        self._scrubber = Scrubber(secrets)
        self.feeds = Feeds(
            client,
            secrets=secrets,
            memory=options.memory,
            linger=options.linger,
            changed=self._changed,
        )
        self._board: Board | None = None
        self._link: Link | None = None

    async def start(self, _app: web.Application) -> None:
        """Begin; what follows needs the event loop."""
        self._link = Link(self._client, self._scrubber)
        self._board = Board(self._client, self.feeds.get, self._scrubber, follow=self.feeds.follow)

    async def stop(self, app: web.Application) -> None:
        """End the streams, and leave no task behind."""
        await Streams.of(app).close()
        await self.feeds.close()
        if self._board is not None:
            await self._board.close()
        if self._link is not None:
            self._link.close()

    def _changed(self, feed: Feed) -> None:
        if self._board is not None:
            self._board.touch(feed)

    @property
    def board(self) -> Board:
        """The table of jobs."""
        assert self._board is not None, "the application has not started"
        return self._board

    @property
    def link(self) -> Link:
        """How the client's link stands."""
        assert self._link is not None, "the application has not started"
        return self._link

    # ------------------------------------------------------------------ pages

    async def page(self, _request: web.Request) -> web.StreamResponse:
        """``GET ./``."""
        return _file("index.html")

    async def static(self, request: web.Request) -> web.StreamResponse:
        """``GET ./static/*``."""
        return _file(request.match_info["path"])

    async def login(self, request: web.Request) -> web.StreamResponse:
        """``POST ./login``."""
        body = await bodies.read(request, bodies.Login)
        return await self._guard.login(request, body.token)

    async def logout(self, request: web.Request) -> web.StreamResponse:
        """``POST ./logout``."""
        return self._guard.logout(request)

    # ------------------------------------------------------------------ looking

    async def overview(self, _request: web.Request) -> web.StreamResponse:
        """``GET ./api/overview``."""
        await self._fresh()
        return web.Response(body=frames.encoded(self._told()), content_type="application/json")

    async def overview_stream(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/overview/stream``."""
        _room(request)
        await self._fresh()
        _room(request)  # others came meanwhile

        def whole() -> bytes:
            return frames.frame("overview", frames.encoded(self._told()))

        return EventStream(lambda stream, _: tell_overview(stream, self.board, self.link, whole))

    async def job_stream(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}/stream``."""
        _room(request)
        feed = await self._feed(request)
        _room(request)  # others came meanwhile
        return _stream(self.feeds, feed, self.link)

    async def transcript(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}/transcript``."""
        return downloads.transcript(self._client, await self._feed(request))

    async def result(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}/result``."""
        return await downloads.result(await self._feed(request))

    async def _fresh(self) -> None:
        if isinstance(self._client.state, Live):
            try:
                async with asyncio.timeout(_FRESH):
                    await self.board.refresh()
            except TimeoutError:
                pass  # it comes when it comes

    async def _feed(self, request: web.Request) -> Feed:
        return await self.feeds.open(_job_id(request))

    def _told(self) -> dict[str, Any]:
        try:
            session = self._client.session
        except ArcpError:
            session = SessionInfo(id="")
        return {
            "schema": SCHEMA,
            "runtime": {"name": session.runtime.name, "version": session.runtime.version},
            "dialect": session.dialect,
            "features": sorted(session.features),
            "agents": [
                {"name": agent.name, "versions": list(agent.versions), "default": agent.default}
                for agent in session.agents
            ],
            "control": self._control,
            "login": self._guard.asks,
            "link": self.link.describe(),
            "jobs": self.board.rows,
            "truncated": self.board.truncated,
            "now": int(time.time() * 1000),
        }

    # ------------------------------------------------------------------ doing

    async def submit(self, request: web.Request) -> web.StreamResponse:
        """``POST ./api/jobs``."""
        self._check_control()
        body = await bodies.read(request, bodies.Submit)
        try:
            job = await self._client.submit(
                body.agent,
                body.input,
                lease=body.lease,
                max_runtime=body.max_runtime,
                idempotency_key=body.idempotency_key,
            )
        except (ValueError, TypeError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            why = "the input is nested too deeply" if deep else str(error)
            raise Problem(400, "INVALID_REQUEST", why) from None
        self._changed(self.feeds.adopt(job))
        return web.Response(
            status=201,
            body=frames.encoded({"job_id": job.id}),
            content_type="application/json",
        )

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """``POST ./api/jobs/{id}/cancel``."""
        self._check_control()
        body = await bodies.read(request, bodies.Cancel, empty=True)
        await self._client.cancel_job(_job_id(request), body.reason)
        return web.Response(status=202, body=b"{}", content_type="application/json")

    def _check_control(self) -> None:
        if not self._control:
            raise Problem(
                403,
                "READ_ONLY",
                "the dashboard only looks",
                "start it with --allow-control to submit and cancel jobs",
            )


def _stream(feeds: Feeds, feed: Feed, link: Link) -> EventStream:
    async def play(stream: EventStream, request: web.Request) -> None:
        with feeds.viewing(feed) as there:
            if there:  # else the browser comes again
                await tell_job(stream, feed, asked(request), link=link)

    return EventStream(play)


def _room(request: web.Request) -> None:
    if Streams.of(request.app).full:
        raise Problem(
            503,
            "TOO_MANY_PAGES",
            "too many pages are open",
            "close some",
            headers={"Retry-After": "5"},
        )


def _job_id(request: web.Request) -> str:
    job_id = request.match_info["id"]
    if len(job_id) > 256 or not job_id.isprintable():
        raise Problem(404, "JOB_NOT_FOUND", "no job has such an id")
    return job_id


def _file(name: str) -> web.StreamResponse:
    path = _STATIC / name
    if not _NAME.fullmatch(name) or path.suffix not in _TYPES or not path.is_file():
        raise Problem(404, "NOT_FOUND", "there is nothing at this address")
    return web.FileResponse(
        path, headers={hdrs.CONTENT_TYPE: _TYPES[path.suffix], hdrs.CACHE_CONTROL: "no-cache"}
    )
