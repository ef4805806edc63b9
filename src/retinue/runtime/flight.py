"""What is in flight for a thread: bounded by time, and ended at once when somebody says stop.

One timer serves every step of a thread at work: it is moved when it fires and not
when a step begins, because setting and dropping one for each costs more than the step's
own events do.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType


class Aborted(Exception):
    """Somebody interrupted, cancelled or terminated while work was in flight."""


class Flight:
    """`with flight.bounded(seconds)`: one at a time, in the task that drives the thread."""

    def __init__(self) -> None:
        self.abort_asked = False
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._until: float | None = None
        self._left = 0.0
        self._pauses = 0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    @property
    def on(self) -> bool:
        """Something is in flight, so its task may be cancelled at any await."""
        return self._task is not None

    def bounded(self, seconds: float) -> "Flight":
        """Bound what happens inside the `with`.

        Raises:
            TimeoutError: the time is up.
            Aborted: `abort` was called.
        """
        self._until = self._loop.time() + seconds
        return self

    def abort(self) -> None:
        """End what is in flight; nothing else begins until the inbox was read."""
        self.abort_asked = True
        if self._task is not None:
            # Not at once: a task that runs is cancelled at its next await, which may be after the `with`.
            self._loop.call_soon(self._end, self._task)

    @contextmanager
    def paused(self) -> Generator[None]:
        """The bound stands still: what is in flight waits for a person."""
        if self._until is not None:
            self._left, self._until = self._until - self._loop.time(), None
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._task is not None and not self._pauses:
                self._until = self._loop.time() + self._left
                self._watch()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def __enter__(self) -> None:
        if self.abort_asked:
            raise Aborted
        self._task = task = asyncio.current_task(self._loop)
        assert task is not None, "only a task can be ended from outside"
        self._cancelling, self._ended = task.cancelling(), False
        self._watch()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task, self._until = self._task, None, None
        if not self._ended or task is None:
            return
        cancelled_by_others = task.uncancel() > self._cancelling
        if kind is asyncio.CancelledError and not cancelled_by_others:
            raise Aborted if self.abort_asked else TimeoutError from error

    def _watch(self) -> None:
        """See to it that the timer fires no later than the bound."""
        until, timer = self._until, self._timer
        if until is None or (timer is not None and timer.when() <= until):
            return
        if timer is not None:
            timer.cancel()
        self._timer = self._loop.call_at(until, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._task is None or self._until is None:
            return
        if self._loop.time() < self._until:
            self._watch()
        else:
            self._end(self._task)

    def _end(self, task: "asyncio.Task[object]") -> None:
        if not self._ended and task is self._task:
            self._ended = True
            task.cancel()
