"""A topic of Kafka: offsets are committed up to where all records are handled."""

import asyncio
import sys
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from arcp_client.rx import AckedSource, concat_map_async_by

TOPIC, GROUP = "orders", "billing"


async def work(server: str, *, fails_at: str = "") -> None:
    async def handle(record: ConsumerRecord) -> None:
        number = record.value.decode()
        if number == fails_at:
            raise OSError(f"the disk is full at {number}")
        print(f"handled {number} of partition {record.partition}")
        if number == "6":
            finished.set()

    async def commit(handled: Sequence[ConsumerRecord]) -> None:
        # In order, so the last record of a partition covers the earlier ones.
        await consumer.commit(
            {TopicPartition(each.topic, each.partition): each.offset + 1 for each in handled}
        )

    def stopped(error: Exception) -> None:
        print("stopped:", error)
        finished.set()

    finished = asyncio.Event()
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=server,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with consumer:
        source = AckedSource(consumer, commit, cap=64)
        by_partition = concat_map_async_by(lambda each: each.partition, handle, on_error="raise")
        source.observable().pipe(by_partition).subscribe(on_error=stopped)
        await finished.wait()
        await source.aclose()
        print("committed:", await consumer.committed(TopicPartition(TOPIC, 0)))


async def main(server: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=server) as producer:
        for number in range(1, 7):
            await producer.send_and_wait(TOPIC, str(number).encode(), partition=0)
    await work(server, fails_at="3")
    await work(server)


asyncio.run(main(sys.argv[1]))
