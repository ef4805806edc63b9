"""Agno on the same work (not durable). `agno_loop.py PORT STEPS RUNS AT_ONCE`."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from agno.agent import Agent
from agno.models.openai import OpenAIChat
from measure import measured


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main(port: int, steps: int, runs: int, at_once: int) -> None:
    def agent() -> Agent:
        model = OpenAIChat(id=f"steps-{steps}", base_url=f"http://127.0.0.1:{port}/v1", api_key="x")
        return Agent(model=model, tools=[add], instructions="You add.", telemetry=False)

    limit = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with limit:
            await agent().arun("go")

    await one()
    with measured(runs * (steps + 1)):
        await asyncio.gather(*(one() for _ in range(runs)))


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:5])))
