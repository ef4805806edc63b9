"""The real clock."""

import asyncio
import random
import time
from uuid import uuid4


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def new_id(self) -> str:
        return str(uuid4())

    def random(self) -> float:
        return random.random()
