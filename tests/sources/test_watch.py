import asyncio
from pathlib import Path

import pytest

from retinue.sources.watch import changed_folders


@pytest.mark.spec("REG-11")
async def test_a_changed_file_tells_its_folder_and_no_other(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    told = changed_folders([one, two])
    try:
        async with asyncio.timeout(10):
            at_first = await anext(told)
            (one / "x.md").write_text("x")
            then = await anext(told)
    finally:
        await told.aclose()

    assert (at_first, then) == ({one, two}, {one})


@pytest.mark.spec("REG-11")
async def test_a_folder_that_is_made_later_is_noticed(tmp_path: Path) -> None:
    early, late = tmp_path / "early", tmp_path / "late"
    told = changed_folders([early, late])
    try:
        async with asyncio.timeout(10):
            early.mkdir()
            first = await anext(told)
            late.mkdir()
            second = await anext(told)
    finally:
        await told.aclose()

    assert (first, second) == ({early}, {late})
