"""Starts a run: evaluates once what a run keeps, and writes it down."""

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID, uuid5

import msgspec

from retinue.definition.template import Listed, agent_list, render
from retinue.runtime import children, delegation, environment, ledger, variables
from retinue.runtime.completion import Finish, failed
from retinue.runtime.history import hooked
from retinue.runtime.offer import system_prompt, tools_for
from retinue.runtime.sides import candidates, side_definition
from retinue.runtime.stops import plain
from retinue.runtime.work import Work
from retinue.schema.agent import AgentDefinition, CompletionMode, Immediate, Subagent
from retinue.schema.completion import Usage
from retinue.schema.errors import Conflict, ModelError, RetinueError, SettingsError
from retinue.schema.events.runs import RunStarted
from retinue.schema.ids import CallId, child_id
from retinue.schema.message import text_of
from retinue.schema.thread import SideName


async def start_run(work: Work, *, goes_on: bool = False) -> Finish | None:
    """Record `run.started`; a finish when the run can't go on from here.

    With `goes_on` the run under way continues under another definition.
    """
    state, definition = work.state, work.state.pin.definition
    work.forget()
    completion = completion_mode(definition, called=bool(state.thread.path))
    event = RunStarted(
        at=work.now,
        run=state.runs if goes_on else state.runs + 1,
        agent=definition.id,
        name=definition.name,
        mode=definition.execution_mode,
        completion=completion,
        model="",
        inputs=state.first.inputs if state.first else {},
        prompt=text_of(state.first.parts) if state.first else "",
        max_steps=1 if definition.execution_mode == "single_shot" else definition.max_steps,
        timeout=definition.timeout,
        cost_cap=state.thread.budget.cost,
        token_cap=state.thread.budget.tokens,
    )
    try:
        asked = [candidates(work, "a")[0].model]
        if definition.side_b is not None:
            asked.append(candidates(work, "b")[0].model)
    except (ModelError, SettingsError) as error:  # no model, or a provider that is configured wrongly
        work.record(event)
        return failed(error)
    event = msgspec.structs.replace(event, model=asked[0].name)
    if state.runs == 0 and definition.hooks:
        await hooked(work, definition.hooks, "after_thread_created", state.thread)
    try:
        work.record(await _rendered(work, event))
        await tools_for(work, "a")
    except SettingsError as error:  # it names a server that nobody configured
        work.record(*([] if work.state.running else [event]))
        return failed(error)
    unpriced = [model for model in asked if model.price(Usage(input=1000, output=1000)) is None]
    if unpriced and ledger.cost_capped(state.thread):
        return ledger.unpriced(unpriced[0].name)
    await _start_immediate(work, event)
    return None


async def _start_immediate(work: Work, event: RunStarted) -> None:
    """Subagents that run before the first step, once per activation of a definition, also across restarts."""
    activation = work.state.segment_seq
    for config in _configured(work):
        if config.immediate is None or not environment.enabled(work, config.optional):
            continue
        call = CallId(str(uuid5(UUID(work.thread), f"immediate:{activation}:{config.name}")))
        if child_id(call) in work.state.children:
            continue
        try:
            await _start_one(work, config, config.immediate, call, event.prompt)
        except RetinueError as error:
            children.say(work, f"{call}:immediate", f"Subagent {config.name} could not be started: {error.message}")


def _configured(work: Work) -> tuple[Subagent, ...]:
    """The subagents of every AI side, each once."""
    sides: tuple[SideName, ...] = ("a", "b") if work.state.dual else ("a",)
    return tuple(dict.fromkeys(config for side in sides for config in side_definition(work, side).subagents))


async def _start_one(work: Work, config: Subagent, hints: Immediate, call: CallId, text: str) -> None:
    pin = work.runtime.agents.pin(config.name, work.state.thread.tenant)
    name = environment.resolve(work, hints.name_env) if hints.name_env else None
    about = environment.resolve(work, hints.description_env) if hints.description_env else None
    wanted = children.Start(
        text=text,
        call=call,
        name=name or config.name,
        description=about or "",
        config=config,
        blocking=config.blocking,
        immediate=True,
    )
    if work.state.thread.people == "none" and (missing := variables.missing(work, pin, config)):
        raise Conflict(f"it needs {', '.join(missing)}")
    await variables.begin(work, pin, wanted)


def completion_mode(definition: AgentDefinition, *, called: bool) -> CompletionMode:
    if definition.execution_mode in ("single_shot", "streaming"):
        return "response"
    if definition.completion is not None:
        return definition.completion
    if definition.type == "dual_ai":
        return "binding"
    return "explicit" if called or definition.output is not None else "response"


async def _rendered(work: Work, event: RunStarted) -> RunStarted:
    """The system prompt of each AI side and the first user message, templates filled in."""
    inputs = {name: plain(value) for name, value in event.inputs.items()}
    sides: tuple[SideName, ...] = ("a", "b") if work.state.dual else ("a",)
    system: dict[str, str] = {}
    for side in sides:
        definition = side_definition(work, side)
        values = await _values(work, definition, side, event)
        prompt = system_prompt(work, definition, values, inputs)
        system[side] = await hooked(work, definition.hooks, "after_system_message", prompt)
    definition = work.state.pin.definition
    query = render(definition.query, await _values(work, definition, "a", event), inputs)
    return msgspec.structs.replace(event, system=system, query=query if query != event.prompt else None)


async def _values(work: Work, definition: AgentDefinition, side: SideName, event: RunStarted) -> Mapping[str, str]:
    text = definition.prompt + definition.query
    return {
        **work.runtime.variables,
        **definition.variables,
        "prompt": event.prompt,
        "agent_name": definition.name,
        "agent_description": definition.description,
        "allowed_agents": _agents(work, definition) if "allowed_agents" in text else "",
        "available_tools": ", ".join(await tools_for(work, side)) if "available_tools" in text else "",
        "current_time": datetime.fromtimestamp(event.at, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "working_directory": work.state.thread.workspace,
    }


def _agents(work: Work, definition: AgentDefinition) -> str:
    return agent_list(
        Listed(name=a.id, description=a.description, examples=a.examples, external=a.kind == "remote")
        for a in delegation.listed(work, definition)
    )
