"""One file for each runtime: how its welcome is recognised, and where it deviates.

In the client, only this package contains names of runtimes; `_protocol` has the base class `Peer`.
The file of a runtime holds one `Dialect`. Files whose names begin with an underscore hold what
several runtimes share. To add a runtime, add a file and a line in `DIALECTS`. The client,
``arcp-client doctor``, the pages on interoperability and recovery, and
`arcp_client.testing.ScriptedRuntime` use that list.

Runtimes without a file, and why:

============== ===================================================================================
Rust           speaks the older family of messages (``session.open``, ``tool.invoke``) under the
               same version; the handshake refuses it with a RemoteProtocolError that says so
Kotlin, Swift  the same family as Rust
PHP            older releases: as Rust; newer ones open sessions as the specification says, and
               have not been examined: the client assumes that they conform
.NET           the C# runtime has a file; the F# one has not been examined
============== ===================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from arcp_client._dialects._dialect import Deviation, Dialect
from arcp_client._dialects._forms import Forms
from arcp_client._dialects.csharp import CSharp
from arcp_client._dialects.go import Go
from arcp_client._dialects.java import Java
from arcp_client._dialects.own import Own
from arcp_client._dialects.python import Python
from arcp_client._dialects.ruby import Ruby
from arcp_client._dialects.typescript import TypeScript
from arcp_client._dialects.unspecified import Unspecified

__all__ = ["DIALECTS", "SPECIFICATION", "Deviation", "Dialect", "Forms", "recognise"]

SPECIFICATION: Final = Unspecified

DIALECTS: Final[dict[str, type[Dialect]]] = {
    kind.name: kind
    for kind in (
        Own,
        Ruby,
        Python,
        TypeScript,
        CSharp,  # after TypeScript, and Go after Ruby: their marks are weaker
        Go,
        Java,
        Unspecified,
    )
}
"""Every dialect by the name that ``SessionInfo.dialect`` has, in the order of recognition."""


def recognise(welcome: Mapping[str, Any], envelope_id: str = "") -> type[Dialect]:
    """The dialect of the runtime that wrote a welcome; `Unspecified` if none matches.

    The form of the welcome decides, and not the name in it, because the operator of a runtime
    chooses that name.
    """
    for kind in DIALECTS.values():
        if kind.wrote(welcome, envelope_id):
            return kind
    return SPECIFICATION
