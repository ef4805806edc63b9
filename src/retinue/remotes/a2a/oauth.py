"""OAuth2 for remote agents: authorization code with PKCE, tokens in files that only their owner reads.

Agents use the tokens that are there and renew them. Only a person can sign in:
`retinue agents sign-in AGENT` opens the page and waits for the browser to come back.
"""

import base64
import secrets
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec
from a2a.types.a2a_pb2 import AgentCard

from retinue.net.client import GuardedClient
from retinue.net.decoding import FetchFailed
from retinue.remotes.callback import Callback
from retinue.remotes.private import write_private
from retinue.schema.errors import Denied, SettingsError

if TYPE_CHECKING:
    from retinue.remotes.a2a.auth import Auth

_SIGN_IN_SECONDS = 300.0
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    access_token: str
    refresh_token: str | None = None
    expires: float | None = None


class _Answered(msgspec.Struct, frozen=True, kw_only=True):
    access_token: str
    refresh_token: str | None = None
    expires_in: float | None = None


class OAuth:
    """Tokens of one agent, by its address, its client and the place that its definition renews them at."""

    def __init__(
        self, agent: str, auth: "Auth", url: str, card: AgentCard | None, folder: Path, client: GuardedClient
    ) -> None:
        self._agent, self._auth, self._client = agent, auth, client
        self._file = folder / (sha256(f"{url} {auth.client_id} {auth.token_url}".encode()).hexdigest() + ".json")
        self._authorize, self._token_url = _endpoints(auth, card)

    async def headers(self, refused: int) -> Mapping[str, str]:
        """Raises SettingsError when a person must sign in first."""
        kept = self._read()
        is_over = kept is not None and kept.expires is not None and kept.expires < time.time() + 30
        if kept is not None and (refused or is_over):
            renew = {"grant_type": "refresh_token", "refresh_token": kept.refresh_token or ""}
            kept = await self._exchange(renew) if kept.refresh_token and self._token_url else None
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
        verifier, back = secrets.token_urlsafe(64), Callback(self._auth.redirect_port)
        query = {
            "response_type": "code",
            "client_id": self._auth.client_id,
            "redirect_uri": back.address,
            "scope": " ".join(self._auth.scopes),
            "state": secrets.token_urlsafe(24),
            "code_challenge": base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        glue = "&" if "?" in self._authorize else "?"
        page = self._authorize + glue + urlencode({name: value for name, value in query.items() if value})
        await back.listen(page)
        show(page)
        code = (await back.answer(_SIGN_IN_SECONDS))["code"]
        grant = {"grant_type": "authorization_code", "code": code, "redirect_uri": back.address}
        if await self._exchange({**grant, "code_verifier": verifier}) is None:
            raise SettingsError(f"{self._agent}: {self._token_url} did not take the code")

    async def _exchange(self, grant: Mapping[str, str]) -> Kept | None:
        form = {**grant, "client_id": self._auth.client_id}
        if self._auth.client_secret:
            form["client_secret"] = self._auth.client_secret
        try:
            answer = await self._client.fetch("POST", self._token_url, headers=_FORM, body=urlencode(form).encode())
            if answer.status != 200:
                return None
            got = msgspec.json.decode(answer.body, type=_Answered)
        except (FetchFailed, Denied, msgspec.DecodeError) as error:
            raise SettingsError(f"{self._agent}: {self._token_url} gave no token: {error}") from None
        kept = Kept(
            access_token=got.access_token,
            refresh_token=got.refresh_token or grant.get("refresh_token"),
            expires=time.time() + got.expires_in if got.expires_in else None,
        )
        write_private(self._file, msgspec.json.encode(kept))
        return kept

    def _read(self) -> Kept | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Kept)
        except (OSError, msgspec.DecodeError):
            return None


def _endpoints(auth: "Auth", card: AgentCard | None) -> tuple[str, str]:
    """The definition's, else the card's."""
    if auth.authorization_url or auth.token_url or card is None:
        return auth.authorization_url, auth.token_url
    for scheme in card.security_schemes.values():
        if scheme.HasField("oauth2_security_scheme"):
            flow = scheme.oauth2_security_scheme.flows.authorization_code
            return flow.authorization_url, flow.token_url
    return "", ""
