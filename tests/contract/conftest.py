"""The stores under contract: a further one joins with a line in `STORES`."""

from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest

from retinue.ports.clock import Clock
from retinue.ports.memory import Grants, Memory
from retinue.ports.records import AgentRecords
from retinue.ports.store import Store
from retinue.storage.sqlite import open_database


class Opened(Protocol):
    @property
    def store(self) -> Store: ...
    @property
    def records(self) -> AgentRecords: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def grants(self) -> Grants: ...
    async def close(self) -> None: ...


class ManualClock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds

    def new_id(self) -> str:
        raise NotImplementedError

    def random(self) -> float:
        return 0.5


async def _sqlite(folder: Path, clock: Clock) -> Opened:
    return await open_database(folder / "retinue.db", clock=clock)


Open = Callable[[Path, Clock], Coroutine[Any, Any, Opened]]

STORES: dict[str, Open] = {"sqlite": _sqlite}


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def open_store(kind: str) -> Open:
    return STORES[kind]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def set_time(clock: ManualClock) -> Callable[[float], None]:
    """The stores' clock stands at 1000 until it is set."""

    def set_to(time: float) -> None:
        clock.time = time

    return set_to


@pytest.fixture
async def opened(open_store: Open, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Opened]:
    database = await open_store(tmp_path, clock)
    yield database
    await database.close()


@pytest.fixture
def store(opened: Opened) -> Store:
    return opened.store


@pytest.fixture
async def other(opened: Opened, open_store: Open, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Store]:
    """A second store on the same data, as another process has it."""
    database = await open_store(tmp_path, clock)
    yield database.store
    await database.close()


@pytest.fixture
def records(opened: Opened) -> AgentRecords:
    return opened.records


@pytest.fixture
def memory(opened: Opened) -> Memory:
    return opened.memory


@pytest.fixture
def grants(opened: Opened) -> Grants:
    return opened.grants
