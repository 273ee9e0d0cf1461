"""Shares one aiohttp session among the WebSocket links of an event loop.

A session and its connector take more memory than the link. Links can share them, because they hold
nothing that belongs to one link: they keep no connection for later requests, and cache no names.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import ClassVar

import aiohttp

from arcp_client.transports._connect import refuse_redirect

__all__ = ["SharedSession"]


class SharedSession:
    """An aiohttp session that counts the links that use it, and closes after the last one.

    Attributes:
        session: the session.
    """

    # Only the users refer to the session, because it refers to its loop, which is the key.
    _by_loop: ClassVar[
        weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[SharedSession]]
    ] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        self._users = 0
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True, use_dns_cache=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            middlewares=(refuse_redirect,),
        )

    @classmethod
    def enter(cls) -> SharedSession:
        """Count one more link for the session of the running loop; make the session if needed."""
        loop = asyncio.get_running_loop()
        known = cls._by_loop.get(loop)
        shared = known() if known is not None else None
        if shared is None:
            shared = cls()
            cls._by_loop[loop] = weakref.ref(shared)
        shared._users += 1
        return shared

    async def leave(self) -> None:
        """Count one link less; close the session after the last one."""
        self._users -= 1
        if not self._users:
            self._by_loop.pop(asyncio.get_running_loop(), None)
            await self.session.close()
