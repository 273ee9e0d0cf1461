"""The TypeScript runtime, ``@agentruntimecontrolprotocol/sdk`` on npm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._dialects._bound_jobs import BoundJobs
from arcp_client._dialects._uncorrelated import Uncorrelated
from arcp_client._dialects._unnumbered import Unnumbered
from arcp_client._protocol.peer import Next
from arcp_client._wire.messages import Bye
from arcp_client._wire.messages import Request as Message
from arcp_client._wire.names import text_of

__all__ = ["TypeScript"]


class TypeScript(Unnumbered, Uncorrelated, BoundJobs):
    """Puts ``msg_`` before envelope ids; each agent in its inventory has a list of versions."""

    name: ClassVar[str] = "typescript"
    exact_sizes: ClassVar[bool] = False
    session_ends_jobs: ClassVar[bool] = True
    renames: ClassVar[bool] = True

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        token = text_of(welcome.get("resume_token")) or ""
        return (
            envelope_id.startswith("msg_") and token.startswith("rt_") and _lists_versions(welcome)
        )

    def resume_refused(self) -> Next:
        # A resume that has missed nothing is refused, one event earlier is not.
        return Next.STEP_BACK

    def goodbye(self) -> Message | None:
        return Bye()

    @property
    def confirms_goodbye(self) -> bool:
        return False


def _lists_versions(welcome: Mapping[str, Any]) -> bool:
    capabilities = welcome.get("capabilities")
    agents = capabilities.get("agents") if isinstance(capabilities, Mapping) else None
    entries = agents if isinstance(agents, list) else []
    return all("versions" in entry for entry in entries if isinstance(entry, Mapping))
