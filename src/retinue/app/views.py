"""What surfaces show of threads: summaries, trees and exports.

Pure functions over rows, accounts, events and states; who reads those is
`retinue.app.threads`. Values that are secret by default leave the log only through
`shown`, which takes them out. The conversation itself is `retinue.app.conversation`.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from retinue.app.conversation import Entry, conversation
from retinue.ports.store import Account, Caps, ThreadRow
from retinue.runtime.state import State
from retinue.schema.agent import AgentDefinition
from retinue.schema.events.children import VariablesProvided
from retinue.schema.events.people import QuestionAsked
from retinue.schema.events.threads import Pin, SegmentStarted, ThreadStarted
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import Seq, ThreadId
from retinue.schema.thread import ThreadStatus

SECRET = "•••"


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a list of threads; `cost` in nano-dollars, None when a price is unknown."""

    id: ThreadId
    agent: str
    title: str | None
    status: ThreadStatus
    waiting_for: str | None
    steps: int
    tokens: int
    cost: int | None
    created_at: float
    updated_at: float
    parent: ThreadId | None
    root: ThreadId


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A thread in its tree; tokens and cost include everything below it."""

    id: ThreadId
    agent: str
    commit: str | None
    name: str
    status: ThreadStatus
    said: str | None
    """The status text that the child has set, when it has set one."""
    waits_for: str | None
    steps: int
    tokens: int
    cost: int | None
    reserved_tokens: int
    reserved_cost: int
    caps: Caps
    seconds: float
    children: tuple["Node", ...] = ()


class Export(msgspec.Struct, frozen=True, kw_only=True):
    format: str = "retinue.thread/1"
    thread: Summary
    conversation: tuple[Entry, ...]
    events: tuple[Mapping[str, object], ...]
    """As they are in the log, each with its `seq`; secret values are taken out."""


def summary(row: ThreadRow) -> Summary:
    listed = msgspec.structs.asdict(row.listing)
    return Summary(id=row.id, created_at=row.created_at, parent=row.parent, root=row.root, **listed)


def tree(
    root: ThreadId,
    rows: Iterable[ThreadRow],
    accounts: Iterable[Account],
    parents: Mapping[ThreadId, State],
    questions: Iterable[tuple[ThreadId, QuestionAsked]],
    *,
    now: float,
) -> Node:
    """The tree below `root`.

    Args:
        parents: The states of `root` and of every thread that has children; they know names and commits.
        questions: Those that are open.
    """
    by_id = {row.id: row for row in rows}
    below: dict[ThreadId | None, list[ThreadRow]] = {}
    for row in sorted(by_id.values(), key=lambda row: row.created_at):
        below.setdefault(row.parent, []).append(row)
    spent = {account.thread: account for account in accounts}
    asked = {thread: question.prompt for thread, question in questions}

    def node(row: ThreadRow) -> Node:
        listing, account, own = row.listing, spent.get(row.id), parents.get(row.id)
        parent = parents.get(row.parent) if row.parent else None
        above = parent.children.get(row.id) if parent else None
        active = listing.status in ("idle", "running", "waiting")
        return Node(
            id=row.id,
            agent=listing.agent,
            commit=above.started.commit if above else own.pin.commit if own else None,
            name=above.started.name if above else listing.title or listing.agent,
            status=listing.status,
            said=above.words or None if above else None,
            waits_for=asked.get(row.id) or listing.waiting_for if listing.status == "waiting" else None,
            steps=listing.steps,
            tokens=account.spent_tokens if account else listing.tokens,
            cost=None if account and account.unpriced else account.spent_cost if account else listing.cost,
            reserved_tokens=account.reserved_tokens if account else 0,
            reserved_cost=account.reserved_cost if account else 0,
            caps=account.caps if account else Caps(),
            seconds=max((now if active else listing.updated_at) - row.created_at, 0.0),
            children=tuple(node(child) for child in below.get(row.id, ())),
        )

    return node(by_id[root])


def export(thread: Summary, log: Sequence[tuple[Seq, AnyEvent]]) -> Export:
    return Export(
        thread=thread,
        conversation=tuple(conversation(log)),
        events=tuple({"seq": seq, **event_json(event)} for seq, event in log),
    )


def event_json(event: AnyEvent) -> dict[str, object]:
    return msgspec.convert(msgspec.to_builtins(shown(event)), dict[str, object])


def shown(event: AnyEvent) -> AnyEvent:
    """The event as anybody may see it: names of variables, never their values."""
    match event:
        case ThreadStarted():
            return msgspec.structs.replace(event, env=_hidden(event.env), pin=_pin(event.pin))
        case SegmentStarted():
            return msgspec.structs.replace(event, pin=_pin(event.pin))
        case VariablesProvided():
            return msgspec.structs.replace(event, values=_hidden(event.values))
        case _:
            return event


def resource_of(arguments: str) -> str:
    """What a call is about, in a few words: its command, path, URL or agent, else its arguments."""
    try:
        values = msgspec.json.decode(arguments or "{}", type=dict[str, object])
    except msgspec.MsgspecError:
        return arguments
    for key in _ABOUT:
        if isinstance(value := values.get(key), str) and value:
            return value
    return arguments if values else ""


_ABOUT = (
    *("command", "path", "file_path", "pattern", "url", "query", "agent_name", "subagent_type", "agent", "reference"),
    *("key", "prompt", "status"),
)


def _hidden(values: Mapping[str, str]) -> dict[str, str]:
    return dict.fromkeys(values, SECRET)


def _pin(pin: Pin) -> Pin:
    return msgspec.structs.replace(pin, definition=shown_definition(pin.definition))


def shown_definition(definition: AgentDefinition) -> AgentDefinition:
    """The definition as anybody may see it: names of variables and headers, never their values."""
    servers = {
        name: msgspec.structs.replace(server, env=_hidden(server.env), headers=_hidden(server.headers))
        for name, server in definition.inline_mcp_servers.items()
    }
    prompts = {
        name: msgspec.structs.replace(prompt, env=_hidden(prompt.env)) for name, prompt in definition.prompts.items()
    }
    return msgspec.structs.replace(definition, env=_hidden(definition.env), inline_mcp_servers=servers, prompts=prompts)
