"""One Retinue server with A2A in a process of its own, so that a test can kill it.

    python -m support.a2a_process FOLDER PORT OTHER_PORT

Its `boss` calls `partner/legal`, which is `legal` of the server on the other port.
"""

import asyncio
import sys
from pathlib import Path

import uvicorn

from retinue.a2a_server.surface import A2aSurface
from retinue.app.retinue import Retinue
from retinue.app.settings import NetworkSection, Settings, SettingsFile, Tier
from retinue.models.script import CallTool, Say
from retinue.models.scripted import ScriptedModels
from retinue.testing.harness import QUICK
from support.a2a import agent, by_token

CALL = CallTool("call_agent", {"agent_name": "partner/legal", "input": "Check clause 4", "context_scope": "NONE"})


async def main(folder: Path, port: int, other: int) -> None:
    allow = NetworkSection(allow=(f"127.0.0.1:{other}",))
    settings = Settings(home=folder, root=folder, user=Tier(name="user", settings=SettingsFile(network=allow)))
    remote = agent(
        "partner/legal",
        kind="remote",
        exposed=False,
        agent_card_url=f"http://127.0.0.1:{other}/a2a/legal",
        auth={"type": "http", "scheme": "Bearer", "token": "bob"},
    )
    boss = agent("boss", can_spawn_subagents=True, allowed_agents=("partner/legal",))
    app = Retinue(
        agents=[boss, agent("legal"), remote],
        models=ScriptedModels({"boss": [CALL, "They say: {{last_outcome}}"], "legal": [Say("It holds.", latency=2.0)]}),
        settings=settings,
        data_dir=folder,
        workspace=folder,
        environ={},
        tuning=QUICK,
    )
    async with app, A2aSurface(app, by_token) as surface:
        server = uvicorn.Server(uvicorn.Config(surface, port=port, lifespan="off", log_level="warning"))
        await server.serve()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
