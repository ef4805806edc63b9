"""Variables of a thread: thread, tenant, instance, agent, prompt, in that order. Secret by default."""

from typing import TYPE_CHECKING

from retinue.schema.agent import Subagent

if TYPE_CHECKING:
    from retinue.runtime.work import Work

_TRUE = frozenset({"true", "1", "yes"})


def resolve(work: "Work", name: str) -> str | None:
    """The value of a variable as this thread sees it."""
    thread, definition = work.state.thread, work.state.pin.definition
    if name in thread.env:
        return work.runtime.unseal(thread.env[name])
    for values in (work.runtime.tenant_env(thread.tenant), work.runtime.env, definition.env):
        if name in values:
            return values[name]
    return next((p.env[name] for p in definition.prompts.values() if name in p.env), None)


def enabled(work: "Work", name: str | None) -> bool:
    """An optional branch exists only when its variable is true, 1 or yes, in any case."""
    return name is None or (resolve(work, name) or "").strip().lower() in _TRUE


def inherited(work: "Work", config: Subagent | None) -> dict[str, str]:
    """What a child gets of its caller's own variables, still sealed; scoped ones go only to who declares them."""
    thread, definition = work.state.thread, work.state.pin.definition
    configured = (*definition.subagents, *(s for p in definition.prompts.values() for s in p.subagents))
    scoped = {*thread.scoped_env, *(n for s in configured if s.immediate for n in s.immediate.scoped_env)}
    own = config.immediate.scoped_env if config and config.immediate else ()
    return {name: value for name, value in thread.env.items() if name in own or name not in scoped}
