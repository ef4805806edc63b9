"""Credentials for remote agents: API keys, HTTP schemes, OAuth2 and Google's.

Values are `$NAME`s that the operator allows for the agent's origin, so a definition from
anywhere can't send a secret elsewhere; `$$` and `!!` stand for `$` and `!`. Credentials go
to the origin of the card (of the interface, when the card is inline) and to nobody else.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Literal

import httpx
import msgspec
from a2a.types.a2a_pb2 import AgentCard

from retinue.net.client import GuardedClient
from retinue.policy.network import same_origin
from retinue.remotes.a2a.oauth import OAuth, Tokens
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import SettingsError

Secret = Callable[[str, str], str | None]
"""The value of a variable for an origin's URL; None when it is not set. Raises where the operator does not allow it."""
_RETRIES = 2


class Auth(msgspec.Struct, frozen=True, kw_only=True):
    """What `auth` of a remote agent may say."""

    type: Literal["apiKey", "http", "oauth", "google-credentials"]
    key: str = ""
    name: str = "X-API-Key"
    scheme: str = "Bearer"
    token: str = ""
    username: str = ""
    password: str = ""
    value: str = ""
    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    authorization_url: str = ""
    token_url: str = ""
    redirect_port: int = 8418


class Credentials(httpx.Auth):
    """Adds headers to requests for one origin, and renews them when they are refused."""

    def __init__(self, url: str, headers: "Headers") -> None:
        self._url = url
        self._headers = headers

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        if not same_origin(self._url, str(request.url)):
            yield request
            return
        for attempt in range(_RETRIES + 1):
            request.headers.update(await self._headers(attempt))
            response = yield request
            if response.status_code not in (401, 403):
                return


Headers = Callable[[int], Awaitable[Mapping[str, str]]]
"""The headers to send, told how often this request was refused: fresh ones from the first time on."""


def headers_of(
    definition: AgentDefinition, url: str, card: AgentCard | None, secret: Secret, tokens: Tokens, client: GuardedClient
) -> Headers | None:
    """How to sign in to `url`; None when the definition has no `auth`."""
    if definition.auth is None:
        return None
    auth = _read(definition, lambda text: _value(text, url, secret, definition.id))
    match auth.type:
        case "apiKey":
            return _fixed({auth.name: auth.key})
        case "http":
            return _fixed({"Authorization": _http(auth)})
        case "oauth":
            return OAuth(definition.id, auth, url, card, tokens, client).headers
        case "google-credentials":
            return _Google(auth.scopes, client).headers


def oauth_of(
    definition: AgentDefinition, url: str, card: AgentCard | None, secret: Secret, tokens: Tokens, client: GuardedClient
) -> OAuth:
    auth = _read(definition, lambda text: _value(text, url, secret, definition.id)) if definition.auth else None
    if auth is None or auth.type != "oauth":
        raise SettingsError(f"{definition.id} has no OAuth2 to sign in with")
    return OAuth(definition.id, auth, url, card, tokens, client)


def _read(definition: AgentDefinition, fill: Callable[[str], str]) -> Auth:
    given = {
        name: fill(v) if isinstance(v, str) and name != "type" else v for name, v in (definition.auth or {}).items()
    }
    if isinstance(given.get("scopes"), str):
        given["scopes"] = str(given["scopes"]).split()
    try:
        return msgspec.convert(given, Auth, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"auth of {definition.id} does not fit: {error}") from None


def _value(text: str, url: str, secret: Secret, agent: str) -> str:
    if text.startswith(("$$", "!!")):
        return text[1:]
    if text.startswith("!"):
        raise SettingsError(f"auth of {agent}: commands are not run; name a variable as $NAME")
    if not text.startswith("$"):
        return text
    name = text[1:].strip("{}")
    value = secret(name, url)
    if value is None:
        raise SettingsError(f"auth of {agent}: the variable {name} is not set")
    return value


def _http(auth: Auth) -> str:
    if auth.value:
        return auth.value if " " in auth.value else f"{auth.scheme} {auth.value}"
    if auth.username:
        return "Basic " + base64.b64encode(f"{auth.username}:{auth.password}".encode()).decode()
    return f"{auth.scheme} {auth.token}"


def _fixed(headers: Mapping[str, str]) -> Headers:
    async def give(_: int) -> Mapping[str, str]:
        return headers

    return give


class _Google:
    """Application default credentials; google-auth's requests go through the guarded client too."""

    def __init__(self, scopes: tuple[str, ...], client: GuardedClient) -> None:
        self._scopes = scopes or ("https://www.googleapis.com/auth/cloud-platform",)
        self._client = client
        self._token = ""

    async def headers(self, refused: int) -> Mapping[str, str]:
        if refused or not self._token:
            self._token = await asyncio.to_thread(self._fetch, asyncio.get_running_loop())
        return {"Authorization": f"Bearer {self._token}"}

    def _fetch(self, loop: asyncio.AbstractEventLoop) -> str:
        from retinue.remotes.a2a.google import access_token

        return access_token(self._scopes, self._client, loop)
