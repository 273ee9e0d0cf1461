"""Asks the editor the open questions of a session, and sends its answers to the runtime.

The runtime accepts one answer. If a question is answered elsewhere, expires or is withdrawn, the
request to the editor is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from arcp_client.acp.errors import AgentRefused
from arcp_client.acp.serving.link import EditorLink
from arcp_client.acp.serving.transcript import QuestionAsked
from arcp_client.acp.serving.versions import Version1
from arcp_client.client import Client
from arcp_client.errors import (
    ArcpError,
    LinkLost,
    QuestionAnswered,
    QuestionClosed,
    RemoteProtocolError,
)

__all__ = ["Questions"]

_log = logging.getLogger("arcp_client.acp")

_NOTHING = object()
_DECLINE = "decline"


class Questions:
    """The open questions of one session.

    Args:
        client: sends the answers.
        link: the editor.
        session_id: the session.
        version: how a request looks in the editor's version of the protocol.
        forms: whether the editor can show forms.
    """

    def __init__(
        self,
        client: Client,
        link: EditorLink,
        session_id: str,
        version: Version1,
        *,
        forms: bool,
    ) -> None:
        self._version = version
        self._client = client
        self._link = link
        self._session_id = session_id
        self._forms = forms
        self._open: dict[str, QuestionAsked] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._live = False

    def ask_now(self) -> None:
        """Ask the editor all open questions, and from now on each new one."""
        self._live = True
        for question_id, asked in self._open.items():
            self._stop(question_id)
            self._start(asked)

    def add(self, asked: QuestionAsked) -> str | None:
        """Add an open question; return a text for the user if the editor cannot ask it."""
        self._open[asked.question.question_id] = asked
        if self._live:
            self._start(asked)
        if asked.question.options or self._forms:
            return None
        question = asked.question
        return (
            f"{question.text}\n\n`arcp-client answer {asked.job_id} {question.question_id} …`"
            " answers this question.\n"
        )

    def remove(self, question_id: str) -> None:
        """Take a question back from the editor."""
        self._open.pop(question_id, None)
        self._stop(question_id)

    def _start(self, asked: QuestionAsked) -> None:
        name = asked.question.question_id
        if asked.question.options or self._forms:
            self._asking[name] = self._link.owner.spawn(self._ask(asked), name="question")

    def _stop(self, question_id: str) -> None:
        task = self._asking.pop(question_id, None)
        if task is not None:
            task.cancel()  # which sends $/cancel_request

    async def _ask(self, asked: QuestionAsked) -> None:
        question = asked.question
        try:
            value = await (self._permission(asked) if question.options else self._form(asked))
            if value is not _NOTHING:
                await self._client.answer(
                    asked.job_id,
                    question.question_id,
                    value,
                    idempotency_key=f"acp:{question.question_id}",
                )
        except (QuestionAnswered, QuestionClosed) as error:
            _log.info("an answer of the editor came too late: %s", error)
        except LinkLost:
            pass  # the question stays open for the next editor
        except (AgentRefused, RemoteProtocolError) as error:
            _log.warning("the editor did not ask a question, which stays open: %s", error)
        except ArcpError as error:
            _log.error("an answer of the editor was not taken: %s", error)

    async def _permission(self, asked: QuestionAsked) -> Any:
        question, own = asked.question, asked.permission
        values = {str(n): choice.value for n, choice in enumerate(question.options)}
        if own is not None:
            options, call = own["options"], own["tool_call"]
            values = {str(choice.value): choice.value for choice in question.options}
        else:
            options = [
                {
                    "optionId": str(n),
                    "name": choice.label or str(choice.value),
                    "kind": "allow_once",
                }
                for n, choice in enumerate(question.options)
            ]
            call = {
                "toolCallId": question.question_id,
                "title": question.text,
                "kind": "other",
                "status": "pending",
            }
        subject = self._version.permission(call, question.text)
        given = {"sessionId": self._session_id, **subject, "options": options}
        answer = await self._link.call("session/request_permission", given)
        outcome = answer.get("outcome") if isinstance(answer, Mapping) else None
        chosen = outcome.get("optionId") if isinstance(outcome, Mapping) else None
        # Otherwise the editor cancelled the turn, which withdraws the question.
        return values.get(chosen, _NOTHING) if isinstance(chosen, str) else _NOTHING

    async def _form(self, asked: QuestionAsked) -> Any:
        question = asked.question
        schema, declining = question.schema, False
        if isinstance(schema, dict) and isinstance(parts := schema.get("anyOf"), list):
            declining = {"const": _DECLINE} in parts
            schema = parts[0] if declining else schema
        whole = isinstance(schema, dict) and schema.get("type") == "object"
        if not whole:
            schema = {"type": "object", "properties": {"answer": schema}, "required": ["answer"]}
        given = {
            "sessionId": self._session_id,
            "mode": "form",
            "message": question.text,
            "requestedSchema": schema,
        }
        answer = await self._link.call("elicitation/create", given)
        action = answer.get("action") if isinstance(answer, Mapping) else None
        content = answer.get("content") if isinstance(answer, Mapping) else None
        if action == "accept" and isinstance(content, Mapping):
            return dict(content) if whole else content.get("answer", _NOTHING)
        return _DECLINE if action == "decline" and declining else _NOTHING
