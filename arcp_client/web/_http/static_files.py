"""Serves the files of the dashboard's page."""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

from aiohttp import hdrs, web

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


def static_file(name: str, request: web.Request) -> web.StreamResponse:
    """The response with a file of the page, or with 304 if the browser has it.

    Raises:
        Problem: there is no such file.
    """
    path = _DIRECTORY / name
    if not _NAME.fullmatch(name) or path.suffix not in _TYPES or not path.is_file():
        raise Problem(404, "NOT_FOUND", "there is no such page")
    body, tag = _read(path)
    headers = {hdrs.CACHE_CONTROL: "no-cache", hdrs.ETAG: f'"{tag}"'}
    if any(known.value in (tag, "*") for known in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: _TYPES[path.suffix], **headers})


@functools.cache
def _read(path: Path) -> tuple[bytes, str]:
    body = path.read_bytes()
    return body, hashlib.blake2b(body, digest_size=12).hexdigest()
