"""What is in flight ends in time, or at once."""

import asyncio

import pytest

from retinue.runtime.flight import Aborted, Flight


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def test_what_takes_too_long_ends_with_a_timeout_and_the_task_goes_on() -> None:
    flight = Flight()
    for _ in range(2):
        with pytest.raises(TimeoutError), flight.bounded(0.01):
            await forever()
    assert not flight.on
    await asyncio.sleep(0)


async def test_a_shorter_bound_after_a_longer_one_is_kept() -> None:
    flight = Flight()
    with flight.bounded(60):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        with pytest.raises(TimeoutError), flight.bounded(0.01):
            await forever()
    flight.close()


async def test_a_longer_bound_after_a_shorter_one_is_not_cut_short() -> None:
    flight = Flight()
    with flight.bounded(0.01):
        await asyncio.sleep(0)
    with flight.bounded(60):
        await asyncio.sleep(0.03)
    flight.close()


@pytest.mark.spec("RUN-12")
async def test_an_abort_ends_what_is_in_flight_and_keeps_the_next_from_beginning() -> None:
    flight = Flight()
    asyncio.get_running_loop().call_soon(flight.abort)
    with pytest.raises(Aborted), flight.bounded(60):
        await forever()
    with pytest.raises(Aborted), flight.bounded(60):
        raise AssertionError("it began")
    flight.abort_asked = False
    with flight.bounded(60):
        await asyncio.sleep(0)
    flight.close()


async def test_an_abort_from_within_that_comes_too_late_harms_nobody() -> None:
    flight = Flight()
    with flight.bounded(60):
        flight.abort()
    await asyncio.sleep(0)
    flight.close()


async def test_who_cancels_the_task_is_not_taken_for_the_bound() -> None:
    flight = Flight()

    async def work() -> None:
        with flight.bounded(60):
            await forever()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    flight.abort()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    flight.close()


@pytest.mark.spec("RUN-08")
async def test_the_bound_stands_still_until_the_last_of_those_who_wait_for_a_person_is_done() -> None:
    flight = Flight()
    first, second = asyncio.Event(), asyncio.Event()

    async def ask(answered: asyncio.Event) -> None:
        with flight.paused():
            await answered.wait()

    loop = asyncio.get_running_loop()
    loop.call_later(0.01, first.set)
    loop.call_later(0.5, second.set)
    with flight.bounded(0.3):
        await asyncio.gather(ask(first), ask(second))
    with pytest.raises(TimeoutError), flight.bounded(0.05):
        await ask(first)
        await forever()
