"""pydantic-ai's agent whose tool runs another agent (not durable). `fan_pydantic_ai.py PORT CHILDREN...`."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import fanned, spent
from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

UNLIMITED = UsageLimits(request_limit=None)


async def main(port: int, sizes: list[int]) -> None:
    provider = OpenAIProvider(base_url=f"http://127.0.0.1:{port}/v1", api_key="x")
    inner = Agent(OpenAIChatModel("steps-1", provider=provider), system_prompt="You add.")

    @inner.tool_plain
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def fan(size: int) -> int:
        lead = Agent(OpenAIChatModel(f"fan-{size}", provider=provider), system_prompt="You lead.")

        @lead.tool_plain
        async def worker(query: str) -> str:
            """Work."""
            return (await inner.run(query, usage_limits=UNLIMITED)).output

        answer = await lead.run("go", usage_limits=UNLIMITED)
        return sum(isinstance(part, ToolReturnPart) for message in answer.all_messages() for part in message.parts)

    await fan(sizes[0])
    for size in sizes:
        before = spent()
        done = await fan(size)
        fanned(size, before)
        assert done == size


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), [int(size) for size in sys.argv[2:]]))
