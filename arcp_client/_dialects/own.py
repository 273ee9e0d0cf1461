"""The runtime of this package, `arcp_client.runtime`. It keeps to the specification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._dialects._dialect import Dialect
from arcp_client._dialects._forms import Forms

__all__ = ["Own"]


class Own(Dialect):
    """Sends frames in the order of their numbers; the client requests a missing event at once."""

    name: ClassVar[str] = "arcp-client"
    title: ClassVar[str] = "this package"

    # -- how its welcome is recognised

    mark: ClassVar[str] = "`runtime.sdk` begins with `arcp-client`"

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        runtime = welcome.get("runtime")
        sdk = runtime.get("sdk") if isinstance(runtime, Mapping) else None
        return isinstance(sdk, str) and sdk.partition("/")[0] == cls.name

    # -- what the client does differently

    hole_patience: ClassVar[float] = 0.0
    names_requests: ClassVar[bool] = True
    confirms_first: ClassVar[bool] = True

    # -- what `ScriptedRuntime` plays

    forms: ClassVar[Forms] = Forms(sdk="arcp-client/0")
