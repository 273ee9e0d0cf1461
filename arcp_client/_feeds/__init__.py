"""Numbers and encodes the events of jobs for browsers, and streams them as server-sent events.

`BrowserStreams` is imported on first use: a client without streams needs nothing of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arcp_client._feeds.browser_streams import BrowserStreams

__all__ = ["BrowserStreams"]


def __getattr__(name: str) -> Any:
    if name != "BrowserStreams":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(".browser_streams", __name__).BrowserStreams
