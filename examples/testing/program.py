"""The program under test: it runs a report, and shows what happens."""

from arcp_client import Client, errors, events


async def report(client: Client, title: str, *, patience: float | None = None) -> list[str]:
    lines = []
    try:
        job = await client.submit("report", {"title": title}, timeout=patience)
        async for event in job.events(events.Log, events.Progress):
            match event:
                case events.Log(message=message):
                    lines.append(message)
                case events.Progress(current=current, total=total):
                    lines.append(f"{current} of {total}")
                case events.Gap():
                    lines.append("(some lines are missing)")
        lines.append(str((await job.result()).value))
    except errors.RequestTimeout:
        lines.append("the runtime does not answer")
    except errors.PermissionDenied:
        lines.append("you may not do this")
    except errors.JobFailed as error:
        lines.append(f"failed: {error.message}")
    return lines
