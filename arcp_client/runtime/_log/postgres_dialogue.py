"""Questions and messages in PostgreSQL, for all replicas of one runtime.

Each second, and after a wake-up by another replica, a poll reads the answers and messages that wait
for this replica, and the questions that have changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from arcp_client._postgres.database import Database
from arcp_client._postgres.functions import TOO_MANY
from arcp_client._wire.ids import parse_time, time_text
from arcp_client.errors import LocalProtocolError, StorageError
from arcp_client.runtime._log.dialogue import (
    AnswersOffered,
    KnownQuestion,
    MessagesOffered,
    OfferedAnswer,
    OfferedMessage,
    QuestionsMoved,
    StoredMessage,
)
from arcp_client.runtime._log.directory import Bounds, CallsLeft, Change
from arcp_client.runtime._log.entries import Entry, MessageState, QuestionState
from arcp_client.runtime._log.postgres_calls import left_calls
from arcp_client.runtime._log.postgres_members import Membership
from arcp_client.runtime._log.postgres_rows import away, decode_session, encoded, refusals

__all__ = ["DialogueBatch", "PostgresDialogue"]

_log = logging.getLogger("arcp_client.runtime")

_POLL = 1.0
_SWEEP_EVERY = 10
_MOST_OFFERS = 64
"""Answers that wait for one question."""
_AT_ONCE = 256
"""Offers that are read at once; the rest follows when these are decided."""
_MOST_CHANGES = 1000
_PAGE_BYTES = 1024 * 1024

_QUESTION = (
    "SELECT q.*, j.agent AS job_agent FROM questions AS q"
    " LEFT JOIN jobs AS j ON j.id = q.job_ids[cardinality(q.job_ids)]"
)
_decode_question = msgspec.msgpack.Decoder(QuestionState).decode
_decode_offer = msgspec.msgpack.Decoder(tuple[str, str, str, bytes]).decode


class PostgresDialogue:
    """A `SharedDialogue` in PostgreSQL.

    Args:
        database: the connections.
        member: this replica.
        tell: wakes the other replicas: with `OFFERED`, or with `CHANGED`.
        report: takes what replicas change, this one included.
    """

    OFFERED = "?offered"
    """In a wake-up: an answer or a message waits for the replica that decides."""
    CHANGED = "?questions"
    """In a wake-up: questions have changed."""

    def __init__(
        self,
        database: Database,
        member: Membership,
        tell: Callable[[Iterable[str]], None],
        report: Callable[[Change], None],
    ) -> None:
        self._db = database
        self._member = member
        self._tell = tell
        self._report = report
        self._bounds = Bounds()
        self._look_now = asyncio.Event()
        self._polls = 0
        self._cursor: str | None = None
        self._seen: set[tuple[str, str]] = set()
        self._take_again = False

    # --------------------------------------------------------------------------- changes

    def heard(self) -> None:
        """Look for changes now."""
        self._look_now.set()

    async def begin(self, bounds: Bounds) -> None:
        """Note from where on changes are reported.

        Raises:
            StorageError: the database cannot be used.
        """
        self._bounds = bounds
        async with self._db.connection() as connection:
            self._cursor = await connection.fetchval(
                "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
            )

    async def poll(self) -> None:
        """Find, each second, what no wake-up has told."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL):
                    await self._look_now.wait()
            self._look_now.clear()
            self._polls += 1
            if not self._member.joined:
                continue
            try:
                async with self._db.connection() as connection:
                    await self._look(connection)
                    await self._take_calls(connection)
            except StorageError as error:
                _log.warning("replica %s cannot poll: %s", self._member.id, error)

    async def _take_calls(self, connection: Any) -> None:
        """Take the calls of webhooks that replicas have left."""
        member = self._member
        webhooks = {} if member.host is None else member.host.webhooks
        if webhooks and member.joined:
            again, self._take_again = self._take_again, True
            calls = await left_calls(
                connection, member.id, member.epoch, list(webhooks), again=again
            )
            self._take_again = False
            if calls:
                self._report(CallsLeft(calls))

    async def _look(self, connection: Any) -> None:
        await connection.execute("SELECT expire_questions(NULL)")
        rows = await connection.fetch(
            "SELECT a.* FROM answers AS a JOIN questions AS q ON q.id = a.question_id"
            " WHERE q.runner = $1 AND q.status = 'open' AND a.refusal IS NULL"
            f" ORDER BY a.number LIMIT {_AT_ONCE}",
            self._member.id,
        )
        if rows:
            self._report(AnswersOffered([_answer(row) for row in rows]))
        rows = await connection.fetch(
            "SELECT m.* FROM messages AS m JOIN jobs AS j ON j.id = m.job_id"
            " WHERE j.runner = $1 AND j.ended_at IS NULL AND m.state = 'offered'"
            f" ORDER BY m.number LIMIT {_AT_ONCE}",
            self._member.id,
        )
        if rows:
            self._report(MessagesOffered([_message(row) for row in rows]))
        await self._find_changes(connection)
        if self._polls % _SWEEP_EVERY == 0:
            bounds = self._bounds
            await connection.execute(
                "SELECT sweep_dialogue($1, $2, $3)",
                timedelta(seconds=bounds.answer_window),
                bounds.answers,
                bounds.answer_bytes,
            )

    async def _find_changes(self, connection: Any) -> None:
        """Report what has changed since the last look.

        A transaction that still runs may have a lower number than those that have ended: the cursor
        is the lowest of those that ran at the last look, and what was reported is left out.
        """
        rows = await connection.fetch(
            "SELECT q.*, j.agent AS job_agent, q.changed::text AS at,"
            " pg_snapshot_xmin(pg_current_snapshot())::text AS cursor FROM questions AS q"
            " LEFT JOIN jobs AS j ON j.id = q.job_ids[cardinality(q.job_ids)]"
            f" WHERE q.changed >= $1::text::xid8 ORDER BY q.changed LIMIT {_MOST_CHANGES}",
            self._cursor,
        )
        if not rows:
            return
        found = {(row["id"], row["at"]) for row in rows}
        new = [row for row in rows if (row["id"], row["at"]) not in self._seen]
        self._seen = found
        if len(rows) == _MOST_CHANGES:
            self._cursor = rows[-1]["at"]
            self._look_now.set()
            self._report(QuestionsMoved(None))
        else:
            self._cursor = rows[0]["cursor"]
        if changed := [self._known(row) for row in new if row["status"] != "asked"]:
            self._report(QuestionsMoved(changed))

    # ------------------------------------------------------------------------- questions

    def _known(self, row: Any) -> KnownQuestion:
        status, closed = row["status"], row["closed_at"]
        state = msgspec.structs.replace(
            _decode_question(row["state"]),
            number=row["number"],
            job_ids=tuple(row["job_ids"]),
            state="open" if status == "asked" else status,
            value=row["value"],
            by=row["answered_by"],
            client=row["client"],
            closed_at="" if closed is None else time_text(closed),
            answer_key=row["answer_key"],
            paused=row["paused"],
        )
        runner = row["runner"]
        mine = runner is not None and runner == self._member.id
        return KnownQuestion(state, runner is not None, mine, row.get("job_agent"))

    async def ask(self, state: QuestionState, job_id: str, most: int) -> KnownQuestion | None:
        """Register a question, or return that of the same work."""
        member = self._member
        try:
            async with self._db.transaction() as connection:
                row = await connection.fetchrow(
                    "SELECT * FROM ask_question($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,"
                    " $13)",
                    member.id,
                    member.epoch,
                    state.id,
                    state.principal,
                    state.agent,
                    state.work,
                    state.key,
                    state.durable_work,
                    job_id,
                    parse_time(state.expires_at),
                    state.default,
                    encoded(state),
                    most,
                )
        except StorageError as error:
            if error.sqlstate == TOO_MANY:
                raise LocalProtocolError(
                    f"the principal of this job has {most} open questions already"
                ) from None
            raise away(error) from error
        return None if row is None else self._known(row)

    async def claim(self, question_id: str) -> KnownQuestion | None:
        """Decide about a question from now on, if no other replica does."""
        member = self._member
        with refusals():
            async with self._db.transaction() as connection:
                await connection.execute("SELECT fence($1, $2)", member.id, member.epoch)
                await connection.execute(
                    "UPDATE questions SET runner = $2 WHERE id = $1 AND runner IS NULL"
                    " AND status = 'open'",
                    question_id,
                    member.id,
                )
                row = await connection.fetchrow(f"{_QUESTION} WHERE q.id = $1", question_id)
        return None if row is None else self._known(row)

    async def question(self, question_id: str) -> KnownQuestion | None:
        """Return a question that was asked."""
        with refusals():
            async with self._db.connection() as connection:
                row = await connection.fetchrow(f"{_QUESTION} WHERE q.id = $1", question_id)
        return None if row is None else self._known(row)

    async def questions(
        self,
        principal: str | None,
        after: int,
        limit: int,
        visible: Callable[[KnownQuestion], bool],
    ) -> tuple[Sequence[KnownQuestion], int | None]:
        """Return a page of open questions, and the number after which the next one begins."""
        found: list[KnownQuestion] = []
        size = 0
        with refusals():
            while True:
                async with self._db.connection() as connection:
                    rows = await connection.fetch(
                        f"{_QUESTION} WHERE q.status = 'open' AND q.number > $1"
                        " AND ($2::text IS NULL OR q.principal = $2)"
                        " AND q.expires_at > clock_timestamp() ORDER BY q.number LIMIT $3",
                        after,
                        principal,
                        limit + 1,
                    )
                for row in rows:
                    known = self._known(row)
                    if visible(known):
                        if len(found) == limit or size > _PAGE_BYTES:
                            return found, found[-1].state.number
                        found.append(known)
                        size += known.state.size
                    after = known.state.number
                if len(rows) <= limit:
                    return found, None

    async def settle(
        self, question_id: str, value: bytes, by: str, client: str, key: str | None
    ) -> None:
        """Answer a question, if it is open and no agent waits for it."""
        with refusals():
            async with self._db.connection() as connection:
                await connection.execute(
                    "SELECT settle_question($1, $2, $3, $4, $5)",
                    question_id,
                    value,
                    by,
                    client,
                    key,
                )
        self.heard()
        self._tell([self.CHANGED])

    async def offer_answer(self, answer: OfferedAnswer) -> bool:
        """Leave an answer for the replica that decides; False if too many wait for it."""
        with refusals():
            async with self._db.connection() as connection:
                offered: bool = await connection.fetchval(
                    "SELECT offer_answer($1, $2, $3, $4, $5, $6, $7, $8)",
                    answer.id,
                    answer.question_id,
                    answer.job_id,
                    answer.by,
                    answer.client,
                    answer.key,
                    answer.value,
                    _MOST_OFFERS,
                )
        self._tell([self.OFFERED])
        return offered

    async def answer_refused(self, answer: OfferedAnswer) -> str | None:
        """Return the refusal of an answer whose question stays open."""
        with refusals():
            async with self._db.connection() as connection:
                refusal: str | None = await connection.fetchval(
                    "SELECT refusal FROM answers WHERE id = $1", answer.id
                )
        return refusal

    async def refuse_answer(self, answer: OfferedAnswer, refusal: str) -> None:
        """Refuse an answer; its question stays open."""
        with refusals():
            async with self._db.connection() as connection:
                await connection.execute(
                    "UPDATE answers SET refusal = $2 WHERE id = $1", answer.id, refusal
                )
        self._tell([answer.job_id])

    async def drop_answer(self, answer: OfferedAnswer) -> None:
        """Take an answer back."""
        with refusals():
            async with self._db.connection() as connection:
                await connection.execute("DELETE FROM answers WHERE id = $1", answer.id)

    async def supports(self, principal: str, feature: str) -> bool:
        """Whether any session of a principal has negotiated a feature."""
        with refusals():
            async with self._db.connection() as connection:
                rows = await connection.fetch(
                    "SELECT state FROM sessions WHERE principal = $1"
                    " AND (expires_at IS NULL OR expires_at > clock_timestamp())",
                    principal,
                )
        return any(feature in decode_session(row["state"]).features for row in rows)

    # -------------------------------------------------------------------------- messages

    async def offer_message(self, message: OfferedMessage, most: int) -> StoredMessage:
        """Leave a message for the replica that runs its job; return what is known of it."""
        with refusals():
            async with self._db.connection() as connection:
                row = await connection.fetchrow(
                    "SELECT * FROM offer_message($1, $2, $3, $4, $5)",
                    message.job_id,
                    message.message_id,
                    message.fingerprint,
                    encoded((message.mode, message.by, message.client, message.value)),
                    most,
                )
        if row["state"] == "offered":
            self._tell([self.OFFERED])
        return StoredMessage(row["state"], row["print"], row["refusal"])

    async def message(self, message: OfferedMessage) -> StoredMessage:
        """Return what is known of a message; ``ended`` if its job has ended without taking it."""
        with refusals():
            async with self._db.connection() as connection:
                row = await connection.fetchrow(
                    "SELECT m.state, m.print, m.refusal, j.ended_at IS NOT NULL AS ended"
                    " FROM messages AS m JOIN jobs AS j ON j.id = m.job_id"
                    " WHERE m.job_id = $1 AND m.message_id = $2",
                    message.job_id,
                    message.message_id,
                )
        if row is None or (row["ended"] and row["state"] == "offered"):
            return StoredMessage("ended", message.fingerprint)
        return StoredMessage(row["state"], row["print"], row["refusal"])

    async def refuse_message(self, message: OfferedMessage, refusal: str) -> None:
        """Refuse a message that was offered."""
        with refusals():
            async with self._db.connection() as connection:
                await connection.execute(
                    "UPDATE messages SET state = 'refused', offer = NULL, refusal = $3"
                    " WHERE job_id = $1 AND message_id = $2 AND state = 'offered'",
                    message.job_id,
                    message.message_id,
                    refusal,
                )
        self._tell([message.job_id])

    async def drop_message(self, message: OfferedMessage) -> None:
        """Take a message back that was not taken in."""
        with refusals():
            async with self._db.connection() as connection:
                await connection.execute(
                    "DELETE FROM messages WHERE job_id = $1 AND message_id = $2"
                    " AND state IN ('offered', 'refused')",
                    message.job_id,
                    message.message_id,
                )


