"""One parent and many children of ours, durable. `fan_ours.py PORT CHILDREN...`."""

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import fanned, spent

from retinue import Retinue, define_agent, tool
from retinue.app.settings import Settings
from retinue.runtime.deps import Tuning


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main(port: int, sizes: list[int]) -> None:
    worker = define_agent(
        name="worker", description="Works.", prompt="You add.", tools=[add], model="openai/steps-1",
        completion="response", use_default_prefix=False,
    )  # fmt: skip
    leads = [
        define_agent(
            name=f"lead-{size}", description="Leads.", prompt="You lead.", tools=[], model=f"openai/fan-{size}",
            allowed_agents=["worker"], can_spawn_subagents=True, use_default_prefix=False,
        )
        for size in sizes
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "x"}
        async with Retinue(
            agents=[worker, *leads],
            data_dir=home,
            settings=Settings(home=home, root=home),
            environ=environ,
            tuning=Tuning(titles=False, children_at_once=max(sizes)),
        ) as app:
            await app.run(f"lead-{sizes[0]}", "go")
            for size in sizes:
                before = spent()
                completion = await app.run(f"lead-{size}", "go")
                fanned(size, before)
                assert [c.status for c in completion.calls] == ["ok"] * size, completion


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), [int(size) for size in sys.argv[2:]]))
