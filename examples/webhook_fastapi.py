"""A receiver of webhooks as a route of FastAPI; the raw body is verified, not the parsed one."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # your own one, from the environment

app = FastAPI()
seen: set[str] = set()  # in a table of your database


async def store(call: dict[str, Any]) -> None:
    """Insert the call into a table; another task processes the rows."""
    print(call["type"], "of", call["data"]["job_id"])


@app.post("/hook", status_code=204)
async def hook(request: Request) -> Response:
    try:
        call = Verifier(SECRET).verify(await request.body(), dict(request.headers))
    except WebhookVerificationError:
        return Response(status_code=401)
    if request.headers["webhook-id"] not in seen:
        await store(call)
        seen.add(request.headers["webhook-id"])  # only now: if `store` fails, the call is repeated
    return Response(status_code=204)


async def main() -> None:
    """Make the same call twice, as a runtime may do, and once with a wrong secret."""
    data = {"job_id": "job_1", "event_seq": 7, "status": "success"}
    body = json.dumps({"type": "job.ended", "timestamp": "2026-11-29T08:00:00Z", "data": data})
    now = datetime.now(UTC)
    transport = httpx.ASGITransport(app)  # in place of a server
    async with httpx.AsyncClient(transport=transport, base_url="http://receiver") as caller:
        for secret in (SECRET, SECRET, "whsec_" + "A" * 32):
            headers = {
                "webhook-id": "job_1_end",
                "webhook-timestamp": str(int(now.timestamp())),
                "webhook-signature": Verifier(secret).sign("job_1_end", now, body),
            }
            print((await caller.post("/hook", content=body, headers=headers)).status_code)


if __name__ == "__main__":
    asyncio.run(main())
