"""Turns the state and the outcome of a job into the result of a tool call."""

from __future__ import annotations

import base64
import json
from typing import Any

from mcp import types

from arcp_client.errors import ArcpError, InvalidInput, JobError, JobFailed, RequestError
from arcp_client.job import JobHandle
from arcp_client.mcp._tools import JOB_CANCEL, JOB_RESULT
from arcp_client.models import Result

__all__ = ["failed", "finished", "refused", "status", "still_running"]


def finished(job: JobHandle, result: Result, *, offset: int, most: int) -> types.CallToolResult:
    """Answer with the result of a job that succeeded; its type is kept as structured content.

    Args:
        job: the job.
        result: its result.
        offset: where the answer begins, in characters of a text or bytes of a binary result.
        most: how many characters or bytes one answer has at most.
    """
    facts = _facts(job, "success")
    if result.summary is not None:
        facts["summary"] = result.summary
    value = result.value
    if isinstance(value, str | bytes):
        whole, value = len(value), value[offset : offset + most]
        if offset or len(value) < whole:
            facts["size"] = whole
            if offset + len(value) < whole:
                facts["next_offset"] = offset + len(value)
    content: list[types.ContentBlock]
    if isinstance(value, bytes):
        data = base64.b64encode(value).decode("ascii")
        facts |= {"result": data, "encoding": "base64"}
        blob = types.BlobResourceContents(
            uri=f"arcp-job:{job.id}/result", mime_type="application/octet-stream", blob=data
        )
        content = [types.EmbeddedResource(type="resource", resource=blob)]
    else:
        facts["result"] = value
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        content = [_text(shown)]
    if "next_offset" in facts:
        content.append(
            _text(
                f"The result has {facts['size']} {'bytes' if 'encoding' in facts else 'characters'}"
                f" and continues: call {JOB_RESULT} with job_id {job.id} and offset"
                f" {facts['next_offset']}."
            )
        )
    return types.CallToolResult(content=content, structured_content=facts)


def failed(job: JobHandle, error: JobError) -> types.CallToolResult:
    """Answer with the reason why a job did not succeed."""
    facts = _facts(job, job.status)
    if isinstance(error, JobFailed):
        facts |= {"code": error.code, "message": error.message, "retryable": error.retryable}
    else:
        facts |= {"code": type(error).__name__, "message": str(error)}
    facts["remedy"] = error.remedy
    return types.CallToolResult(
        content=[_text(f"The job {job.id} did not succeed: {error}")],
        structured_content=facts,
        is_error=True,
    )


def refused(error: ArcpError, job_id: str | None = None) -> types.CallToolResult:
    """Answer a call that failed before it concerned the end of a job."""
    code = error.code if isinstance(error, RequestError) else type(error).__name__
    facts: dict[str, Any] = {"code": code, "message": str(error), "remedy": error.remedy}
    if job_id is not None:
        facts["job_id"] = job_id
    if isinstance(error, RequestError):
        facts["retryable"] = error.retryable
    lines = [str(error)]
    if isinstance(error, InvalidInput):
        facts["fields"] = error.fields
        lines += [f"{field or 'the input'}: {text}" for field, text in error.fields.items()]
    return types.CallToolResult(
        content=[_text("\n".join(lines))], structured_content=facts, is_error=True
    )


def still_running(job: JobHandle) -> types.CallToolResult:
    """Answer a call that the job outlives, with the job's id."""
    return types.CallToolResult(
        content=[
            _text(
                f"The job {job.id} has not ended yet; it continues. Call {JOB_RESULT} with this"
                f" job_id to wait for its result, or {JOB_CANCEL} to end it."
            )
        ],
        structured_content=_facts(job, job.status or "running"),
    )


def status(job: JobHandle) -> types.CallToolResult:
    """Answer with the state of a job."""
    facts = _facts(job, job.status)
    text = f"{job.id}: {job.status}"
    if (seen := job.progress) is not None:
        shown = {
            "current": seen.current,
            "total": seen.total,
            "units": seen.units,
            "message": seen.message,
        }
        facts["progress"] = {name: each for name, each in shown.items() if each is not None}
        total = "" if seen.total is None else f" of {seen.total}"
        text += f", {seen.current}{total} {seen.units or ''}".rstrip()
    return types.CallToolResult(content=[_text(text)], structured_content=facts)


def _facts(job: JobHandle, state: str) -> dict[str, Any]:
    facts = {"job_id": job.id, "status": state}
    return {**facts, "agent": job.agent} if job.agent else facts


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
