"""Variables of a thread: thread, tenant, instance, agent, prompt, in that order. Secret by default."""

from typing import TYPE_CHECKING

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


def inherited(work: "Work") -> dict[str, str]:
    """What a child gets of its caller's own variables, still sealed; scoped ones stop here."""
    thread = work.state.thread
    return {name: value for name, value in thread.env.items() if name not in thread.scoped_env}
