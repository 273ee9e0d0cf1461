"""``python -m arcp_client.cli`` is ``arcp-client``."""

from __future__ import annotations

from arcp_client.cli import main

if __name__ == "__main__":
    main()
