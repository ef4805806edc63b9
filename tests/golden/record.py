"""Writes the logs of the crash scenario into `logs/`: one file a thread, one event a line.

Run it once per version of the events, under a new prefix: `record.py v1`. Files that
are there are never rewritten; every later version must still replay them.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from crash import scenario
from retinue.schema.events.union import encode
from retinue.testing.harness import scripted_app

LOGS = Path(__file__).parent / "logs"


async def main(prefix: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with scripted_app(
            folder,
            {"*": scenario.script(folder / "requests")},
            agents=scenario.agents(),
            tools=scenario.tools(folder / "effects"),
        ) as app:
            for agent in ("single", "lead"):
                await app.run(agent, "go", people="none")
            await app.idle()
            for row in await app.engine.runtime.store.rows(None, limit=100):
                target = LOGS / f"{prefix}-{row.listing.agent}.jsonl"
                lines = [encode(event) for _, event in await app.engine.log(row.id)]
                if not target.exists():
                    target.write_bytes(b"\n".join(lines).replace(name.encode(), b"/folder") + b"\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
