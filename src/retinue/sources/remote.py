"""External A2A agents: their definitions, checked and listed. Calling them is for `retinue.remotes`."""

from collections.abc import Mapping, Sequence

import msgspec

from retinue.ports.source import Entry, Snapshot
from retinue.schema.agent import AgentDefinition
from retinue.schema.problem import Problem
from retinue.sources.configuration import ConfigurationSource, ConfiguredAgents

AUTH_KEYS: dict[str, tuple[frozenset[str], ...]] = {
    "apikey": (frozenset({"key"}),),
    "http": (frozenset({"token"}), frozenset({"username", "password"}), frozenset({"value"})),
    "oauth": (frozenset(),),
    "oauth2": (frozenset(),),
    "google-credentials": (frozenset(),),
}
"""Each kind of auth → the sets of keys of which one must be there."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class RemoteSource:
    """The remote agents of the settings; asked when nothing else matched."""

    name = "a2a"

    def __init__(self, files: Sequence[ConfiguredAgents]) -> None:
        remote = [msgspec.structs.replace(f, agents=[{"kind": "remote", **a} for a in f.agents]) for f in files]
        self._source = ConfigurationSource(remote)

    async def load(self, previous: Snapshot | None) -> Snapshot:
        read = await self._source.load(None)
        entries = {id: checked_remote(entry) for id, entry in read.entries.items()}
        return msgspec.structs.replace(read, name=self.name, kind="a2a", priority="external", entries=entries)


def checked_remote(entry: Entry) -> Entry:
    """`entry` with what is wrong with it as a remote agent; local agents are returned as they are."""
    definition = entry.definition
    if definition is None or definition.kind != "remote":
        return entry
    messages = remote_problems(definition)
    if not messages:
        return entry
    found = [Problem(code="bad-remote", severity="error", message=m, file=entry.location) for m in messages]
    return msgspec.structs.replace(entry, definition=None, problems=(*entry.problems, *found))


def remote_problems(definition: AgentDefinition) -> tuple[str, ...]:
    """Why a remote agent can't be called: its card or its auth."""
    wrong: list[str] = []
    url, card = definition.agent_card_url, definition.agent_card_json
    if (url is None) == (card is None):
        found = "neither" if url is None else "both"
        wrong.append(f"{found} of agent_card_url and agent_card_json; wanted exactly one")
    if url is not None and (problem := _url_problem(url)):
        wrong.append(f"agent_card_url {problem}")
    if card is not None and (problem := _card_problem(card)):
        wrong.append(f"agent_card_json {problem}")
    if definition.auth is not None and (problem := _auth_problem(definition.auth)):
        wrong.append(f"auth {problem}")
    return tuple(wrong)


def _url_problem(url: str) -> str | None:
    from urllib.parse import urlsplit  # costs a tenth of a start, and few agents are remote

    try:
        parts = urlsplit(url)
    except ValueError:
        return "is not a URL"
    if parts.username or parts.password:
        return "holds a credential; use auth"
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return None if parts.hostname else "names no host"
    return f"uses {parts.scheme or 'no scheme'!r}; wanted https"


def _card_problem(text: str) -> str | None:
    try:
        card = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError as e:
        return f"is not a JSON object: {e}"
    missing = [key for key in ("name", "url") if not card.get(key)]
    has_interfaces = bool(card.get("supportedInterfaces") or card.get("additionalInterfaces"))
    if missing == ["url"] and has_interfaces:
        return None
    return f"lacks {' and '.join(missing)}" if missing else None


def _auth_problem(auth: Mapping[str, object]) -> str | None:
    kind = str(auth.get("type") or "")
    wanted = AUTH_KEYS.get(kind.lower())
    if wanted is None:
        return f"has the type {kind!r}; wanted apiKey, http, oauth or google-credentials"
    if any(keys <= auth.keys() for keys in wanted):
        return None
    return f"of type {kind} needs " + " or ".join(" and ".join(sorted(keys)) for keys in wanted)
