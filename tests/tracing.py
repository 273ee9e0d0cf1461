"""Which tests of a run of the whole suite coverage measures; a run of a part measures all of it.

Tracing doubles the CPU time of a test. What is left out runs, many times over, lines that other
tests run: without it, coverage sees 1 % fewer lines of the package.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import coverage
import pytest

TRACED = (
    "tests/e2e/test_commands.py",
    "tests/e2e/test_doctor.py",
    "tests/interop/acp/test_command.py",
    "tests/unit/cli/",
    "tests/unit/runtime/",
    "tests/unit/transports/",
)
"""Where processes that tests start run lines of the package that hardly any other test runs."""

UNTRACED = (
    "tests/backpressure/",
    "tests/contract/",
    "tests/e2e/browsers/",
    "tests/e2e/web/",
    "tests/faults/",
    "tests/interop/",
    "tests/property/",
    "tests/unit/acp/connection/test_unreadable.py",
    "tests/unit/client/test_close_deadline.py",
    "tests/unit/client/test_durable.py",
    "tests/unit/client/test_misuse.py",
    "tests/unit/client/test_reported.py",
    "tests/unit/client/test_requests.py",
    "tests/unit/client/test_verdicts.py",
    "tests/unit/feeds/",
    "tests/unit/link/test_cancel.py",
    "tests/unit/link/test_reconnect.py",
    "tests/unit/protocol/test_interrupted.py",
    "tests/unit/runtime/connection/test_malformed.py",
    "tests/unit/runtime/sessions/test_order.py",
    "tests/unit/runtime/sessions/test_pace.py",
    "tests/unit/runtime/test_serving.py",
    "tests/unit/rx/test_properties.py",
    "tests/unit/rx/test_serial.py",
    "tests/unit/test_digits.py",
    "tests/unit/test_events.py",
    "tests/unit/test_peer_bytes.py",
    "tests/unit/test_scrubbing.py",
    "tests/unit/test_structure.py",
    "tests/unit/test_tasks.py",
    "tests/unit/test_user_code.py",
    "tests/unit/transcripts/test_files.py",
    "tests/unit/transports/test_conformance.py",
    "tests/unit/transports/test_websocket.py",
    "tests/unit/transports/test_websocket_connect.py",
    "tests/unit/web/feeds/test_page_streams.py",
    "tests/unit/web/http/test_write_timeout.py",
    "tests/unit/web/test_lifetime.py",
    "tests/unit/web/test_routes.py",
    "tests/unit/wire/",
)
"""What coverage leaves out: folders that repeat other tests, and single files that take long."""


def is_whole(config: pytest.Config) -> bool:
    """Whether the run is one of the whole suite; in a worker, what its controller has said."""
    told: dict[str, bool] | None = getattr(config, "workerinput", None)
    if told is not None:
        return told["whole"]
    selected = config.option.keyword or config.option.markexpr
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not selected


def is_untraced(config: pytest.Config, where: str) -> bool:
    """Whether coverage leaves out the tests of this file, a path from the root of the tree."""
    return is_whole(config) and where.startswith(UNTRACED)


@contextlib.contextmanager
def not_measured(config: pytest.Config) -> Iterator[None]:
    """Stop coverage for a block."""
    if config.getoption("cov_context", None):  # it asks which test runs a line: no test is left out
        yield
        return
    stopped = []
    while (measuring := coverage.Coverage.current()) is not None:  # a worker has two, one stacked
        measuring.stop()
        stopped.append(measuring)
    try:
        yield
    finally:
        for measuring in reversed(stopped):
            measuring.start()
