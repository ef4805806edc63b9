"""A streamed answer of many chunks with a reader of ours. `stream.py PORT CHUNKS RUNS`."""

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import measured

from retinue import Retinue, define_agent
from retinue.app.settings import Settings
from retinue.runtime.deps import Tuning
from retinue.runtime.live import Piece


async def main(port: int, chunks: int, runs: int) -> None:
    agent = define_agent(
        name="talker", description="Talks.", prompt="You talk.", tools=[], model=f"openai/chunks-{chunks}"
    )
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "x"}
        settings = Settings(home=home, root=home)
        async with Retinue(
            agents=[agent], data_dir=home, settings=settings, environ=environ, tuning=Tuning(titles=False)
        ) as app:

            async def one() -> None:
                text = "".join([i.text async for i in app.stream("talker", "go") if isinstance(i, Piece)])
                assert text.startswith("word0 ")

            await one()
            with measured(runs * chunks):
                for _ in range(runs):
                    await one()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:4])))
