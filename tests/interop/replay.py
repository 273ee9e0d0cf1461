"""Captured frames in, what an application would have seen out: a session without a socket.

The runtime's frames are fed to a `Session` in the order in which they were captured. Where the
capture has a frame of the client, the session is told to do the same; its own identifiers stand in
the replies in place of the captured ones. Time is that of the capture. What the session asks beyond
what was captured, a `StandIn` answers as that runtime does, from what is in the capture.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from arcp_client._dialects import recognise
from arcp_client._protocol import actions
from arcp_client._protocol.pending import Request
from arcp_client._protocol.session import Session
from arcp_client._wire import names
from arcp_client._wire.ids import new_id
from arcp_client.errors import ArcpError
from arcp_client.events import Event, Gap

__all__ = ["TRANSCRIPTS", "Player", "Scenario", "StandIn", "replay"]

TRANSCRIPTS = Path(__file__).parents[1] / "data" / "transcripts"

_REQUESTS = (names.SUBMIT, names.CANCEL, names.SUBSCRIBE, names.LIST_JOBS, names.PING)
_LATER = 90.0
"""Seconds after the last frame in which everything must have come to an end."""


_BEAT = 0.05
"""Seconds in which what was captured comes before what a `StandIn` adds."""


class StandIn:
    """The runtime of a capture, for questions that nobody asked when it was captured."""

    def __init__(self) -> None:
        self._frames: list[tuple[str, dict[str, Any]]] = []
        self._page: dict[str, Any] | None = None

    def saw(self, name: str, frame: dict[str, Any]) -> None:
        """The captured runtime sent this over the connection of that name."""
        self._frames.append((name, frame))
        if frame.get("type") == names.JOBS:
            self._page = frame

    def answers(self, asked: dict[str, Any], spoken: str, session_id: str) -> list[dict[str, Any]]:
        """What it answers; nothing where that cannot be known."""
        kind, payload = asked["type"], asked["payload"]
        if kind == names.PING:
            return [_frame(names.PONG, session_id, {"ping_nonce": payload["nonce"]})]
        if kind == names.LIST_JOBS and self._page is not None:
            page = {**self._page["payload"], "request_id": asked["id"]}
            return [_frame(names.JOBS, session_id, page)]
        if kind == names.SUBSCRIBE:
            return self._subscribed(asked, spoken, session_id)
        return []

    def _subscribed(
        self, asked: dict[str, Any], spoken: str, session_id: str
    ) -> list[dict[str, Any]]:
        payload = asked["payload"]
        job_id = payload["job_id"]
        home = next(name for name, frame in self._frames if frame.get("job_id") == job_id)
        # Its log holds what it sent over the connection that the job was submitted over.
        logged = [
            frame
            for name, frame in self._frames
            if name == home and frame.get("job_id") == job_id and "event_seq" in frame
        ]
        status = self._status(job_id)
        if spoken == "typescript" and status in names.ENDED:  # it forgets a job with its end
            refusal = {"code": names.JOB_NOT_FOUND, "final_status": "error", "message": "gone"}
            return [_frame(names.JOB_ERROR, session_id, refusal, job_id=job_id)]
        history = [
            _frame(frame["type"], session_id, frame["payload"], job_id=job_id, event_seq=number)
            for number, frame in enumerate(logged, start=1)
        ]
        confirmed = {"request_id": asked["id"], "job_id": job_id, "current_status": status}
        answer = _frame(names.SUBSCRIBED, session_id, confirmed, job_id=job_id)
        return [*(history if payload.get("history") else []), answer]

    def _status(self, job_id: str) -> str:
        ends = [
            str(frame["payload"].get("final_status"))
            for _, frame in self._frames
            if frame.get("job_id") == job_id and frame["type"] in names.TERMINALS
        ]
        listed = [
            str(entry["status"])
            for entry in (self._page["payload"]["jobs"] if self._page else [])
            if entry["job_id"] == job_id
        ]
        return [*ends, *listed, "running"][0]


def _frame(kind: str, session_id: str, payload: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "arcp": "1.1",
        "id": new_id(),
        "type": kind,
        "session_id": session_id,
        "payload": payload,
        **fields,
    }


@dataclass
class Player:
    """One session of a client, over all the connections that it had.

    Attributes:
        connections: their names.
        answers: per request, in the order of asking, its answer, or the error that ended it.
        events: what was delivered, gaps included.
        known: acceptances and confirmations.
        gone: jobs that were given up, and why.
        reports: what went to the log.
        ends: why links were ended, by this side or by what the runtime said.
        sent: types of the frames that went out.
        late: as `events` and `ends`, after the last frame of the capture.
    """

    session: Session
    connections: list[str]
    requests: list[Request] = field(default_factory=list)
    answers: dict[int, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    known: list[actions.JobKnown] = field(default_factory=list)
    gone: dict[str, ArcpError] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)
    ends: list[ArcpError | None] = field(default_factory=list)
    opened: list[bool] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    hellos: list[Mapping[str, Any]] = field(default_factory=list)
    late: bool = False
    now: float = 0.0
    asked: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    @property
    def results(self) -> list[Any]:
        """Answers in the order of the requests; ``None`` for what has none."""
        return [self.answers.get(number) for number in range(len(self.requests))]

    @property
    def gaps(self) -> list[Gap]:
        return [event for event in self.events if isinstance(event, Gap)]

    def of(self, job_id: str) -> list[Event]:
        """The events of one job."""
        return [event for event in self.events if event.job_id == job_id]

    @property
    def jobs(self) -> list[str]:
        """Job ids in the order of their first acceptance or confirmation."""
        return list(dict.fromkeys(known.job.job_id for known in self.known))

    # -- what happens

    def answer(self, stand_in: StandIn, now: float) -> None:
        """Have answered what the session asked on its own account, up to some time."""
        while self.asked and self.asked[0][0] <= now:
            _, frame = self.asked.pop(0)
            session = self.session
            for reply in stand_in.answers(frame, session.peer.name, session.session_id or ""):
                self.hear(reply, now)

    def ask(self, frame: Mapping[str, Any], now: float) -> None:
        payload = frame.get("payload") or {}
        job_id = payload.get("job_id") or frame.get("job_id")
        kind = frame["type"]
        if kind == names.SUBSCRIBE:
            for own in self.session.requests:
                if own.kind == kind and own.job_id == job_id:
                    own.ids.append(frame["id"])  # the session asked the same by itself
                    return
        key = payload.get("idempotency_key")
        request = Request(
            kind=kind,
            payload=payload,
            deadline=now + 30,
            job_id=job_id if kind in (names.CANCEL, names.SUBSCRIBE) else None,
            trace_id=frame.get("trace_id"),
            key=key,
            fresh=key is None,
            envelope_job=kind == names.CANCEL,
            nonce=payload.get("nonce") if kind == names.PING else None,
        )
        request.token = (len(self.requests), frame["id"])
        self.requests.append(request)
        self.session.request(request, now)
        self.do()

    def renamed(self, frame: dict[str, Any]) -> dict[str, Any]:
        """A reply with the identifiers of the session's own requests in it."""
        payload = frame.get("payload")
        if not isinstance(payload, dict):
            return frame
        for name in names.REPLY_TO_NAMES:
            for request in self.requests:
                if payload.get(name) == request.token[1] and request.ids:
                    return {**frame, "payload": {**payload, name: request.ids[-1]}}
        return frame

    def hear(self, frame: dict[str, Any], now: float) -> None:
        data = json.dumps(self.renamed(frame)).encode()
        self.events += self.session.receive((data,), now)
        self.do()

    def pass_time(self, now: float, stand_in: StandIn) -> None:
        for _ in range(1000):
            deadline = self.session.deadline
            if deadline is None or deadline > now:
                self.now = max(self.now, now)
                return
            self.now = max(self.now, deadline)
            self.session.tick(self.now)
            self.do()
            if self.late:
                self.answer(stand_in, self.now)
        raise AssertionError("the session never comes to rest")

    def do(self) -> None:
        for effect in self.session.take():
            match effect:
                case actions.Send(data, request):
                    frame = json.loads(data)
                    self.sent.append(frame["type"])
                    if request is None or not isinstance(request.token, tuple):
                        self.asked.append((self.now, frame))
                    if frame["type"] == names.HELLO:
                        self.hellos.append(frame["payload"])
                case actions.Replied(request, value):
                    self.answers[request.token[0]] = value
                case actions.Refused(request, error):
                    self.answers[request.token[0]] = error
                case actions.JobKnown():
                    self.known.append(effect)
                case actions.JobGone(job_id, error):
                    self.gone[job_id] = error
                case actions.Report(message):
                    self.reports.append(message)
                case actions.Relink(cause) | actions.Ended(cause):
                    if not self.late:
                        self.ends.append(cause)
                case actions.Opened(_, resumed):
                    self.opened.append(resumed)
                case Event():
                    self.events.append(effect)


