"""Questions as surfaces list and answer them, and the grants that an answer leaves behind.

An approval of one call is in that thread's log. What goes further (this thread, a
pattern, always) is a grant, saved before the answer is admitted: a process that
dies in between has allowed nothing that the person did not want allowed.
"""

from pathlib import Path
from typing import Literal

import msgspec

from retinue.app.permissions import absolute_pattern
from retinue.app.retinue import Retinue
from retinue.policy.patterns import matches
from retinue.policy.suggest import remember
from retinue.ports.memory import Grant
from retinue.runtime import attachments
from retinue.runtime.engine import fitting
from retinue.runtime.project import project
from retinue.runtime.state import State
from retinue.schema.errors import NotFound, UsageError
from retinue.schema.events.children import FileAttached
from retinue.schema.events.people import GrantScope, QuestionAsked, QuestionKind
from retinue.schema.events.threads import ThreadStarted
from retinue.schema.events.union import decode
from retinue.schema.ids import DEFAULT_TENANT, QuestionId, Tenant, ThreadId
from retinue.schema.permission import CommandDecision


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question, and who asks: `path` names the agents from the root to the one that waits."""

    id: QuestionId
    thread: ThreadId
    path: tuple[str, ...]
    kind: QuestionKind
    prompt: str
    asked_at: float
    choices: tuple[str, ...] = ()
    required: bool = True
    expires: float | None = None
    tool: str | None = None
    arguments: str | None = None
    preview: str | None = None
    why: str | None = None
    suggested: str | None = None
    """A pattern that stands for calls like this one."""
    commands: tuple[CommandDecision, ...] = ()
    """For bash: each command that was found, and what was thought of it."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said. `scope` and `pattern` belong to permission questions; `deny` carries the reason in `answer`.

    With `pattern` the approval covers what matches it, in this thread or always.
    """

    answer: object = None
    scope: Literal["once", "thread", "always", "deny"] | None = None
    pattern: str | None = None
    file: Path | None = None


async def open_questions(
    app: Retinue, *, tenant: Tenant = DEFAULT_TENANT, root: ThreadId | None = None
) -> list[OpenQuestion]:
    """Those of all trees, or of one, in the order in which they were asked."""
    store = app.engine.runtime.store
    found: list[OpenQuestion] = []
    for thread, row in await store.questions(tenant, root=root):
        asked = decode(row.data)
        started = decode((await store.events(thread, limit=1))[0].data)
        if isinstance(asked, QuestionAsked) and isinstance(started, ThreadStarted):
            path = (*(above.agent for above in started.path), started.pin.definition.id)
            found.append(described(asked, thread, path))
    return found


def described(asked: QuestionAsked, thread: ThreadId, path: tuple[str, ...]) -> OpenQuestion:
    return OpenQuestion(
        id=asked.id,
        thread=thread,
        path=path,
        kind=asked.kind,
        prompt=asked.prompt,
        asked_at=asked.at,
        choices=asked.choices,
        required=asked.required,
        expires=asked.expires,
        tool=asked.tool,
        arguments=asked.arguments,
        preview=asked.preview,
        why=asked.decision.reason if asked.decision else None,
        suggested=_suggested(asked),
        commands=asked.decision.commands if asked.decision else (),
    )


def _suggested(asked: QuestionAsked) -> str | None:
    commands = [c.command for c in asked.decision.commands if c.verdict == "ask"] if asked.decision else []
    return remember(commands[0]) if len(commands) == 1 else None


async def answer(
    app: Retinue, question: QuestionId, reply: Reply, *, tenant: Tenant = DEFAULT_TENANT, by: str = "user"
) -> ThreadId:
    """Settle one question, from any process; nothing but what it names goes on.

    Raises:
        NotFound: there is no such open question.
        UsageError: the reply does not fit the question.
    """
    runtime = app.engine.runtime
    found = await runtime.store.question(tenant, question)
    asked = decode(found[1].data) if found and found[1].open else None
    if found is None or not isinstance(asked, QuestionAsked):
        raise NotFound(f"there is no open question {question}", hint="`retinue answer` lists those that are open")
    thread = found[0]
    value, scope, files = reply.answer, _logged(reply), tuple[FileAttached, ...]()
    if asked.kind != "permission" and reply.scope is not None:
        raise UsageError(f"this question wants {asked.kind}; once, thread, pattern, always and deny answer permissions")
    if asked.kind == "file":
        files = (_kept(app, thread, reply),)
        value = files[0].path
    elif reply.file is not None:
        raise UsageError(f"this question wants {asked.kind}, not a file")
    fitting(asked, value, scope)
    if asked.kind == "permission" and reply.scope in ("thread", "always"):
        now = runtime.clock.now()
        for grant in _grants(project(await app.engine.log(thread)), asked, reply, now):
            await runtime.grants.add(grant)
    return await app.engine.answer(
        question, value, tenant=tenant, scope=scope, pattern=reply.pattern, by=by, files=files
    )


def _logged(reply: Reply) -> GrantScope | None:
    return "pattern" if reply.pattern is not None and reply.scope == "thread" else reply.scope


def _kept(app: Retinue, thread: ThreadId, reply: Reply) -> FileAttached:
    """The copy among the thread's own files."""
    source = reply.file or (Path(reply.answer) if isinstance(reply.answer, str) else None)
    if source is None or not source.is_file():
        raise UsageError(f"this question wants a file; {source or 'nothing'} is not one")
    runtime = app.engine.runtime
    return attachments.store(runtime.files(thread), source.name, source.read_bytes(), at=runtime.clock.now())


def _grants(state: State, asked: QuestionAsked, reply: Reply, now: float) -> list[Grant]:
    """What later calls are covered: the same resource, or what the pattern says; in bash, each command that was asked.

    They bind to what was shown, wherever a link leads by now. A resource with wildcards
    of its own would cover more than the person saw, so the grant then binds to the exact call.
    """
    tool, workspace = asked.tool or "", state.thread.workspace
    commands = tuple(c.command for c in asked.decision.commands if c.verdict == "ask") if asked.decision else ()
    resources = commands or asked.resources or ("",)

    def grant(pattern: str, exact: str | None = None) -> Grant:
        return Grant(
            tenant=state.thread.tenant,
            thread=None if reply.scope == "always" else state.thread.thread,
            tool=tool,
            pattern=pattern,
            exact=exact,
            definition_hash=state.pin.definition.hash,
            created_at=now,
            question=asked.id,
        )

    if reply.pattern is not None:
        pattern = absolute_pattern(tool, reply.pattern, workspace)
        if not any(matches(pattern, resource) for resource in resources):
            raise UsageError(f"{reply.pattern!r} does not match {' or '.join(map(repr, resources))}")
        return [grant(pattern)]
    exact = asked.digest or asked.id  # of a question without one, only the answer itself counts
    return [grant(r, None if r and not {"*", "?"} & {*r} else exact) for r in resources]
