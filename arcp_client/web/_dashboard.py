"""Answers the requests of a dashboard's pages from the feeds of jobs.

A feed (`JobFeed`) keeps the events of one job, numbered and encoded once for all pages.
`routes` has the paths and the checks before each handler.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from pydantic import SecretStr

from arcp_client import ArcpError, Client, Live, SessionInfo
from arcp_client._feeds import frames
from arcp_client._feeds.job_feed import JobFeed
from arcp_client._feeds.registry import FeedRegistry
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
from arcp_client.web._http.problems import Problem
from arcp_client.web._http.security import AccessControl
from arcp_client.web._http.static_files import static_file
from arcp_client.web.pages import asked_position

__all__ = ["Dashboard"]

_SCHEMA = "arcp-client.web/1"
_REFRESH_TIMEOUT = 2.0


class Dashboard:
    """The handlers of one dashboard, and the parts that they share.

    Args:
        client: the client whose jobs are shown.
        access: answers logins.
        secrets: texts that are masked in all that is shown.
        control: whether pages may submit and cancel jobs and answer questions.
        memory: as for `add_routes`.
        linger: as for `add_routes`.
    """

    def __init__(
        self,
        client: Client,
        access: AccessControl,
        secrets: list[str | SecretStr],
        *,
        control: bool,
        memory: int,
        linger: float,
    ) -> None:
        self._client = client
        self._access = access
        self._control = control
        self._scrubber = Scrubber(secrets)
        self._inputs = KeptInputs()
        self._shared = SharedStreams()
        self.feeds = FeedRegistry(
            client,
            secrets=secrets,
            memory=memory,
            linger=linger,
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

    async def job(self, request: web.Request) -> web.StreamResponse:
        """``GET ./api/jobs/{id}``: the state of a job, whose events are read from now on."""
        feed = await self._feed(request)
        body = frames.encoded(feed.describe())
        return web.Response(body=body, content_type="application/json")

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
            "schema": _SCHEMA,
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
            raise _invalid("input", error) from None
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
            raise _invalid("answer", error) from None
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


def _invalid(what: str, error: Exception) -> Problem:
    deep = isinstance(error, RecursionError)
    why = f"the {what} is nested too deeply" if deep else str(error)
    return Problem(400, "INVALID_REQUEST", why)


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
