"""Runs ``arcp-client`` as ``python -m arcp_client.cli``."""

from __future__ import annotations

from arcp_client.cli import main

if __name__ == "__main__":
    main()
