"""Rewrites the lease of a submit for runtimes whose leases have no patterns (§9.2).

For such a runtime, the capability ``fs.read`` allows every file. So the client sends only the
capabilities that were requested without a pattern: for the others, the runtime would grant more
than was requested.
"""

from __future__ import annotations

from typing import Final

import msgspec

from arcp_client._wire import names

__all__ = ["flattened"]

_UNBOUND: Final = frozenset({"*", "**"})
_NO_CAPABILITIES: Final = frozenset({names.BUDGETS, names.MODEL_USE})
_NAME: Final = "capabilities"

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_patterns = msgspec.json.Decoder(dict[str, list[str]])


def flattened(payload: msgspec.Raw) -> msgspec.Raw:
    """Return the payload with ``capabilities`` in its lease request, if it has one."""
    fields = _fields.decode(payload)
    lease = fields.get("lease_request")
    if lease is None:
        return payload
    grants = _patterns.decode(lease)
    free = [
        name
        for name, patterns in grants.items()
        if name not in _NO_CAPABILITIES and name != _NAME and _UNBOUND.intersection(patterns)
    ]
    if _NAME in grants or not free:
        return payload
    fields["lease_request"] = msgspec.Raw(msgspec.json.encode({**grants, _NAME: free}))
    return msgspec.Raw(msgspec.json.encode(fields))
