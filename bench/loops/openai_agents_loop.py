"""openai-agents on the same work (not durable). `openai_agents_loop.py PORT STEPS RUNS AT_ONCE`."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import measured
from openai import AsyncOpenAI

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled


@function_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main(port: int, steps: int, runs: int, at_once: int) -> None:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x")
    model = OpenAIChatCompletionsModel(model=f"steps-{steps}", openai_client=client)
    agent = Agent(name="calc", instructions="You add.", tools=[add], model=model)
    limit = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with limit:
            await Runner.run(agent, "go", max_turns=steps + 5)

    await one()
    with measured(runs * (steps + 1)):
        await asyncio.gather(*(one() for _ in range(runs)))


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:5])))