@dataclass
class Scenario:
    """One capture.

    Attributes:
        players: by the name of the connection; several names for one that was resumed.
    """

    players: dict[str, Player] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Player:
        return next(player for key, player in self.players.items() if key.startswith(name))

    def each(self) -> list[Player]:
        """Every player once."""
        return list({id(player): player for player in self.players.values()}.values())


def replay(path: Path, *, without: Collection[str] = ()) -> Scenario:
    """Play one capture.

    Args:
        path: the capture.
        without: features that the client does not offer, though it did when this was captured.
    """
    scenario = Scenario()
    stand_in = StandIn()
    records = [json.loads(line) for line in path.read_text().splitlines() if line]
    pongs = {
        record["frame"]["payload"].get("ping_nonce")
        for record in records
        if isinstance(record.get("frame"), dict) and record["frame"].get("type") == names.PONG
    }
    now = 0.0
    for number, record in enumerate(records):
        frame, name = record.get("frame"), record.get("conn", "only")
        now = max(now, float(record.get("t", now)))
        for player in scenario.each():
            player.pass_time(now, stand_in)
            player.answer(stand_in, now if record["dir"] == "c2s" else now - _BEAT)
        if not isinstance(frame, dict):
            continue
        if record["dir"] == "s2c":
            stand_in.saw(name, frame)
            if name in scenario.players:
                scenario.players[name].hear(frame, now)
        elif frame["type"] == names.HELLO or not scenario.players:
            _greet(scenario, name, frame, now, without)
        elif name in scenario.players:
            rest = [r for r in records[number + 1 :] if r.get("conn", "only") == name]
            odd = frame["type"] == names.PING and frame["payload"]["nonce"] not in pongs
            if not odd:
                _say(scenario.players[name], frame, now, last=not rest)
    for player in scenario.each():
        player.answer(stand_in, now)
        player.late = True
        player.pass_time(now + _LATER, stand_in)
    return scenario


