"""Credentials for remote agents: API keys, HTTP schemes, OAuth2 and Google's.

Values are `$NAME`s that the operator allows for the agent's origin, so a definition from
anywhere can't send a secret elsewhere; `$$` and `!!` stand for `$` and `!`. Credentials go
to the origin of the card (of the interface, when the card is inline) and to nobody else:
a client's secret goes where the definition gets tokens, and the operator allows it there. Google's
go to Google without being asked about, elsewhere as if they were a variable.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx
import msgspec
from a2a.types.a2a_pb2 import AgentCard

from retinue.net.client import GuardedClient
from retinue.policy.network import Origin, parse, same_origin
from retinue.remotes.a2a.oauth import OAuth
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import SettingsError

Secret = Callable[[str, str], str | None]
"""The value of a variable for an origin's URL; None when it is not set. Raises where the operator does not allow it."""
Headers = Callable[[int], Awaitable[Mapping[str, str]]]
"""The headers to send, told how often this request was refused: fresh ones from the first time on."""
RETRIES = 2
_GOOGLE = (".googleapis.com",)


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

    def __init__(self, url: str, headers: Headers) -> None:
        self._url = url
        self._headers = headers

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        if not same_origin(self._url, str(request.url)):
            yield request
            return
        for attempt in range(RETRIES + 1):
            request.headers.update(await self._headers(attempt))
            response = yield request
            if response.status_code not in (401, 403):
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What signing in needs of the installation."""

    secret: Secret
    tokens: Path
    """The folder of OAuth2's tokens."""
    client: GuardedClient

    def headers(self, definition: AgentDefinition, url: str, card: AgentCard | None) -> Headers | None:
        """How to sign in to `url`; None when the definition has no `auth`."""
        if definition.auth is None:
            return None
        auth = self._auth(definition, url)
        match auth.type:
            case "apiKey":
                return _fixed({auth.name: auth.key})
            case "http":
                return _fixed({"Authorization": _http(auth)})
            case "oauth":
                return self.oauth(definition, url, card).headers
            case "google-credentials":
                origin = parse(url)
                if not (isinstance(origin, Origin) and origin.host.endswith(_GOOGLE)):
                    self.secret(auth.type, url)
                return _Google(auth.scopes, self.client).headers

    def oauth(self, definition: AgentDefinition, url: str, card: AgentCard | None) -> OAuth:
        return OAuth(definition.id, self._auth(definition, url), url, card, self.tokens, self.client)

    def _auth(self, definition: AgentDefinition, url: str) -> Auth:
        said = definition.auth or {}
        given: dict[str, object] = {}
        for name, value in said.items():
            place = str(said.get("token_url") or url) if name == "client_secret" else url
            is_text = isinstance(value, str) and name != "type"
            given[name] = self._value(str(value), place, definition.id) if is_text else value
        if isinstance(given.get("scopes"), str):
            given["scopes"] = str(given["scopes"]).split()
        try:
            return msgspec.convert(given, Auth, strict=False)
        except msgspec.ValidationError as error:
            raise SettingsError(f"auth of {definition.id} does not fit: {error}") from None

    def _value(self, text: str, url: str, agent: str) -> str:
        if text.startswith(("$$", "!!")):
            return text[1:]
        if text.startswith("!"):
            raise SettingsError(f"auth of {agent}: commands are not run; name a variable as $NAME")
        if not text.startswith("$"):
            return text
        name = text[1:].strip("{}")
        value = self.secret(name, url)
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
            from retinue.remotes.a2a.google import access_token

            loop = asyncio.get_running_loop()
            self._token = await asyncio.to_thread(access_token, self._scopes, self._client, loop)
        return {"Authorization": f"Bearer {self._token}"}
