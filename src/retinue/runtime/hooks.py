"""Hooks: Python functions, by id, that see or change what passes through a thread.

A failing hook is logged and the data goes on unchanged. What a hook changed is
logged too, so that a request can be rebuilt from the log without running it.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

HookKind = Literal[
    "after_thread_created",
    "after_subagent_created",
    "after_system_message",
    "filter_messages",
    "prefilter_llm_history",
    "before_create_message",
    "after_create_message",
    "before_update_message",
    "after_update_message",
    "before_store_tool_result",
    "after_tool_call_success",
    "after_tool_call_failure",
]
HookFunction = Callable[..., object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """`run(value, state)`: returns the value to go on with, or None to leave it."""

    id: str
    kind: HookKind
    run: HookFunction


@dataclass(frozen=True, slots=True)
class Failure:
    hook: str
    error: str


@dataclass(frozen=True, slots=True)
class Hooks:
    """Every hook of the installation; an agent or a prompt names those it wants."""

    known: Mapping[str, Hook] = field(default_factory=dict[str, Hook])

    def named(self, ids: tuple[str, ...], kind: HookKind) -> tuple[Hook, ...]:
        """The hooks of that kind, in the order in which the definition lists them."""
        if not ids:
            return ()
        return tuple(h for i in ids if (h := self.known.get(i)) and h.kind == kind)


async def pass_through(hooks: tuple[Hook, ...], value: T, state: object) -> tuple[T, list[str], list[Failure]]:
    """Send `value` through each hook; returns it, the ids that changed it, and the failures."""
    changed_by: list[str] = []
    failures: list[Failure] = []
    for hook in hooks:
        try:
            result = hook.run(value, state)
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:  # a hook is foreign code: whatever it raises must not stop the run
            failures.append(Failure(hook.id, f"{type(error).__name__}: {error}"))
            continue
        if result is None or result == value:
            continue
        if isinstance(result, type(value)):
            value = result
            changed_by.append(hook.id)
        else:
            failures.append(Failure(hook.id, f"returned {type(result).__name__}, not {type(value).__name__}"))
    return value, changed_by, failures
