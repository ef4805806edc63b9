"""Questions: everything that waits for a person, in one place, and their answers."""

from typing import Annotated, Any, Literal

import msgspec
from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from retinue.app import questions
from retinue.app.questions import OpenQuestion, Reply
from retinue.app.thread_views import file_of
from retinue.http.routing import Caller, Cursor, Limit, Routes, Who, ok
from retinue.http.starting import Body
from retinue.schema.errors import NotFound, UsageError
from retinue.schema.events.people import QuestionAsked
from retinue.schema.events.union import decode
from retinue.schema.ids import QuestionId, ThreadId
from retinue.web import pages
from retinue.web.pages import Page

routes = Routes("questions")


class AnswerBody(Body):
    """What a person says; `scope` and `pattern` are for permissions, `file` for questions that want one."""

    answer: Annotated[Any, Field(description="Text, a choice, true or false; why, when denied.")] = None
    scope: Annotated[Literal["once", "thread", "always", "deny"] | None, Field(description="How far it goes.")] = None
    pattern: Annotated[str | None, Field(max_length=4096, description="What else it covers.")] = None
    file: Annotated[str | None, Field(max_length=4096, description="A path of the thread's files.")] = None


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    question: QuestionId
    thread: ThreadId


@routes.on("GET", "/questions", "questions:read", Page[OpenQuestion])
async def list_questions(
    who: Who,
    root: Annotated[str | None, Query(max_length=64, description="Only of this tree.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """What waits for a person, of all trees or of one, in the order in which it was asked."""
    tree = ThreadId(root) if root is not None else None
    found = await questions.open_questions(who.app, tenant=who.tenant, root=tree)
    return ok(pages.slice_of(found, cursor, limit))


@routes.on("POST", "/questions/{question}/answer", "questions:write", Answered)
async def answer(who: Who, question: str, body: AnswerBody) -> Response:
    """Answer one question; nothing but what it names goes on."""
    reply = await _reply(who, QuestionId(question), body)
    thread = await questions.answer(who.app, QuestionId(question), reply, tenant=who.tenant, by=who.signature)
    return ok(Answered(question=QuestionId(question), thread=thread))


async def _reply(who: Caller, id: QuestionId, body: AnswerBody) -> Reply:
    """A file is one of the thread's own: a path of the server's disk is nobody's to name from outside."""
    found = await who.store.question(who.tenant, id)
    asked = decode(found[1].data) if found and found[1].open else None
    if found is None or not isinstance(asked, QuestionAsked):
        raise NotFound(f"there is no open question {id!r}")
    if asked.kind != "file":
        if body.file is not None:
            raise UsageError(f"this question wants {asked.kind}, not a file")
        return Reply(answer=body.answer, scope=body.scope, pattern=body.pattern)
    if body.file is None:
        hint = f"upload it: POST /v1/threads/{found[0]}/files, then give its path as `file`"
        raise UsageError("this question wants a file", hint=hint)
    return Reply(file=file_of(who.app, found[0], body.file), scope=body.scope)
