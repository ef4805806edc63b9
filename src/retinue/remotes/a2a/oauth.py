"""OAuth2 for remote agents: authorization code with PKCE, tokens in files that only their owner reads.

Agents use the tokens that are there and renew them. Only a person can sign in:
`retinue agents sign-in AGENT` opens the page and waits for the browser to come back.
"""

import asyncio
import base64
import secrets
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from a2a.types.a2a_pb2 import AgentCard

from retinue.net.client import GuardedClient
from retinue.schema.errors import SettingsError

_SIGN_IN_SECONDS = 300.0
_DONE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nDone. You can close this page.\n"


class Settings(Protocol):
    """The part of `auth` that is read here."""

    @property
    def client_id(self) -> str: ...
    @property
    def client_secret(self) -> str: ...
    @property
    def scopes(self) -> tuple[str, ...]: ...
    @property
    def authorization_url(self) -> str: ...
    @property
    def token_url(self) -> str: ...
    @property
    def redirect_port(self) -> int: ...


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    access_token: str
    refresh_token: str | None = None
    expires: float | None = None


class _Answered(msgspec.Struct, frozen=True, kw_only=True):
    access_token: str
    refresh_token: str | None = None
    expires_in: float | None = None


class Tokens:
    """One file for each agent and client."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> Kept | None:
        try:
            return msgspec.json.decode((self._folder / name).read_bytes(), type=Kept)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, name: str, kept: Kept) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = self._folder / f".{name}.{secrets.token_hex(4)}"
        partial.touch(mode=0o600)
        partial.write_bytes(msgspec.json.encode(kept))
        partial.rename(self._folder / name)


class OAuth:
    def __init__(
        self, agent: str, auth: Settings, url: str, card: AgentCard | None, tokens: Tokens, client: GuardedClient
    ) -> None:
        self._agent, self._auth, self._tokens, self._client = agent, auth, tokens, client
        self._name = sha256(f"{url} {auth.client_id}".encode()).hexdigest() + ".json"
        self._authorize, self._token_url = _endpoints(auth, card)

    async def headers(self, refused: int) -> Mapping[str, str]:
        """Raises SettingsError when a person must sign in first."""
        kept = self._tokens.read(self._name)
        is_over = kept is not None and kept.expires is not None and kept.expires < time.time() + 30
        if kept is not None and (refused or is_over):
            kept = await self._renewed(kept)
        if kept is None:
            raise SettingsError(
                f"{self._agent} wants a sign-in", hint=f"run `retinue agents sign-in {self._agent}`, then try again"
            )
        return {"Authorization": f"Bearer {kept.access_token}"}

    async def sign_in(self, show: Callable[[str], None]) -> None:
        """Show a person the page, wait for the code, keep the tokens."""
        if not (self._authorize and self._token_url and self._auth.client_id):
            raise SettingsError(
                f"{self._agent}: OAuth2 needs client_id, and authorization_url and token_url from auth or the card"
            )
        verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(24)
        challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        back = f"http://127.0.0.1:{self._auth.redirect_port}/callback"
        query = {
            "response_type": "code",
            "client_id": self._auth.client_id,
            "redirect_uri": back,
            "scope": " ".join(self._auth.scopes),
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        glue = "&" if "?" in self._authorize else "?"
        page = self._authorize + glue + urlencode({name: value for name, value in query.items() if value})
        code = await _code(self._auth.redirect_port, state, lambda: show(page))
        grant = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": verifier}
        if await self._exchange(grant, None) is None:
            raise SettingsError(f"{self._agent}: {self._token_url} did not take the code")

    async def _renewed(self, kept: Kept) -> Kept | None:
        if not kept.refresh_token or not self._token_url:
            return None
        return await self._exchange({"grant_type": "refresh_token", "refresh_token": kept.refresh_token}, kept)

    async def _exchange(self, grant: Mapping[str, str], before: Kept | None) -> Kept | None:
        form = {**grant, "client_id": self._auth.client_id}
        if self._auth.client_secret:
            form["client_secret"] = self._auth.client_secret
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        answer = await self._client.fetch("POST", self._token_url, headers=headers, body=urlencode(form).encode())
        if answer.status != 200:
            return None
        got = msgspec.json.decode(answer.body, type=_Answered)
        kept = Kept(
            access_token=got.access_token,
            refresh_token=got.refresh_token or (before.refresh_token if before else None),
            expires=time.time() + got.expires_in if got.expires_in else None,
        )
        self._tokens.write(self._name, kept)
        return kept


def _endpoints(auth: Settings, card: AgentCard | None) -> tuple[str, str]:
    """The definition's, else the card's."""
    if auth.authorization_url or auth.token_url or card is None:
        return auth.authorization_url, auth.token_url
    for scheme in card.security_schemes.values():
        if scheme.HasField("oauth2_security_scheme"):
            flow = scheme.oauth2_security_scheme.flows.authorization_code
            return flow.authorization_url, flow.token_url
    return "", ""


async def _code(port: int, state: str, opened: Callable[[], None]) -> str:
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readline()).decode("latin-1").split(" ")[1:2]
        query = {name: v[0] for name, v in parse_qs(urlsplit(target[0] if target else "").query).items()}
        writer.write(_DONE)
        await writer.drain()
        writer.close()
        if came.done() or not secrets.compare_digest(query.get("state", ""), state):
            return
        if "code" in query:
            came.set_result(query["code"])
        else:
            came.set_exception(SettingsError(f"the sign-in was refused: {query.get('error', 'no code came')}"))

    server = await asyncio.start_server(take, "127.0.0.1", port)
    try:
        opened()
        async with asyncio.timeout(_SIGN_IN_SECONDS):
            return await came
    except TimeoutError:
        raise SettingsError(f"nobody signed in within {_SIGN_IN_SECONDS:g} s") from None
    finally:
        server.close()
