"""Django: POST /jobs starts a job, GET /jobs/{id} streams it to browsers that miss nothing."""

import os

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.urls import path

from arcp_client import Client
from arcp_client.web import SSE_HEADERS

client = Client(os.environ["ARCP_URL"])


async def submit(request: HttpRequest) -> JsonResponse:
    await client.connect()  # Django has no lifespan; connected once, by the first request
    job = await client.submit(request.GET["agent"])
    job.sse()  # from now on, the client keeps the events of the job for browsers
    return JsonResponse(job.id, safe=False)


async def follow(request: HttpRequest, job_id: str) -> StreamingHttpResponse:
    await client.connect()
    frames = await client.sse(job_id, last_event_id=request.headers.get("Last-Event-ID"))
    return StreamingHttpResponse(frames, headers=SSE_HEADERS)


urlpatterns = [path("jobs", submit), path("jobs/<job_id>", follow)]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"])
app = get_asgi_application()
