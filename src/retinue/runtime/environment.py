"""Variables of a thread: thread, tenant, instance, agent, prompt, in that order. Secret by default."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from retinue.policy.redact import Redactor
from retinue.schema.agent import AgentDefinition, Subagent

if TYPE_CHECKING:
    from retinue.runtime.work import Work

_TRUE = frozenset({"true", "1", "yes"})


def given(work: "Work") -> dict[str, str]:
    """What was set for the thread, its tenant or the installation, nearest first: the secrets of this thread."""
    runtime, thread = work.runtime, work.state.thread
    own = {name: runtime.unseal(value) for name, value in thread.env.items()}
    return {**runtime.env, **runtime.tenant_env.get(thread.tenant, {}), **own}


def variables(work: "Work") -> dict[str, str]:
    """Every variable as this thread sees it; a definition and its prompts say what holds when nobody else does."""
    definition = work.state.pin.definition
    prompts = {name: value for prompt in definition.prompts.values() for name, value in prompt.env.items()}
    return {**prompts, **definition.env, **given(work)}


def resolve(work: "Work", name: str) -> str | None:
    return variables(work).get(name)


def redactor(work: "Work") -> Callable[[str], str]:
    """Takes this thread's secrets out of what a tool says, but for those that are declared to be shown."""
    shown = {
        n
        for s in configured(work.state.pin.definition)
        if s.immediate
        for n in (s.immediate.name_env, s.immediate.description_env)
    }
    hide = Redactor({name: value for name, value in given(work).items() if name not in shown})
    return lambda text: hide(work.runtime.redact(text))


def enabled(work: "Work", name: str | None) -> bool:
    """An optional branch exists only when its variable is true, 1 or yes, in any case."""
    return name is None or (resolve(work, name) or "").strip().lower() in _TRUE


def inherited(work: "Work", config: Subagent | None) -> dict[str, str]:
    """What a child gets of its caller's own variables, still sealed; scoped ones go only to who declares them."""
    thread = work.state.thread
    scoped = {
        *thread.scoped_env,
        *(n for s in configured(work.state.pin.definition) if s.immediate for n in s.immediate.scoped_env),
    }
    own = config.immediate.scoped_env if config and config.immediate else ()
    return {name: value for name, value in thread.env.items() if name in own or name not in scoped}


def configured(definition: AgentDefinition) -> tuple[Subagent, ...]:
    """The subagents of a definition and of its prompts."""
    return (*definition.subagents, *(s for p in definition.prompts.values() for s in p.subagents))
