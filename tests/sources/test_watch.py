import asyncio
from pathlib import Path

import pytest

from retinue.sources.watch import changed_folders


@pytest.mark.spec("REG-11")
async def test_a_changed_file_tells_its_folder_within_a_second(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    told = changed_folders([one, two])
    waiting = asyncio.ensure_future(anext(told))
    try:
        async with asyncio.timeout(10):
            while not waiting.done():  # the watch may not stand yet when the first file is written
                (one / "x.md").write_text("x")
                await asyncio.wait([waiting], timeout=0.2)
        assert waiting.result() == {one}
    finally:
        waiting.cancel()
        await told.aclose()


@pytest.mark.spec("REG-11")
async def test_a_folder_that_is_made_later_is_noticed(tmp_path: Path) -> None:
    late = tmp_path / "late"
    told = changed_folders([late])
    waiting = asyncio.ensure_future(anext(told))
    try:
        await asyncio.sleep(0)
        late.mkdir()
        async with asyncio.timeout(10):
            assert await waiting == {late}
    finally:
        waiting.cancel()
        await told.aclose()
