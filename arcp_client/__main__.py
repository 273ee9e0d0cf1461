"""Runs the command ``arcp-client``: ``python -m arcp_client`` (extra ``cli``)."""

from __future__ import annotations

from arcp_client.cli import main

if __name__ == "__main__":
    main()
