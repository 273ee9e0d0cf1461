"""A runtime that hosts an ACP agent, for ``arcp-client serve --agents``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from arcp_client import Runtime, acp

AGENT = Path(__file__).with_name("asking_acp_agent.py")


def make(auth: Any = None, event_log: Any = None) -> Runtime:
    runtime = Runtime(name="hosts-acp", auth=auth, event_log=event_log)
    command = [sys.executable, str(AGENT), os.environ["ASKING_ACP_AGENT_LINES"]]
    runtime.agent("hosted")(acp.host(command, ask=True))
    return runtime
