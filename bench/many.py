"""Many threads active at once in one process, on a mock that takes two seconds to answer. `many.py [THREADS]`."""

import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from run import mock

from retinue import Retinue, define_agent
from retinue.app.settings import Settings
from retinue.runtime.deps import Tuning
from retinue.schema.completion import Completion

LATENCY = 2.0


async def main(threads: int) -> dict[str, float]:
    agent = define_agent(
        name="waiter",
        description="Waits.",
        prompt="You wait.",
        tools=[],
        model="openai/steps-0",
        use_default_prefix=False,
    )
    with tempfile.TemporaryDirectory() as name, mock(LATENCY) as port:
        home = Path(name)
        environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "x"}
        async with Retinue(
            agents=[agent],
            data_dir=home,
            settings=Settings(home=home, root=home),
            environ=environ,
            tuning=Tuning(titles=False),
        ) as app:
            await app.run("waiter", "go")
            before, cpu, wall = _memory(), time.process_time(), time.perf_counter()
            done: list[Completion] = await asyncio.gather(*(app.run("waiter", "go") for _ in range(threads)))
            assert all(c.status == "SUCCESS" for c in done)
            return {
                "threads": threads,
                "seconds": round(time.perf_counter() - wall, 2),
                "cpu_ms_a_thread": round((time.process_time() - cpu) / threads * 1000, 3),
                "peak_mb": _memory(),
                "before_mb": before,
            }


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    told = asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
    print(json.dumps(told))
    (Path(__file__).parent / "results/many.json").write_text(json.dumps(told, indent=1) + "\n")
