"""Requests that may come twice and must happen once.

The first request with an `Idempotency-Key` is carried out and its answer kept; the
same one again gets the same answer. A server that dies in between has kept no
answer: the request is then carried out again by the next one, under ids that
derive from the key, so that what had happened is found and not repeated.
"""

import hmac
import re
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid5

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from retinue.schema.errors import UsageError
from retinue.web.auth import token_of
from retinue.web.keys import Principal
from retinue.web.problem import Refused
from retinue.web.served import Served
from retinue.web.sse import EventStream

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
LONGEST = 255
PATTERN = "^[!-~]+$"
_NAMESPACE = UUID("7d1f0d5e-3a43-5f0e-9b0e-5a3c1a8f4e61")


class _Kept(msgspec.Struct, array_like=True):
    media_type: str | None
    location: str | None
    body: str


async def once(
    served: Served, principal: Principal, request: Request, handle: Callable[[UUID | None], Awaitable[Response]]
) -> Response:
    """Carry a request out, or tell what it came to before. `handle` gets what new ids derive from.

    Raises:
        Refused: 422 when the key was used for another request, 409 while the same one is under way.
    """
    given = request.headers.get(HEADER)
    if given is None:
        return await handle(None)
    if len(given) > LONGEST or not re.fullmatch(PATTERN, given):
        raise UsageError(f"{HEADER} has {len(given)} characters; wanted 1 to {LONGEST}, printable and without spaces")
    key = f"{principal.key}:{given}"
    answers, runtime = served.app.database.answers, served.app.engine.runtime
    fingerprint = await _fingerprint(request)
    held = await answers.begin(key, fingerprint=fingerprint, owner=served.instance, now=runtime.clock.now())
    if held is not None and held.fingerprint != fingerprint:
        hint = "choose a new key for a new request"
        raise Refused(422, "idempotency_mismatch", f"this {HEADER} was used for another request", hint=hint)
    if held is not None and held.body is None:
        text = f"the request with this {HEADER} is still being carried out"
        raise Refused(409, "in_progress", text, headers={"Retry-After": "1"})
    if held is not None and held.body is not None:
        kept = msgspec.json.decode(runtime.unseal(held.body), type=_Kept)
        headers = {REPLAYED: "true"} | ({"Location": kept.location} if kept.location else {})
        return Response(kept.body, held.status, headers, kept.media_type)
    try:
        response = await handle(uuid5(_NAMESPACE, f"{principal.tenant}:{key}"))
    except BaseException:
        await answers.forget(key)
        raise
    if isinstance(response, EventStream):  # who asks again follows the same thread
        await answers.forget(key)
        return response
    kept = _Kept(response.media_type, response.headers.get("location"), bytes(response.body).decode())
    await answers.finish(key, status=response.status_code, body=runtime.seal(msgspec.json.encode(kept).decode()))
    return response


async def _fingerprint(request: Request) -> str:
    """Keyed with the token, which is kept nowhere: a body that holds a secret can't be guessed from it."""
    said = f"{request.method} {request.url.path}?{request.url.query}\n".encode() + await request.body()
    return hmac.digest(token_of(request).encode(), said, "sha256").hex()