def _answer(row: Any) -> OfferedAnswer:
    names_ = ("id", "question_id", "job_id", "by", "client", "key", "value")
    return OfferedAnswer(*(row[name] for name in names_))


def _message(row: Any) -> OfferedMessage:
    mode, by, client, value = _decode_offer(row["offer"])
    return OfferedMessage(row["job_id"], row["message_id"], mode, by, client, value, row["print"])


class DialogueBatch:
    """The questions and messages among entries, as the columns that ``write_dialogue`` takes.

    Args:
        entries: the entries, in order.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._questions: dict[str, QuestionState] = {}
        self._messages: dict[tuple[str, str], MessageState] = {}
        for entry in entries:
            if isinstance(entry, QuestionState):
                self._questions[entry.id] = entry
            elif isinstance(entry, MessageState):
                self._messages[entry.job_id, entry.message_id] = entry

    def __bool__(self) -> bool:
        return bool(self._questions or self._messages)

    @property
    def changes_questions(self) -> bool:
        """Whether questions are opened or closed."""
        return bool(self._questions)

    async def write(self, connection: Any, replica: str) -> None:
        """Store them, in the transaction that stores their events."""
        questions, messages = list(self._questions.values()), list(self._messages.values())
        await connection.execute(
            "SELECT write_dialogue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            replica,
            [each.id for each in questions],
            [each.state for each in questions],
            [each.paused for each in questions],
            [each.value for each in questions],
            [each.by for each in questions],
            [each.client for each in questions],
            [each.answer_key for each in questions],
            [parse_time(each.closed_at) for each in questions],
            [each.job_id for each in messages],
            [each.message_id for each in messages],
            [each.state for each in messages],
            [each.fingerprint for each in messages],
        )
