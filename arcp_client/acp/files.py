"""The former path of `arcp_client.acp.services.files`; imports from here keep working."""

from __future__ import annotations

from arcp_client.acp.services.files import FileSystem, LocalFiles

__all__ = ["FileSystem", "LocalFiles"]
