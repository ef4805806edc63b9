"""A server on the test's own folder."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from retinue.models.script import Say
from support.agents import agent
from support.serving import Api, serving


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with serving(tmp_path, lambda _: Say(text="done"), agents=[agent("helper")]) as api:
        yield api
