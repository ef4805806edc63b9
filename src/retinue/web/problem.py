"""How failures look over HTTP: problem+json (RFC 9457) with a code and a way out.

Which status an error has is one table. An error that is not of our tree is a
bug: its details go to the log, and the answer is a general sentence.
"""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from retinue.schema import errors
from retinue.schema.errors import RetinueError

MEDIA_TYPE = "application/problem+json"


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong with a request: where, and what."""

    where: str
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str | None = None
    errors: tuple[Fault, ...] = ()


class Refused(RetinueError):
    """A request that got no further than the door."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        faults: tuple[Fault, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.faults = faults
        self.headers = headers


_STATUS: tuple[tuple[type[RetinueError], int], ...] = (
    (errors.Gone, 410),
    (errors.Conflict, 409),
    (errors.AmbiguousAgent, 409),
    (errors.BudgetExceeded, 409),
    (errors.NotFound, 404),
    (errors.Untrusted, 403),
    (errors.Denied, 403),
    (errors.UsageError, 400),
    (errors.DefinitionError, 422),
    (errors.SourceUnavailable, 503),
    (errors.StoreUnavailable, 503),
)
"""The first that fits; anything else of the tree can't be helped by the caller: 503."""


def answer(error: RetinueError) -> Response:
    """The response to an expected failure."""
    if isinstance(error, Refused):
        said = error.message
        return respond(error.status, error.code, said, hint=error.hint, faults=error.faults, headers=error.headers)
    problems = error.problems if isinstance(error, errors.DefinitionError) else ()
    faults = tuple(Fault(where=p.file, message=p.message) for p in problems)
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 503)
    headers = {"Retry-After": "1"} if status == 503 else {}
    return respond(status, error.code, error.message, hint=error.hint, faults=faults, headers=headers)


def internal() -> Response:
    """The response to a bug, whose details are for the log."""
    return respond(500, "internal", "An internal error. The details are in the server's log.")


def respond(
    status: int,
    code: str,
    detail: str,
    *,
    hint: str | None = None,
    faults: tuple[Fault, ...] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    problem = Problem(
        type=f"urn:retinue:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        hint=hint,
        errors=faults,
    )
    return Response(msgspec.json.encode(problem), status, dict(headers or {}), MEDIA_TYPE)