def _greet(
    scenario: Scenario, name: str, frame: dict[str, Any], now: float, without: Collection[str]
) -> None:
    payload = frame["payload"]
    player = scenario.players.get(name)
    if player is None and payload.get("resume") is not None and scenario.players:
        # Whatever session it names, and with whatever token: it stands for that of the first one.
        player = next(iter(scenario.players.values()))
        player.connections.append(name)
    if player is None:
        offered = (payload.get("capabilities") or {}).get("features") or ()
        features = tuple(name for name in offered if name not in without)
        player = Player(Session(features=features, recognise=recognise), [name])
    scenario.players[name] = player
    if player.session.state.name != "DOWN":
        player.session.lost(now)
        player.do()
    if player.session.state.name == "DOWN":
        player.asked.clear()
        player.session.greet(SecretStr("made up"), now)
        player.do()


def _say(player: Player, frame: dict[str, Any], now: float, *, last: bool) -> None:
    kind = frame["type"]
    if player.session.state.name != "LIVE":
        return
    if kind in _REQUESTS:
        player.ask(frame, now)
    elif kind == names.ACK:
        ack = player.session.ack(frame["payload"]["last_processed_seq"], now)
        player.sent += [names.ACK] if ack is not None else []
    elif kind in (names.BYE, names.CLOSE) and last:
        player.session.close(now)
    # All else is what no client of this package sends.
    player.do()
