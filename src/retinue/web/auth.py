"""Who makes a request, and whether they may: the bearer token, the key's rate, the scope."""

import math

from starlette.requests import Request

from retinue.web.keys import Principal
from retinue.web.problem import Refused
from retinue.web.scopes import covers
from retinue.web.served import Served


async def authorize(served: Served, request: Request, scope: str) -> Principal:
    """The key behind a request.

    Raises:
        Refused: 401 without a good token, 429 too often, 403 without the scope. Nothing was looked up before,
            so what exists can't be told from the answer.
    """
    now = served.app.engine.runtime.clock.monotonic()
    principal = await served.keyring.verify(token_of(request))
    if principal is None:
        slow_down(served, request)
        raise Refused(
            401,
            "unauthorized",
            "the request has no API key that is good here",
            hint="send `Authorization: Bearer TOKEN`; `retinue keys create` makes one",
            headers={"WWW-Authenticate": 'Bearer realm="retinue"'},
        )
    if wait := served.limits.take(principal.key, now):
        raise too_often(wait)
    if not covers(principal.scopes, scope):
        has = ", ".join(principal.scopes)
        raise Refused(403, "scope", f"this needs the scope {scope}; the key {principal.name} has {has}")
    return principal


def token_of(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def slow_down(served: Served, request: Request) -> None:
    """Count a request that proved nothing. Only such are ever refused for it: many may share an address.

    Raises:
        Refused: 429, too many of them.
    """
    address = request.client.host if request.client else ""
    if wait := served.limits.take(f"from {address}", served.app.engine.runtime.clock.monotonic()):
        raise too_often(wait)


def too_often(wait: float) -> Refused:
    seconds = str(max(1, math.ceil(wait)))
    return Refused(429, "too_often", f"too many requests; try again in {seconds} s", headers={"Retry-After": seconds})
