"""A page for a phone: it lists what agents ask, and each answer is a button."""

import argparse
import asyncio
import html
import json
import secrets
from typing import Any

import aiohttp
from aiohttp import web

from arcp_client import Client, JobContext, OpenQuestion, Runtime, errors

runtime = Runtime()


@runtime.agent("deployer")
async def deployer(input: Any, job: JobContext) -> str:
    return str(await job.ask("Deploy 1.4?", options=["yes", "no"], default="no", timeout=3600))


def form(question: OpenQuestion) -> str:
    """The question and a button for each option."""
    hidden = "".join(
        f'<input type="hidden" name="{name}" value="{html.escape(value)}">'
        for name, value in (("job", question.job_id), ("question", question.question_id))
    )
    buttons = "".join(
        f'<button name="value" value="{html.escape(json.dumps(option.value))}">'
        f"{html.escape(option.label)}</button> "
        for option in question.options
    )
    return f'<form method="post"><p>{html.escape(question.text)}</p>{hidden}{buttons}</form>'


def approval_page(client: Client, secret: str) -> web.Application:
    """The page, below a path that only its user knows."""

    async def show(request: web.Request) -> web.Response:
        forms = [form(question) async for question in client.questions() if question.may_answer]
        body = "".join(forms) or "<p>No agent asks anything.</p>"
        page = f'<meta name="viewport" content="width=device-width"><h1>Inbox</h1>{body}'
        headers = {
            "Referrer-Policy": "no-referrer",
            "Content-Security-Policy": "default-src 'none'",
        }
        return web.Response(text=page, content_type="text/html", headers=headers)

    async def take(request: web.Request) -> web.Response:
        sent = await request.post()
        try:
            value = json.loads(str(sent["value"]))
            taken = await client.answer(str(sent["job"]), str(sent["question"]), value)
        except errors.QuestionAnswered as first:
            return web.Response(text=f"{first.by} was first: {first.value}")
        except (KeyError, ValueError, errors.RequestError) as error:
            return web.Response(text=f"not taken: {error}", status=400)
        return web.Response(text=f"the agent continues with {taken.value}")

    app = web.Application()
    app.router.add_get(f"/{secret}/", show)
    app.router.add_post(f"/{secret}/", take)
    return app


async def main(target: Runtime | str) -> None:
    secret = secrets.token_urlsafe(16)
    async with Client(target) as client:
        runner = web.AppRunner(approval_page(client, secret))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        url = f"http://{host}:{port}/{secret}/"  # what the phone opens, behind TLS

        job = await client.submit("deployer")
        async with aiohttp.ClientSession() as phone:
            async for questions in client.inbox():
                if questions:
                    question = questions[0]
                    break
            page = await (await phone.get(url)).text()
            print(page.count("<button"), "buttons")
            answer = {"job": job.id, "question": question.question_id, "value": '"yes"'}
            for _ in range(2):
                reply = await phone.post(url, data=answer)
                print(await reply.text())
        print((await job.result()).value)
        await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
