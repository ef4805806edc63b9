"""Signing in to servers: the SDK discovers, registers and exchanges; here are its settings, its storage, its browser.

Tokens lie in one file a server, readable by its owner only. Agents use what is
there and renew it; only `retinue mcp test`, with a person in front of it, opens a sign-in.
"""

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from retinue.remotes.callback import Callback
from retinue.remotes.mcp.config import SIGN_IN_SECONDS, ServerConfig
from retinue.remotes.private import write_private
from retinue.schema.errors import SettingsError

Show = Callable[[str], None]
"""Shows a person the address to sign in at."""


class Auth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `auth` of a server may say."""

    type: Literal["oauth", "bearer"] = "oauth"
    token: str = ""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    client_id: str | None = None
    client_secret: str | None = None
    issuer: str | None = None
    """Of client credentials: the only authorization server that they are sent to."""
    scope: str | None = None
    redirect_port: int = 8419


def auth_of(config: ServerConfig) -> Auth:
    try:
        return msgspec.convert(config.auth or {}, Auth)
    except msgspec.ValidationError as error:
        raise SettingsError(
            f"auth of the MCP server {config.name} does not fit: {error}",
            hint='write type = "oauth" or "bearer"; oauth takes grant, client_id, client_secret, issuer, scope',
        ) from None


def provider(config: ServerConfig, folder: Path, show: Show | None) -> OAuthClientProvider:
    """The SDK's provider for one server.

    Args:
        config: Whose `auth` says how.
        folder: Where tokens are kept.
        show: Shows a person where to sign in; without it a sign-in is refused.
    """
    auth = auth_of(config)
    whose = "\0".join((config.identity, auth.grant, auth.client_id or "", auth.issuer or ""))
    file = _TokenFile(folder / f"{sha256(whose.encode()).hexdigest()}.json")
    if auth.grant == "client_credentials":
        if not (auth.client_id and auth.client_secret and auth.issuer):
            raise SettingsError(f"auth of {config.name}: client_credentials needs client_id, client_secret and issuer")
        found: OAuthClientProvider = ClientCredentialsOAuthProvider(
            config.url, file, auth.client_id, auth.client_secret, scope=auth.scope, issuer=auth.issuer
        )
    else:
        browser = _Browser(config.name, auth.redirect_port, show)
        metadata = OAuthClientMetadata(
            client_name="Retinue",
            redirect_uris=[AnyUrl(browser.address)],
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method="client_secret_basic" if auth.client_secret else "none",
            scope=auth.scope,
        )
        if auth.client_id:
            file.registered = OAuthClientInformationFull(
                client_id=auth.client_id, client_secret=auth.client_secret, **metadata.model_dump()
            )
        found = OAuthClientProvider(config.url, metadata, file, browser.open, browser.answer)
    file.attach(found)
    return found


class _Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    tokens: str | None = None
    expires: float | None = None
    client: str | None = None
    server: str | None = None
    """The authorization server's metadata: a token is renewed where it was made, also after a restart."""


class _TokenFile:
    """The SDK's `TokenStorage`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.registered: OAuthClientInformationFull | None = None
        self._provider: OAuthClientProvider | None = None

    def attach(self, provider: OAuthClientProvider) -> None:
        self._provider = provider
        if known := self._read().server:
            provider.context.oauth_metadata = OAuthMetadata.model_validate_json(known)

    async def get_tokens(self) -> OAuthToken | None:
        kept = self._read()
        if kept.tokens is None:
            return None
        tokens = OAuthToken.model_validate_json(kept.tokens)
        if kept.expires is not None and kept.expires <= time.time():
            return tokens.model_copy(update={"access_token": ""})  # the SDK renews what has no access token
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        metadata = self._provider.context.oauth_metadata if self._provider else None
        self._write(
            tokens=tokens.model_dump_json(),
            expires=time.time() + tokens.expires_in if tokens.expires_in else None,
            server=metadata.model_dump_json() if metadata else None,
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        kept = self._read().client
        return self.registered or (OAuthClientInformationFull.model_validate_json(kept) if kept else None)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write(client=client_info.model_dump_json())

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return _Kept()

    def _write(self, **fields: object) -> None:
        write_private(self._path, msgspec.json.encode(msgspec.structs.replace(self._read(), **fields)))


class _Browser:
    def __init__(self, server: str, port: int, show: Show | None) -> None:
        self._server, self._show = server, show
        self._back = Callback(port)
        self.address = self._back.address

    async def open(self, url: str) -> None:
        if self._show is None:
            raise OAuthFlowError(f"it wants a sign-in; `retinue mcp test {self._server}` does that")
        await self._back.listen(url)
        self._show(url)

    async def answer(self) -> AuthorizationCodeResult:
        try:
            return AuthorizationCodeResult.model_validate(await self._back.answer(SIGN_IN_SECONDS))
        except SettingsError as error:
            raise OAuthFlowError(error.message) from None
