"""Remote agents' cards and clients: fetched once, kept until they are refused or their definition changes.

A card is fetched without credentials first and with them when that is refused. What cards say is
kept on disk too, so that callers are told of an agent's skills before it was spoken to.
"""

import asyncio
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import httpx
import msgspec
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import Client, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.constants import TransportProtocol
from google.protobuf.json_format import MessageToJson, ParseError

from retinue.net.client import GuardedClient
from retinue.net.decoding import FetchFailed
from retinue.net.settings import NetworkSettings
from retinue.net.transport import guarded_transport
from retinue.policy.network import Origin, parse
from retinue.remotes.a2a.auth import RETRIES, Credentials, Keys, Secret
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import Denied, ModelError, SettingsError

WELL_KNOWN = "/.well-known/agent-card.json"
_OLD = "/.well-known/agent.json"
_SKILLS = 12


class Connection(msgspec.Struct, frozen=True):
    card: AgentCard
    client: Client


class Connections:
    """Of one app; close it at the end."""

    def __init__(self, folder: Path, network: NetworkSettings, secret: Secret) -> None:
        """
        Args:
            folder: Where tokens and cards are kept.
            network: What the operator allows.
            secret: Variables that may be sent, by name and URL.
        """
        self._cards, self._tokens = folder / "cards", folder / "tokens"
        self._network, self._secret = network, secret
        self._guarded: GuardedClient | None = None
        self._open: dict[str, Connection] = {}
        self._lock = asyncio.Lock()

    async def get(self, definition: AgentDefinition) -> Connection:
        """Raises ModelError when there is no card to be had."""
        key = _key(definition)
        async with self._lock:
            if key not in self._open:
                card = await self.card(definition)
                self._open[key] = Connection(card, await self._client(definition, card))
        return self._open[key]

    async def drop(self, definition: AgentDefinition) -> None:
        """The agent refused us: what we knew of it is asked for again."""
        if (held := self._open.pop(_key(definition), None)) is not None:
            await held.client.close()

    async def card(self, definition: AgentDefinition) -> AgentCard:
        if definition.agent_card_json is not None:
            return _parsed(definition.agent_card_json.encode(), definition.id)
        body = await self._fetch(definition)
        card = _parsed(body, definition.id)
        self._cards.mkdir(parents=True, exist_ok=True)
        (self._cards / _key(definition)).write_text(MessageToJson(card))
        return card

    def known(self, definition: AgentDefinition) -> AgentCard | None:
        """What the card said when it was last read."""
        try:
            text = definition.agent_card_json or (self._cards / _key(definition)).read_text()
            return _parsed(text.encode(), definition.id)
        except (OSError, ModelError):
            return None

    async def sign_in(self, definition: AgentDefinition, show: Callable[[str], None]) -> None:
        """With a person in front of it; only OAuth2 needs one."""
        if (definition.auth or {}).get("type") != "oauth":
            raise SettingsError(f"{definition.id} has no OAuth2 to sign in with")
        try:
            card = await self.card(definition)
        except SettingsError:
            card = self.known(definition)  # the card wants the sign-in too
        await (await self._keys()).oauth(definition, _home(definition, card), card).sign_in(show)

    async def close(self) -> None:
        for held in self._open.values():
            await held.client.close()
        if self._guarded is not None:
            await self._guarded.__aexit__()

    async def _fetch(self, definition: AgentDefinition) -> bytes:
        url, plain = card_url(definition), {"Accept": "application/json"}
        self._permit(definition, url)
        client = await self._net()
        try:
            answer = await client.fetch("GET", url, headers=plain)
            for refused in range(RETRIES):
                if answer.status not in (401, 403):
                    break
                known = self.known(definition)
                if (headers := (await self._keys()).headers(definition, _home(definition, known), known)) is None:
                    break
                answer = await client.fetch("GET", url, headers={**await headers(refused), **plain})
            if answer.status == 404 and url.endswith(WELL_KNOWN):
                answer = await client.fetch("GET", url.removesuffix(WELL_KNOWN) + _OLD)
        except FetchFailed as error:
            raise ModelError(f"the card of {definition.id} could not be fetched: {error}", transient=True) from None
        except Denied as error:
            hint = "add host:port to network.allow of the settings if it is meant to be reached"
            raise ModelError(f"the card of {definition.id}: {error.message}", hint=hint) from None
        if answer.status != 200:
            raise ModelError(
                f"the card of {definition.id} was not given: {url} answered {answer.status}",
                status=answer.status,
                transient=answer.status >= 500,
                hint="check auth of the agent" if answer.status in (401, 403) else None,
            )
        return answer.body

    async def _client(self, definition: AgentDefinition, card: AgentCard) -> Client:
        url = _home(definition, card)
        self._permit(definition, *(interface.url for interface in card.supported_interfaces))
        headers = (await self._keys()).headers(definition, url, card)
        http = httpx.AsyncClient(
            transport=guarded_transport(httpx, await self._net()),
            auth=Credentials(url, headers) if headers else None,
            timeout=httpx.Timeout(None),
            trust_env=False,
        )
        bindings: list[str] = [TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON]
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=bindings, streaming=True)
        try:
            return ClientFactory(config).create(card)
        except ValueError as error:
            await http.aclose()
            raise ModelError(f"{definition.id} speaks neither JSON-RPC nor HTTP+JSON: {error}") from None

    def _permit(self, definition: AgentDefinition, *urls: str) -> None:
        for origin in map(parse, urls):
            if isinstance(origin, Origin) and self._network.denies(origin.host):
                raise ModelError(f"{definition.id}: {origin.host} is denied by network.deny")

    async def _keys(self) -> Keys:
        return Keys(secret=self._secret, tokens=self._tokens, client=await self._net())

    async def _net(self) -> GuardedClient:
        if self._guarded is None:
            self._guarded = await GuardedClient(self._network).__aenter__()
        return self._guarded


def card_url(definition: AgentDefinition) -> str:
    """A bare address means the usual place below it."""
    url = definition.agent_card_url or ""
    return url if url.endswith(".json") else url.rstrip("/") + WELL_KNOWN


def described(card: AgentCard, own: str = "") -> str:
    """What a caller is told: the definition's words, the agent's, and its skills."""
    lines = [own, card.description if card.description != own else ""]
    lines += [f"- {skill.name}: {skill.description}" for skill in card.skills[:_SKILLS]]
    return "\n".join(line for line in lines if line)


def _home(definition: AgentDefinition, card: AgentCard | None) -> str:
    """Whose origin may have our credentials."""
    first = next((interface.url for interface in card.supported_interfaces), "") if card else ""
    return definition.agent_card_url or first


def _parsed(body: bytes, agent: str) -> AgentCard:
    try:
        return parse_agent_card(msgspec.json.decode(body, type=dict[str, object]))
    except (msgspec.DecodeError, ParseError) as error:
        raise ModelError(f"the card of {agent} is not an agent card: {error}") from None


def _key(definition: AgentDefinition) -> str:
    identity = (definition.agent_card_url, definition.agent_card_json, definition.auth)
    return sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()
