"""Adds the dashboard of a client to an aiohttp application.

Each route checks the request by means of `_http`, and then answers from the feeds of jobs
(`_feeds`).
"""

from __future__ import annotations

import asyncio
import re
import time
import warnings
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from pydantic import SecretStr

from arcp_client import ArcpError, Client, Live, SessionInfo
from arcp_client import _arguments as check
from arcp_client._feeds import frames
from arcp_client._feeds.job_feed import MEMORY, JobFeed
from arcp_client._feeds.registry import LINGER, FeedRegistry
from arcp_client._feeds.stream import FrameStream, viewed
from arcp_client.transcripts import Scrubber
from arcp_client.web._feeds.event_stream import EventStream, OpenStreams
from arcp_client.web._feeds.job_list import JobList
from arcp_client.web._feeds.kept_inputs import KeptInputs
from arcp_client.web._feeds.link_status import LinkStatus
from arcp_client.web._feeds.open_questions import PageQuestions
from arcp_client.web._feeds.page_streams import overview_frames
from arcp_client.web._feeds.shared_streams import SharedStreams, Source
from arcp_client.web._http import bodies, downloads
from arcp_client.web._http.logins import Logins
from arcp_client.web._http.problems import Problem
from arcp_client.web._http.security import AccessControl, Handler
from arcp_client.web._http.static_files import static_file
from arcp_client.web._http.write_timeout import WriteTimeout
from arcp_client.web.pages import asked_position, share_feeds

__all__ = ["SCHEMA", "DashboardOptions", "add_routes", "host_names", "mount"]

SCHEMA = "arcp-client.web/1"
_REFRESH_TIMEOUT = 2.0


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
    dashboard = _Dashboard(client, access, options, hidden)

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


