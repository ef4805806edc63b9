"""Our loop on the same work. `ours.py PORT STEPS RUNS AT_ONCE [uvloop]`."""

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import measured

from retinue import Retinue, define_agent, tool
from retinue.app.settings import Settings
from retinue.runtime.deps import Tuning


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main(port: int, steps: int, runs: int, at_once: int) -> None:
    agent = define_agent(
        name="calc", description="Adds.", prompt="You add.", tools=[add], model=f"openai/steps-{steps}",
        max_steps=steps + 5, use_default_prefix=False,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "x"}
        tuning = Tuning(titles=False, repeated_calls=10**9)
        async with Retinue(
            agents=[agent], data_dir=home, settings=Settings(home=home, root=home), environ=environ, tuning=tuning
        ) as app:
            limit = asyncio.Semaphore(at_once)

            async def one() -> None:
                async with limit:
                    completion = await app.run("calc", "go")
                    assert completion.status == "SUCCESS", completion

            await one()
            with measured(runs * (steps + 1)):
                await asyncio.gather(*(one() for _ in range(runs)))


if __name__ == "__main__":
    if sys.argv[5:] == ["uvloop"]:
        import uvloop

        uvloop.run(main(*map(int, sys.argv[1:5])))
    else:
        asyncio.run(main(*map(int, sys.argv[1:5])))
