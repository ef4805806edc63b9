"""The real clock."""

import asyncio
import random
import time
from uuid import uuid4


class SystemClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def new_id(self) -> str:
        return str(uuid4())

    def random(self) -> float:
        return random.random()
