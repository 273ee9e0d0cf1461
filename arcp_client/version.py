"""The package's version, and the address of its documentation."""

from __future__ import annotations

__version__ = "0.2.0"

DOCS_URL = "https://arcp-client.readthedocs.io/en/latest/"
