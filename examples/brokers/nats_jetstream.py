"""A JetStream consumer of NATS: a message is acknowledged when it is handled."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence

import nats
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig

from arcp_client.rx import AckedSource, concat_map_async

CAP = 64


async def messages(subscription: JetStreamContext.PullSubscription) -> AsyncIterator[Msg]:
    while True:
        try:
            batch = await subscription.fetch(16, timeout=0.5)
        except nats.errors.TimeoutError:
            continue
        for message in batch:
            yield message


async def acknowledge(handled: Sequence[Msg]) -> None:
    for message in handled:
        await message.ack_sync()  # returns when the server has it


async def work(stream: JetStreamContext, *, fails_at: str = "") -> None:
    async def handle(message: Msg) -> None:
        number = message.data.decode()
        if number == fails_at:
            raise OSError(f"the disk is full at {number}")
        print("handled", number)
        if number == "6":
            finished.set()

    def stopped(error: Exception) -> None:
        print("stopped:", error)
        finished.set()

    finished = asyncio.Event()
    # What is not acknowledged after ack_wait seconds is delivered again.
    config = ConsumerConfig(ack_wait=1, max_ack_pending=CAP)
    subscription = await stream.pull_subscribe("orders.*", durable="billing", config=config)
    source = AckedSource(messages(subscription), acknowledge, cap=CAP)
    source.observable().pipe(concat_map_async(handle, on_error="raise")).subscribe(on_error=stopped)
    await finished.wait()
    await source.aclose()


async def main(url: str) -> None:
    async with await nats.connect(url) as connection:
        stream = connection.jetstream()
        await stream.add_stream(name="orders", subjects=["orders.*"])
        for number in range(1, 7):
            await stream.publish("orders.new", str(number).encode())
        await work(stream, fails_at="3")
        await work(stream)
        left = await stream.consumer_info("orders", "billing")
        print("not acknowledged:", left.num_ack_pending)


asyncio.run(main(sys.argv[1]))
