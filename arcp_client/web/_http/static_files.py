"""Serves the files of the dashboard's page."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

from arcp_client.web._http import write_timeout
from arcp_client.web._http.problems import Problem

__all__ = ["static_file"]

_DIRECTORY = Path(__file__).parents[1] / "static"
_NAME = re.compile(r"(?:[A-Za-z0-9_-]+/)*[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}


def static_file(name: str) -> web.StreamResponse:
    """The response with a file of the page.

    Raises:
        Problem: there is no such file.
    """
    path = _DIRECTORY / name
    if not _NAME.fullmatch(name) or path.suffix not in _TYPES or not path.is_file():
        raise Problem(404, "NOT_FOUND", "there is no such page")
    return _StaticFile(
        path, headers={hdrs.CONTENT_TYPE: _TYPES[path.suffix], hdrs.CACHE_CONTROL: "no-cache"}
    )


class _StaticFile(web.FileResponse):
    """A file of the page.

    The operating system may send the file, without reporting progress. So the time limit applies to
    the whole write.
    """

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Send the headers and the file. aiohttp calls this."""
        try:
            async with asyncio.timeout(write_timeout.WRITE_TIMEOUT):
                return await super().prepare(request)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the client does not read") from None
