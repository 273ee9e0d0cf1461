"""Decides which requests the dashboard answers, and sets the security headers of its responses.

Every page in a developer's browser can send requests to a dashboard on the developer's machine. The
dashboard therefore answers a request only if the host name in it is allowed (against DNS
rebinding), and if the request does not come from another site. A dashboard without a token answers
only this machine.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import hdrs, web

from arcp_client import ArcpError
from arcp_client._feeds.registry import FeedUnavailable
from arcp_client._hosts import is_loopback
from arcp_client._security import AllowedHosts, client_address, host_name, is_address
from arcp_client.web._feeds.event_stream import EventStream
from arcp_client.web._http.logins import LIFETIME, Logins
from arcp_client.web._http.problems import Problem, answer, problem
from arcp_client.web._http.write_timeout import WriteTimeout

__all__ = ["HEADERS", "AccessControl", "Handler", "check_type"]

_log = logging.getLogger("arcp_client.web")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types arcp-client-worker;"
    " worker-src 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Server": "arcp-client",
}
_FORWARDED = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
)


class AccessControl:
    """Checks the sender of each request, and logs browsers in.

    Args:
        logins: knows the token and the sessions; ``None`` serves this machine without a token.
        allowed_hosts: further host names of this server.
        path: the path of the dashboard; the browser sends cookies there only. An empty one
            lets the browser take it from the URL of the login.
    """

    def __init__(
        self, logins: Logins | None, *, allowed_hosts: Iterable[str] = (), path: str = "/"
    ) -> None:
        self._logins = logins
        self._hosts = AllowedHosts(allowed_hosts)
        self._path = path

    @property
    def login_required(self) -> bool:
        """Whether users have to log in."""
        return self._logins is not None

    def protect(
        self,
        handler: Handler,
        *methods: str,
        public: bool = False,
        changes: bool = False,
        navigation: bool = False,
    ) -> Handler:
        """Wrap a handler: check each request, and answer errors with a `Problem`.

        Args:
            handler: the handler.
            methods: the HTTP methods that it takes; all of them by default.
            public: whether it serves users who are not logged in.
            changes: whether it changes something. If so, the body must be JSON.
            navigation: whether a link on another site may lead to it.
        """

        async def protected(request: web.Request) -> web.StreamResponse:
            try:
                if methods and request.method not in methods:
                    raise Problem(
                        405,
                        "METHOD_NOT_ALLOWED",
                        f"this address does not take {request.method}",
                        headers={"Allow": ", ".join(methods)},
                    )
                self._check_peer(request)
                self._check_host(request)
                if not navigation:
                    self._check_site(request)
                if changes:
                    check_type(request)
                if not public:
                    await self._check_login(request)
                response = await handler(request)
                if isinstance(response, EventStream):
                    response.authorize(self._session(request))
            except Problem as found:
                response = answer(found)
            except (ArcpError, FeedUnavailable) as error:
                response = answer(problem(error))
            except web.HTTPException as error:
                response = answer(Problem(error.status, "HTTP_ERROR", error.reason))
            except Exception:  # noqa: BLE001  every response has the security headers
                # The URL and the headers may hold secrets, so they are not logged.
                _log.exception("a request failed: %s", handler.__name__)
                failed = Problem(500, "INTERNAL_ERROR", "the dashboard failed", "see its log")
                response = answer(failed)
            if not response.prepared:
                response.headers.update(HEADERS)
                response.headers.setdefault("Cache-Control", "no-store")
            WriteTimeout.of(request.app).watch(request.transport)
            return response

        return protected

    # ------------------------------------------------------------------ logging in

    async def login(self, request: web.Request, token: str) -> web.Response:
        """Log a browser in."""
        response = web.Response(status=204)
        if self._logins is not None:
            response.set_cookie(
                _cookie(request),
                await self._logins.login(token, client_address(request.transport)),
                max_age=int(LIFETIME),
                path=self._path,
                httponly=True,
                samesite="Strict",
                secure=request.secure or request.headers.get("X-Forwarded-Proto") == "https",
            )
        return response

    def logout(self, request: web.Request) -> web.Response:
        """Log a browser out."""
        response = web.Response(status=204)
        if self._logins is not None:
            name = _cookie(request)
            self._logins.logout(request.cookies.get(name))
            response.del_cookie(name, path=self._path, httponly=True, samesite="Strict")
        return response

    # ------------------------------------------------------------------ checks

    def _check_peer(self, request: web.Request) -> None:
        if self._logins is not None:
            return
        if not _is_local(request):
            raise Problem(
                403,
                "LOOPBACK_ONLY",
                "without a token the dashboard serves only the machine that it runs on",
                "start it with a token",
            )
        if any(name in request.headers for name in _FORWARDED):
            raise Problem(
                403,
                "LOOPBACK_ONLY",
                "the request came through a proxy; without a token only this machine is served",
                "start it with a token",
            )

    def _check_host(self, request: web.Request) -> None:
        name = host_name(request.headers.getall(hdrs.HOST, []))
        if name is None:
            raise Problem(400, "BAD_HOST", "the request names no host")
        if name in self._hosts or (self._logins is not None and is_address(name)):
            return
        raise Problem(
            403,
            "HOST_NOT_ALLOWED",
            "the dashboard is not served under this name",
            "use its address, or allow the name: --allow-host NAME (allowed_hosts= in a program)",
        )

    def _check_site(self, request: web.Request) -> None:
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        origins = request.headers.getall(hdrs.ORIGIN, [])
        if site not in ("same-origin", "none") or not self._hosts.own(
            origins, request.headers[hdrs.HOST]
        ):
            raise _foreign()

    def _session(self, request: web.Request) -> Callable[[], bool]:
        """Returns a check whether the login is still valid, as a stream may last for days."""
        logins, cookie = self._logins, request.cookies.get(_cookie(request))
        if logins is None or not logins.knows(cookie):
            return lambda: True
        return lambda: logins.knows(cookie)

    async def _check_login(self, request: web.Request) -> None:
        if self._logins is None or self._logins.knows(request.cookies.get(_cookie(request))):
            return
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Problem(401, "LOGIN_REQUIRED", "a token is needed", "log in")
        await self._logins.check(token.strip(), client_address(request.transport))


def _foreign() -> Problem:
    return Problem(
        403,
        "CROSS_SITE",
        "the request came from another site, or a proxy changed its Host header",
        "use the dashboard's own page; behind a proxy, forward the Host header or allow the name"
        " that browsers see: --allow-host NAME (allowed_hosts= in a program)",
    )


def check_type(request: web.Request) -> None:
    """Refuse a body that is not JSON: pages of other sites can send those without asking."""
    if request.content_type != "application/json":
        raise Problem(
            415,
            "JSON_REQUIRED",
            "the body must be JSON",
            "send it with Content-Type: application/json",
        )


def _cookie(request: web.Request) -> str:
    """The cookie's name, which has the port, because browsers share cookies among ports."""
    transport = request.transport
    name = transport.get_extra_info("sockname") if transport is not None else None
    port = name[1] if isinstance(name, tuple) else 0
    return f"arcp-client-{port}"


def _is_local(request: web.Request) -> bool:
    transport = request.transport
    if transport is None:
        return False
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple):
        return is_loopback(str(peer[0]))
    return isinstance(transport.get_extra_info("sockname"), str)  # a Unix socket