class _Dashboard:
    """The handlers of one dashboard, and the parts that they share."""

    def __init__(
        self,
        client: Client,
        access: AccessControl,
        options: DashboardOptions,
        secrets: list[str | SecretStr],
    ) -> None:
        self._client = client
        self._access = access
        self._control = options.allow_control
        self._scrubber = Scrubber(secrets)
        self._inputs = KeptInputs()
        self._shared = SharedStreams()
        self.feeds = FeedRegistry(
            client,
            secrets=secrets,
            memory=options.memory,
            linger=options.linger,
            changed=self._changed,
        )
        self._job_list: JobList | None = None
        self._link: LinkStatus | None = None
        self._questions: PageQuestions | None = None

    async def start(self, _app: web.Application) -> None:
        """Start the parts that need the event loop."""
        questions = PageQuestions(self._client, self._scrubber, self._asked)
        self._questions = questions
        self._link = LinkStatus(self._client, self._scrubber, questions.summary)
        self._job_list = JobList(
            self._client, self.feeds.get, self._scrubber, follow=self.feeds.follow
        )

    async def stop(self, app: web.Application) -> None:
        """End the streams and all tasks."""
        await OpenStreams.of(app).close()
        await self.feeds.close()
        if self._questions is not None:
            await self._questions.close()
        if self._job_list is not None:
            await self._job_list.close()
        if self._link is not None:
            self._link.close()

    def _changed(self, feed: JobFeed) -> None:
        if self._job_list is not None:
            self._job_list.touch(feed)

    def _asked(self) -> None:
        self.job_list.asking = self.open_questions.jobs
        self.link.shared.notify()

    @property
    def open_questions(self) -> PageQuestions:
        """The open questions."""
        assert self._questions is not None, "the application has not started"
        return self._questions

    @property
    def job_list(self) -> JobList:
        """The job list."""
        assert self._job_list is not None, "the application has not started"
        return self._job_list

    @property
    def link(self) -> LinkStatus:
        """The state of the client's link."""
        assert self._link is not None, "the application has not started"
        return self._link

    # ------------------------------------------------------------------ pages

    async def page(self, request: web.Request) -> web.StreamResponse:
        """``GET ./``."""
        return static_file("index.html", request)

    async def static(self, request: web.Request) -> web.StreamResponse:
        """``GET ./static/*``."""
        return static_file(request.match_info["path"], request)

    async def login(self, request: web.Request) -> web.StreamResponse:
        """``POST ./login``."""
        body = await bodies.read(request, bodies.LoginBody)
        return await self._access.login(request, body.token)

    async def logout(self, request: web.Request) -> web.StreamResponse:
        """``POST ./logout``."""
        return self._access.logout(request)

    # ------------------------------------------------------------------ viewing

    async def overview(self, _request: web.Request) -> web.StreamResponse:
        """``GET ./api/overview``."""
        await self._refresh()
        return web.Response(body=frames.encoded(self._overview()), content_type="application/json")

    async def overview_stream(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/overview/stream``."""
        _check_streams(request)
        await self._refresh()
        _check_streams(request)  # others may have opened meanwhile

        return EventStream(lambda stream, _: self._overview_frames(stream))

    def _overview_frames(self, stream: FrameStream) -> AsyncGenerator[bytes, None]:
        def whole() -> bytes:
            return frames.frame("overview", frames.encoded(self._overview()))

        return overview_frames(stream, self.job_list, self.link, whole)

    async def shared_stream(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/streams``."""
        _check_streams(request)
        return EventStream(lambda stream, _: self._shared.play(stream))

    async def subscribe(self, request: web.Request) -> web.StreamResponse:
        """``POST ./api/streams/{id}``."""
        body = await bodies.read(request, bodies.SubscribeBody)
        source = None if body.add is None else await self._source(body)
        shared = self._shared.get(request.match_info["id"])  # after the wait: it may have ended
        if shared is None:
            raise Problem(404, "NO_STREAM", "this shared stream has ended", "open a new one")
        if body.remove is not None:
            shared.remove(body.remove)
        if body.add is not None and source is not None:
            shared.add(body.add, source)
        return web.Response(status=202, body=b"{}", content_type="application/json")

    async def _source(self, body: bodies.SubscribeBody) -> Source:
        """What a subscription of a shared stream asks for."""
        if self._shared.full:
            raise _too_many()
        if len(body.add or "") > 64 or not (body.add or "").isalnum():
            raise Problem(400, "INVALID_BODY", "the name of a subscription is letters and digits")
        if body.path == "api/overview/stream":
            await self._refresh()
            return self._overview_frames
        found = re.fullmatch(r"api/jobs/([^/?]+)/stream(?:\?tail=([0-9]{1,6}))?", body.path)
        if found is None:
            raise Problem(404, "NOT_FOUND", "there is no such stream")
        feed = await self.feeds.open(_checked_id(unquote(found[1])))
        asked, tail = frames.position(body.after), _tail(found[2])
        return lambda stream: viewed(stream, self.feeds, feed, asked, link=self.link, tail=tail)

    async def job_stream(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}/stream``."""
        _check_streams(request)
        feed = await self._feed(request)
        _check_streams(request)  # others may have opened meanwhile
        return _stream(self.feeds, feed, self.link)

    async def older(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}/events``."""
        asked = frames.position(request.query.get("until"))
        feed = await self._feed(request)
        page = None if asked is None else feed.kept.older(asked)
        if page is None:
            raise Problem(
                404, "NOT_KEPT", "the server no longer keeps these events", "reload the page"
            )
        return web.Response(body=page, content_type="application/json")

    async def transcript(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}/transcript``."""
        return downloads.transcript(self._client, await self._feed(request))

    async def document(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}/document``."""
        feed = await self._feed(request)
        return downloads.document(feed, self._inputs.get(feed.job.id))

    async def result(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}/result``."""
        return await downloads.result(await self._feed(request))

    async def input(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}/input``."""
        # Runtimes do not tell the input of a job; the dashboard has that of its own jobs.
        given = self._inputs.get(_job_id(request)) or b"null"
        return web.Response(body=given, content_type="application/json")

    async def questions(self, _request: web.Request) -> web.StreamResponse:
        """``GET ./api/questions``."""
        found = self.open_questions.describe()
        return web.Response(body=frames.encoded(found), content_type="application/json")

    async def visible(self, request: web.Request) -> web.StreamResponse:
        """``POST ./api/visible``."""
        body = await bodies.read(request, bodies.VisibleBody)
        self.job_list.show(body.jobs)
        return web.Response(status=202, body=b"{}", content_type="application/json")

    async def _refresh(self) -> None:
        if isinstance(self._client.state, Live):
            try:
                async with asyncio.timeout(_REFRESH_TIMEOUT):
                    await self.job_list.refresh()
            except TimeoutError:
                pass  # the list is sent when it arrives

    async def _feed(self, request: web.Request) -> JobFeed:
        return await self.feeds.open(_job_id(request))

    def _overview(self) -> dict[str, Any]:
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
            "login": self._access.login_required,
            "link": self.link.describe(),
            "jobs": self.job_list.rows,
            "truncated": self.job_list.truncated,
            "now": int(time.time() * 1000),
        }

    # ------------------------------------------------------------------ control

    async def submit(self, request: web.Request) -> web.StreamResponse:
        """``POST ./api/jobs``."""
        self._check_control()
        body = await bodies.read(request, bodies.SubmitBody)
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
        self._inputs.add(job.id, self._scrubbed(body))
        label = bodies.label_of(body.input)
        if label is not None:
            self.job_list.label(job.id, self._scrubber.text(label))
        self._changed(self.feeds.adopt(job))
        return web.Response(
            status=201,
            body=frames.encoded({"job_id": job.id}),
            content_type="application/json",
        )

    def _scrubbed(self, body: bodies.SubmitBody) -> bytes:
        """What was submitted, with secrets masked."""
        given = {
            "agent": body.agent,
            "input": frames.decoded(bytes(body.input)),
            "lease": body.lease,
            "max_runtime": body.max_runtime,
        }
        return frames.exact(self._scrubber(given))

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """``POST ./api/jobs/{id}/cancel``."""
        self._check_control()
        body = await bodies.read(request, bodies.CancelBody, empty=True)
        await self._client.cancel_job(_job_id(request), body.reason)
        return web.Response(status=202, body=b"{}", content_type="application/json")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """``POST ./api/jobs/{id}/answer``."""
        self._check_control()
        body = await bodies.read(request, bodies.AnswerBody)
        try:
            taken = await self._client.answer(
                _job_id(request),
                body.question_id,
                body.value,
                idempotency_key=body.idempotency_key,
            )
        except (ValueError, TypeError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            why = "the answer is nested too deeply" if deep else str(error)
            raise Problem(400, "INVALID_REQUEST", why) from None
        how = self.open_questions.taken(taken)
        return web.Response(body=frames.encoded(how), content_type="application/json")

    def _check_control(self) -> None:
        if not self._control:
            raise Problem(
                403,
                "READ_ONLY",
                "the dashboard is read-only",
                "start it with --allow-control to submit and cancel jobs, and to answer questions",
            )


def _stream(feeds: FeedRegistry, feed: JobFeed, link: LinkStatus) -> EventStream:
    def play(stream: FrameStream, request: web.Request) -> AsyncGenerator[bytes, None]:
        tail = _tail(request.query.get("tail"))
        return viewed(stream, feeds, feed, asked_position(request), link=link, tail=tail)

    return EventStream(play)


def _tail(text: str | None) -> int | None:
    """How many of the newest events a page wants at most; ``None`` for all that are kept."""
    return int(text) if text is not None and re.fullmatch("[0-9]{1,6}", text, re.ASCII) else None


def _check_streams(request: web.Request) -> None:
    if OpenStreams.of(request.app).full:
        raise _too_many()


def _too_many() -> Problem:
    return Problem(
        503,
        "TOO_MANY_PAGES",
        "too many pages are open",
        "close some pages",
        headers={"Retry-After": "5"},
    )


def _job_id(request: web.Request) -> str:
    return _checked_id(request.match_info["id"])


def _checked_id(job_id: str) -> str:
    if len(job_id) > 256 or not job_id.isprintable():
        raise Problem(404, "JOB_NOT_FOUND", "no job has this id")
    return job_id
