"""One file a runtime: how its welcome is recognised, and where it differs from the specification.

This is the only place that knows runtimes by name. `_protocol` knows the seam, `Peer`; the files
whose names begin with an underscore are repairs that several runtimes share.

Runtimes without a file, and why:

============== ===================================================================================
Rust           speaks the older family of messages (``session.open``, ``tool.invoke``) under the
               same version; the handshake refuses it with a RemoteProtocolError that says so
Kotlin, Swift  the same family as Rust
PHP            older releases: as Rust; newer ones open sessions as the specification says, and
               have not been examined: they are taken at its word
.NET           the C# runtime has a file; the F# one has not been examined
============== ===================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from arcp_client._dialects.csharp import CSharp
from arcp_client._dialects.go import Go
from arcp_client._dialects.java import Java
from arcp_client._dialects.own import Own
from arcp_client._dialects.python import Python
from arcp_client._dialects.ruby import Ruby
from arcp_client._dialects.typescript import TypeScript
from arcp_client._dialects.unspecified import Unspecified
from arcp_client._protocol.peer import Peer

__all__ = ["DIALECTS", "recognise"]

_RECOGNISED: Final = (Own, Ruby, Python, TypeScript, CSharp, Go, Java)

DIALECTS: Final[Mapping[str, type[Peer]]] = {
    kind.name: kind for kind in (*_RECOGNISED, Unspecified)
}
"""Every kind of runtime by the name that ``SessionInfo.dialect`` says."""


def recognise(welcome: Mapping[str, Any], envelope_id: str = "") -> type[Peer]:
    """The kind of runtime that wrote a welcome, from its marks; else the specification's.

    Whoever deploys a runtime chooses its name, so the shape of the welcome decides.
    """
    for kind in _RECOGNISED:
        if kind.wrote(welcome, envelope_id):
            return kind
    return Unspecified
