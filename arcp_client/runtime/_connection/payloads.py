"""Reads the payloads of requests."""

from __future__ import annotations

from typing import TypeVar

from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.fields import Malformed
from arcp_client._wire.messages import Message
from arcp_client.errors import InvalidRequest
from arcp_client.runtime._sessions.session import ServerSession

__all__ = ["checked", "need", "of_job"]

M = TypeVar("M", bound=Message)


def need(session: ServerSession, feature: str) -> None:
    """Refuse a request of a session without a feature.

    Raises:
        InvalidRequest: the session has not negotiated the feature (§6.2).
    """
    if feature not in session.features:
        raise InvalidRequest(f"the feature {feature} was not negotiated")


def of_job(model: type[M], frame: ControlFrame) -> M:
    """Read a request about a job. Some clients name the job only in the envelope."""
    if "job_id" not in frame.payload and frame.job_id is not None:
        frame.payload["job_id"] = frame.job_id
    return checked(model, frame)


def checked(model: type[M], frame: ControlFrame) -> M:
    """Read a frame's payload as a message of the given type.

    Raises:
        InvalidRequest: the payload is invalid. The message names the field, but not its value.
    """
    try:
        return model.read(frame.payload)
    except Malformed as error:
        place = ".".join(error.place) or "payload"
        raise InvalidRequest(f"{frame.type}: {place[:120]}: {error.reason[:300]}") from None
