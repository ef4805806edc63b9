"""Serves the agent that the official A2A compatibility kit tests: no key, no model, no network.

    python examples/a2a-compat/serve.py --port 9999

The kit then runs against http://127.0.0.1:9999. Whoever can reach the port may call, and webhooks
of this machine are delivered to, at whatever port the kit listens: it is for this machine only.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

import uvicorn
from starlette.requests import Request

from retinue import Retinue
from retinue.a2a_server.callers import Caller
from retinue.a2a_server.surface import A2aSurface
from retinue.app.settings import NetworkSection, Settings, SettingsFile, Tier
from retinue.models.scripted import ScriptedModels
from retinue.schema.ids import DEFAULT_TENANT

HERE = Path(__file__).resolve().parent
LOOPBACK = tuple(f"{host}:{port}" for host in ("localhost", "127.0.0.1") for port in range(1024, 65536))


async def main(host: str, port: int, data: Path, allow: tuple[str, ...]) -> None:
    file = SettingsFile(agent_dirs=(str(HERE / "agents"),), network=NetworkSection(allow=allow))
    settings = Settings(home=data, root=data, user=Tier(name="user", settings=file))
    app = Retinue(
        settings=settings, data_dir=data, models=ScriptedModels(HERE / "script.yaml"), environ={}, workspace=data
    )
    async with app, A2aSurface(app, anybody) as surface:
        config = uvicorn.Config(surface, host=host, port=port, lifespan="off", log_level="warning")
        print(f"A2A agent under test: http://{host}:{port}", flush=True)
        await uvicorn.Server(config).serve()


async def anybody(_: Request) -> Caller:
    return Caller(tenant=DEFAULT_TENANT, name="kit")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9999)
    parser.add_argument("--data", type=Path, help="keep tasks here; a temporary folder otherwise")
    parser.add_argument("--allow", action="append", default=[], metavar="HOST:PORT", help="where else webhooks may be")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="retinue-a2a-") as name:
        asyncio.run(main(given.host, given.port, given.data or Path(name), (*LOOPBACK, *given.allow)))
