"""Servers on the test's own folder."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from retinue.app.settings import ServeSettings
from retinue.models.script import Say
from support.agents import add, agent
from support.serving import Api, serving

HELPER = agent("helper", "request_user_input")
CALC = agent("calc", "add")


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    """One that answers `done`; limits are out of the way, streams last a second."""
    settings = ServeSettings(rate=10_000, burst=10_000, stream_seconds=30.0, heartbeat=5.0)
    async with serving(tmp_path, lambda _: Say(text="done"), agents=[HELPER, CALC], tools=[add], serve=settings) as api:
        yield api
