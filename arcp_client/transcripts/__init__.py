"""Writes jobs and events to files of JSON lines, without secrets, and reads such files.

::

    with Writer("session.jsonl", header(client.session), scrubber=Scrubber([token])) as writer:
        recording = Recording(writer)
        recording.began(job)
        async for event in job:
            recording.event(event)
        recording.ended(job)

    with read("session.jsonl") as reader:
        for line in reader:
            match line:
                case EventLine(at=at, event=events.Progress(current=n)):
                    print(at, n)

The page "Transcripts" of the documentation describes the format.
"""

from __future__ import annotations

from arcp_client._scrubbing import MASK, Scrubber
from arcp_client.transcripts.lines import (
    SCHEMA,
    EndLine,
    EventLine,
    Header,
    JobLine,
    Line,
    OtherLine,
    OutcomeLine,
    encode,
    entry,
    header,
    job,
    outcome,
)
from arcp_client.transcripts.reading import MAX_LINE, Reader, read
from arcp_client.transcripts.writing import Recording, Writer, write

__all__ = [
    "MASK",
    "MAX_LINE",
    "SCHEMA",
    "EndLine",
    "EventLine",
    "Header",
    "JobLine",
    "Line",
    "OtherLine",
    "OutcomeLine",
    "Reader",
    "Recording",
    "Scrubber",
    "Writer",
    "encode",
    "entry",
    "header",
    "job",
    "outcome",
    "read",
    "write",
]
