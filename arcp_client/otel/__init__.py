"""Traces and metrics of clients and runtimes, through the API of OpenTelemetry.

::

    telemetry = OpenTelemetry()
    client = Client("ws://127.0.0.1:7777/arcp", telemetry=telemetry)
    runtime = Runtime(telemetry=telemetry)

It needs the extra ``otel``, which installs ``opentelemetry-api``. Your program chooses and
configures the SDK and the exporters. The page "Telemetry" in the docs lists spans and metrics.
"""

from __future__ import annotations

try:
    import opentelemetry.metrics  # noqa: F401
except ImportError as error:
    raise ImportError(
        "arcp_client.otel needs the extra otel: pip install 'arcp-client[otel]'"
    ) from error

from arcp_client.otel.telemetry import OpenTelemetry

__all__ = ["OpenTelemetry"]
