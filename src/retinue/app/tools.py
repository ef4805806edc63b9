"""Which tools there are, as surfaces list them."""

from retinue.app.retinue import Retinue
from retinue.ports.store import Claim
from retinue.runtime import questions
from retinue.runtime.completion import completion_spec
from retinue.runtime.offer import tools_for
from retinue.runtime.state import State
from retinue.runtime.work import Work
from retinue.schema.agent import AgentDefinition
from retinue.schema.events.threads import Pin, ThreadStarted
from retinue.schema.ids import AgentId, ThreadId
from retinue.schema.tool import ToolSpec

_NOBODY = AgentDefinition(id=AgentId("-"), name="-")


async def tools_of(app: Retinue, agent: str | None) -> list[ToolSpec]:
    """What the model of `agent` is offered in this workspace; without one, every tool but delegation."""
    runtime = app.engine.runtime
    if agent is None:
        found = await runtime.toolbox.tools(_NOBODY, app.workspace)
        return [
            *(t.spec for t in found.values()),
            *(t.spec for t in questions.tools().values()),
            completion_spec(_NOBODY),
        ]
    work = _imagined(app, app.pin(agent))
    return [tool.spec for tool in (await tools_for(work, "a")).values()]


def _imagined(app: Retinue, pin: Pin) -> Work:
    """A thread that nobody starts, to ask what it would be offered."""
    thread = ThreadId("")
    started = ThreadStarted(at=0.0, thread=thread, pin=pin, workspace=app.workspace)
    claim = Claim(thread=thread, epoch=0, head=0, lease_until=0.0)
    return Work(app.engine.runtime, claim, State(thread=started, pin=pin), [])
