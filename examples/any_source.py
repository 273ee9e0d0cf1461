"""Any async iterable: handle its items in order, and acknowledge them when they are handled."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from arcp_client.rx import AckedSource, concat_map_async_by

Order = tuple[int, str]  # a number and a customer


class Ledger:
    """A file, a table or a queue: it gives what was not acknowledged, and records what was."""

    def __init__(self) -> None:
        self.orders = [(number, "ann" if number % 3 else "bob") for number in range(1, 7)]
        self.mark = 0

    async def __aiter__(self) -> AsyncIterator[Order]:
        for order in self.orders[self.mark :]:
            yield order

    async def acknowledge(self, orders: Sequence[Order]) -> None:
        self.mark = orders[-1][0]  # in order, so the last one covers all before it


async def main() -> None:
    ledger = Ledger()
    fifth = asyncio.Event()

    async def handle(order: Order) -> None:
        number, customer = order
        await asyncio.sleep(0.01)  # a database, say
        if number == 3:
            await fifth.wait()  # it takes long
        print(f"handled {number} of {customer}, acknowledged up to {ledger.mark}")
        if number == 5:
            fifth.set()

    source = AckedSource(ledger, ledger.acknowledge, cap=100)
    source.observable().pipe(concat_map_async_by(lambda order: order[1], handle)).subscribe()
    await source.join()
    print(source.stats())


asyncio.run(main())
