"""The names of spans, attributes and metrics.

They are taken from the semantic conventions of OpenTelemetry for messaging and for generative AI.
Names that these conventions do not define begin with ``arcp.``.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

__all__ = ["METRICS", "MetricName", "split_agent"]

# -- attributes of the conventions

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
CONVERSATION: Final = "gen_ai.conversation.id"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION: Final = "messaging.operation.name"
MESSAGING_TYPE: Final = "messaging.operation.type"

INVOKE_AGENT: Final = "invoke_agent"
SYSTEM: Final = "arcp"

# -- attributes without a convention

JOB_ID: Final = "arcp.job.id"
JOB_STATUS: Final = "arcp.job.status"
PARENT_JOB_ID: Final = "arcp.job.parent_id"
SESSION_ID: Final = "arcp.session.id"
TRACE_ID: Final = "arcp.trace_id"
HANDLER: Final = "arcp.handler.name"
RUNTIME: Final = "arcp.runtime.name"
LINK: Final = "arcp.link.reason"

# -- events of spans

JOB_STARTED: Final = "arcp.job.started"
GAP: Final = "arcp.gap"
LINK_LOST: Final = "arcp.link.lost"
SESSION_RESUMED: Final = "arcp.session.resumed"
SESSION_RENEWED: Final = "arcp.session.renewed"
CLIENT_CLOSED: Final = "arcp.client.closed"
RUNTIME_CLOSED: Final = "arcp.runtime.closed"


class MetricName(NamedTuple):
    """A metric.

    Attributes:
        name: its name.
        kind: its instrument.
        unit: its unit, in UCUM.
        description: what it measures.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    description: str


METRICS: Final[tuple[MetricName, ...]] = (
    MetricName(
        "messaging.client.consumed.messages",
        "counter",
        "{message}",
        "Events that clients have received, gaps included.",
    ),
    MetricName(
        "messaging.process.duration",
        "histogram",
        "s",
        "Time that one call of a handler takes: a sample of at most 100 calls a second.",
    ),
    MetricName(
        "arcp.client.processed.messages",
        "counter",
        "{message}",
        "Events that every consumer has processed.",
    ),
    MetricName("arcp.client.backlog", "gauge", "{message}", "Events that wait for consumers."),
    MetricName("arcp.client.lag", "gauge", "s", "Age of the oldest event that is not processed."),
    MetricName("arcp.client.spilled", "gauge", "{message}", "Events that wait on disk."),
    MetricName("arcp.client.gaps", "counter", "{gap}", "Holes in the sequence of events."),
    MetricName("arcp.client.reconnects", "counter", "{reconnect}", "Links after the first one."),
    MetricName(
        "arcp.client.back_pressure.pauses",
        "counter",
        "{pause}",
        "How often readers were paused because consumers were behind.",
    ),
    MetricName(
        "arcp.client.back_pressure.paused", "gauge", "{client}", "Clients whose reader is paused."
    ),
    MetricName(
        "gen_ai.client.operation.duration",
        "histogram",
        "s",
        "Time from the submit of a job until the client has received its end.",
    ),
    MetricName(
        "messaging.client.sent.messages",
        "counter",
        "{message}",
        "Events that runtimes have passed to a link.",
    ),
    MetricName(
        "gen_ai.server.request.duration",
        "histogram",
        "s",
        "Time from the acceptance of a job until its end, in the runtime.",
    ),
    MetricName("arcp.runtime.jobs", "gauge", "{job}", "Jobs that wait for a slot or run."),
    MetricName("arcp.runtime.connections", "gauge", "{connection}", "Open links."),
    MetricName("arcp.runtime.sessions", "gauge", "{session}", "Sessions, with or without a link."),
    MetricName("arcp.runtime.resumes", "counter", "{resume}", "Sessions that were resumed."),
    MetricName("arcp.runtime.unsent", "gauge", "{message}", "Events that no link has taken yet."),
    MetricName(
        "arcp.runtime.back_pressure.waiting",
        "gauge",
        "{session}",
        "Sessions whose clients are so far behind that agents wait.",
    ),
)
"""All metrics of clients and runtimes."""


def split_agent(agent: str) -> tuple[str, str | None]:
    """Split an agent reference into name and version."""
    name, _, version = agent.partition("@")
    return name, version or None
