"""A receiver of webhooks: verifies each call, and takes it once. A client answers the question."""

import asyncio
from typing import Any

from aiohttp import web
from standardwebhooks.webhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError

from arcp_client import Client, JobContext, Runtime
from arcp_client.runtime import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # your own one, from the environment


def receiver(secret: str, calls: asyncio.Queue[dict[str, Any]]) -> web.Application:
    verifier = Verifier(secret)
    seen: set[str] = set()  # in a table of your database

    async def hook(request: web.Request) -> web.Response:
        try:
            call = verifier.verify(await request.read(), dict(request.headers))
        except WebhookVerificationError:
            return web.Response(status=401)
        if request.headers["webhook-id"] not in seen:  # else it is a repeated call
            seen.add(request.headers["webhook-id"])
            calls.put_nowait(call)
        return web.Response(status=204)

    app = web.Application(client_max_size=64 * 1024)
    app.router.add_post("/hook", hook)
    return app


async def main() -> None:
    calls: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    runner = web.AppRunner(receiver(SECRET, calls))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"

    async with Runtime(webhooks=[Webhook(url, secret=SECRET)]) as runtime:

        @runtime.agent("deployer")
        async def deployer(input: Any, job: JobContext) -> str:
            return str(await job.ask("Deploy 1.4?", options=["yes", "no"]))

        async with Client(runtime) as client:
            await client.submit("deployer")
            for _ in range(3):
                call = await calls.get()
                print(call["type"], call["data"]["status"], sorted(call["data"]))
                if call["type"] == "question.opened":
                    data = call["data"]
                    await client.answer(data["job_id"], data["question_id"], "yes")
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
