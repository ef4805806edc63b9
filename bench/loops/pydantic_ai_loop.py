"""pydantic-ai on the same work (not durable). `pydantic_ai_loop.py PORT STEPS RUNS AT_ONCE`."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import measured
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits


async def main(port: int, steps: int, runs: int, at_once: int) -> None:
    provider = OpenAIProvider(base_url=f"http://127.0.0.1:{port}/v1", api_key="x")
    agent = Agent(OpenAIChatModel(f"steps-{steps}", provider=provider), system_prompt="You add.")

    @agent.tool_plain
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    limit = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with limit:
            await agent.run("go", usage_limits=UsageLimits(request_limit=None))

    await one()
    with measured(runs * (steps + 1)):
        await asyncio.gather(*(one() for _ in range(runs)))


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:5])))
