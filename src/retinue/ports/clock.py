"""Time, ids and randomness, passed in so that tests and replays can fix them."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Wall-clock seconds since the epoch: for what people read and for rows."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump: for leases and limits inside one process."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def new_id(self) -> str:
        """A fresh UUID in text form."""
        ...

    def random(self) -> float:
        """Uniform in [0, 1), for jitter."""
        ...
