"""websearch: asks a search provider; without one it says so.

A provider is anything with `search`; the one shipped speaks to a SearXNG-compatible endpoint.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol
from urllib.parse import urlencode

import msgspec

from retinue.ports.tool import Result, ToolContext
from retinue.schema.errors import RetinueError
from retinue.tools.attempt import Failed, declare, taken
from retinue.tools.settings import ToolSettings


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    title: str = ""
    url: str = ""
    content: str = ""


class SearchProvider(Protocol):
    async def search(self, query: str, count: int) -> Sequence[Hit]:
        """Raises RetinueError when it can't answer."""
        ...


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    query: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    count: Annotated[int, msgspec.Meta(ge=1, le=50, description="How many results.")] = 10


class WebSearch:
    spec = declare("websearch", "Searches the web; returns titles, URLs and extracts.", Arguments, "read")

    def __init__(self, settings: ToolSettings, search: SearchProvider | None = None) -> None:
        self._provider = search or (SearXng(settings) if settings.search_url else None)

    def resource(self, arguments: Mapping[str, object]) -> str:
        return str(arguments.get("query", ""))

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        del context
        if self._provider is None:
            text = "No search provider is configured here, so nothing was searched. An operator can set `search_url`."
            return Result(status="error", text=text)
        try:
            wanted = taken(Arguments, arguments)
            hits = await self._provider.search(wanted.query, wanted.count)
        except Failed as failed:
            return failed.result
        except RetinueError as error:
            return Result(status="error", text=f"The search failed: {error}.", taints=("untrusted",))
        shown = [f"{n}. {h.title}\n   {h.url}\n   {h.content}".rstrip() for n, h in enumerate(hits[: wanted.count], 1)]
        return Result(text="\n".join(shown) or f"Nothing was found for {wanted.query}.", taints=("untrusted",))


class _Answer(msgspec.Struct):
    results: list[Hit]


class SearXng:
    """A SearXNG-compatible endpoint: `?q=…&format=json`."""

    def __init__(self, settings: ToolSettings) -> None:
        self._url = settings.search_url or ""
        self._network = settings.network

    async def search(self, query: str, count: int) -> Sequence[Hit]:
        del count  # the endpoint decides how many make a page
        from retinue.net.client import GuardedClient
        from retinue.net.decoding import FetchFailed
        from retinue.policy.network import Origin, parse

        origin = parse(self._url)
        own = {f"{origin.host}:{origin.port}"} if isinstance(origin, Origin) else set[str]()
        network = msgspec.structs.replace(self._network, hosts=self._network.hosts | own)
        async with GuardedClient(network) as client:
            fetched = await client.fetch("GET", f"{self._url}?{urlencode({'q': query, 'format': 'json'})}")
        if fetched.status != 200:
            raise FetchFailed(f"{self._url} answered {fetched.status}")
        try:
            return msgspec.json.decode(fetched.body, type=_Answer).results
        except msgspec.DecodeError as error:
            raise FetchFailed(f"{self._url} did not answer in SearXNG's form: {error}") from None
