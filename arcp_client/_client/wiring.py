"""Makes the parts of one client and connects them.

::

    Client ─┬─ Consumers      handlers, iterators, Observables, and their progress
            ├─ JobTable       the record of each job
            ├─ States         the state of the link
            ├─ SessionEngine  the session, the link that carries it, the checkpoint
            ├─ Lifecycle      connect, close, detach
            └─ Commands       submit, watch, list, ping, cancel
"""

from __future__ import annotations

from arcp_client._client.commands import Commands
from arcp_client._client.consumers import Consumers
from arcp_client._client.engine import SessionEngine
from arcp_client._client.job_table import JobTable
from arcp_client._client.lifecycle import Lifecycle
from arcp_client._client.settings import Settings
from arcp_client._client.states import States
from arcp_client._jobrecord import JobOwner
from arcp_client.transports.base import Connector

__all__ = ["Wiring"]


class Wiring:
    """The parts of one client.

    Some parts call a part that is made after them. They get a function that looks that part up.

    Args:
        connector: makes transports to the runtime.
        settings: the arguments of the client.
    """

    def __init__(self, connector: Connector, settings: Settings) -> None:
        timeouts = settings.timeouts
        self.consumers = Consumers(
            settings,
            request_pending=lambda: self.engine.request_pending,
            held=lambda: self.engine.held,
            active=lambda: self.engine.active(),
            check_loop=lambda: self.lifecycle.check_loop(),
            failed=lambda cause: self.engine.stop(cause),
        )
        self.states = States()
        self.jobs = JobTable(self._job_owner())
        self.consumers.route(self.jobs.streams)
        self.engine = SessionEngine(
            settings,
            connector,
            consumers=self.consumers,
            jobs=self.jobs,
            states=self.states,
            ended=lambda cause: self.lifecycle.end(cause),
        )
        self.lifecycle = Lifecycle(
            self.engine,
            consumers=self.consumers,
            jobs=self.jobs,
            states=self.states,
            timeouts=timeouts,
        )
        self.commands = Commands(
            self.engine, lifecycle=self.lifecycle, jobs=self.jobs, timeouts=timeouts
        )

    def _job_owner(self) -> JobOwner:
        consumers = self.consumers
        return JobOwner(
            notifications=consumers.notifications,
            gate=consumers.back_pressure,
            check_loop=lambda: self.lifecycle.check_loop(),
            wait_graph=consumers.wait_graph,
            barriers=consumers.barriers,
            own_call=consumers.own_call,
            chunk_log=lambda job_id: self.engine.chunk_log(job_id),
            exact_sizes=lambda: self.engine.exact_sizes(),
            may_have_lost_events=lambda: self.engine.may_have_lost_events(),
            cancel=lambda job_id, reason: self.commands.cancel(job_id, reason),
            unwatch=lambda job_id: self.commands.unwatch(job_id),
        )
