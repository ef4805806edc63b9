"""The servers that run: started when first needed, shared, started again after a crash, stopped together."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

from retinue.ports.tool import Inquiry, ToolContext
from retinue.remotes.mcp.config import SIGN_IN_SECONDS, START_SECONDS, ServerConfig
from retinue.remotes.mcp.elicit import elicited
from retinue.remotes.mcp.listed import Listed, Seen, listed
from retinue.remotes.mcp.place import Place, isolation

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import ClientRequestContext, IncomingMessage
    from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, ErrorData

log = logging.getLogger("retinue.mcp")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_STEADY = 60.0
"""A server that ran this long is not one that keeps crashing."""
_STOP_SECONDS = 8.0
_LIST_SECONDS = 5.0
_MOST_PAGES = 100


class Unavailable(Exception):
    """The server is not there; the text says why."""


class _Flight:
    """A call under way, for the questions that its server asks meanwhile."""

    def __init__(self, context: ToolContext, clock: asyncio.Timeout) -> None:
        self.context = context
        self._clock = clock
        self._left = 0.0
        self._asked: set[asyncio.Future[object]] = set()

    async def ask(self, inquiry: Inquiry) -> object:
        """The answer; None when there is none, also because the call ended first. The call's time stands still."""
        if self.context.ask is None:
            return None
        loop, end = asyncio.get_running_loop(), self._clock.when()
        if end is not None:
            self._left = end - loop.time()
            self._clock.reschedule(None)
        question = asyncio.ensure_future(self.context.ask(inquiry))
        self._asked.add(question)
        try:
            await asyncio.wait([question])
            return None if question.cancelled() else question.result()
        finally:
            question.cancel()
            self._asked.discard(question)
            if not self._asked:
                with suppress(RuntimeError):  # the call is over
                    self._clock.reschedule(loop.time() + self._left)

    async def land(self) -> None:
        """Withdraw the questions that are still open."""
        for question in self._asked:
            question.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)


_flight: ContextVar[_Flight | None] = ContextVar("flight", default=None)


class Connection:
    """One server. `tools` are what it listed last; `generation` counts how often that changed."""

    def __init__(self, config: ServerConfig, place: Place, seen: Seen) -> None:
        self.config = config
        self.tools: tuple[Listed, ...] = ()
        self.changed: Mapping[str, str] = {}
        """Tools that are not what they were when they were first seen, and what they said then."""
        self.generation = 0
        self.problem = config.problem
        self.server = ""
        """Its name, version and protocol, in its own words."""
        self.isolation = ""
        self._place = place
        self._seen = seen
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._ended = asyncio.Event()
        self._stale = asyncio.Event()
        self._fresh = asyncio.Event()
        self._failures = 0
        self._not_before = 0.0
        self._flights: list[_Flight] = []

    async def ready(self, seconds: float) -> bool:
        """Start the server unless it runs, and wait for it; when it is not there in time, `problem` says why."""
        if not self._live and not self.config.problem:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._start()
        return self._live

    @property
    def _live(self) -> bool:
        return self._client is not None and not self._ended.is_set()

    async def _start(self) -> None:
        if self._task is not None and self._ended.is_set():
            await asyncio.wait([self._task])  # it is going down
        if self._task is None or self._task.done():
            self._settled.clear()
            self._ended.clear()
            self.problem = "it is still starting"
            self._task = asyncio.create_task(self._run())
        await self._settled.wait()

    async def call(
        self, tool: str, arguments: Mapping[str, object], context: ToolContext, seconds: float
    ) -> "CallToolResult":
        """Call a tool and wait `seconds` at most, besides what a person takes to answer the server's questions.

        Raises:
            Unavailable: the server is not there, or was gone before it answered.
            TimeoutError: no answer in time.
            MCPError: the server refused.
        """
        if not await self.ready(START_SECONDS) or self._client is None:
            raise Unavailable(self.problem)

        async def told(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            context.progress(f"{message} ({share})\n" if message else f"{share}\n")

        async with asyncio.timeout(seconds) as clock:
            flight = _Flight(context, clock)
            token = _flight.set(flight)
            self._flights.append(flight)
            try:
                answer = await self._client.call_tool(tool, dict(arguments), progress_callback=told)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._fresh.wait(), _LIST_SECONDS)
                return answer
            except Exception as error:
                if "Session terminated" in str(error):  # the SDK's word for a session that the server forgot
                    self._ended.set()
                    raise Unavailable("it has forgotten this session; call again to open another") from error
                raise
            finally:
                await flight.land()
                self._flights.remove(flight)
                _flight.reset(token)

    def accept(self, tool: Listed) -> None:
        """A person let a changed tool run: this is what it is from now on."""
        self._seen.accept(self.config.identity, tool)
        self.changed = {name: said for name, said in self.changed.items() if name != tool.name}
        self.generation += 1

    async def close(self) -> None:
        if self._task is None:
            return
        self._ended.set()
        if self._client is None:
            self._task.cancel()
        done, _ = await asyncio.wait([self._task], timeout=_STOP_SECONDS)
        if not done:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # the server's life, in one task: what the SDK opens it must close in the same one

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._not_before - loop.time(), 0.0))
        started, problem = loop.time(), "it ended"
        try:
            async with AsyncExitStack() as held:
                async with asyncio.timeout(SIGN_IN_SECONDS if self._place.show else START_SECONDS):
                    await self._open(held)
                started = loop.time()
                await self._serve()
        except TimeoutError:
            problem = f"it was not ready within {START_SECONDS:g} s"
        except Exception as error:
            log.info("MCP server %s failed", self.config.name, exc_info=True)
            problem = _told(error) or problem
        finally:
            self._client = None
            said = self._place.said(self.config)
            self.problem = f"{problem}; it said: {said}" if said else problem
            self._failures = 1 if loop.time() - started > _STEADY else self._failures + 1
            pause = min(_FIRST_PAUSE * 2 ** (self._failures - 1), _LONGEST_PAUSE)
            self._not_before = loop.time() + pause
            self._settled.set()

    async def _open(self, held: AsyncExitStack) -> None:
        try:
            from retinue.remotes.mcp.opening import Handlers, open_client
        except ImportError:
            raise Unavailable("MCP support is not installed; `pip install 'retinue[mcp]'` adds it") from None
        self.isolation = isolation(self.config)
        handlers = Handlers(ended=self._ended.set, message=self._message, elicitation=self._elicit)
        client = await open_client(self.config, self._place, handlers, held)
        if client.protocol_version >= "2026" and client.server_capabilities.tools:
            with suppress(Exception):  # without the stream a change is noticed at the next start
                await held.enter_async_context(client.listen(tools_list_changed=True))
        about = client.server_info
        self.server = f"{about.name} {about.version}" if about else "unnamed"
        self.server += f", protocol {client.protocol_version}"
        await self._list(client)
        self._client = client

    async def _serve(self) -> None:
        """Until the server ends or is no longer wanted; lists its tools anew when it says so."""
        self.problem = ""
        self._settled.set()
        ended = asyncio.create_task(self._ended.wait())
        try:
            while not ended.done():
                stale = asyncio.create_task(self._stale.wait())
                await asyncio.wait([ended, stale], return_when=asyncio.FIRST_COMPLETED)
                stale.cancel()
                if self._stale.is_set() and self._client is not None and not ended.done():
                    self._stale.clear()
                    await self._list(self._client)
        finally:
            ended.cancel()

    async def _list(self, client: "Client") -> None:
        found: dict[str, Listed] = {}
        cursor: str | None = None
        for _ in range(_MOST_PAGES if client.server_capabilities.tools else 0):
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                found.setdefault(tool.name, listed(tool))
            cursor = page.next_cursor
            if cursor is None:
                break
        tools = tuple(found.values())
        changed = self._seen.before(self.config.identity, tools)
        if (tools, changed) != (self.tools, self.changed):
            self.tools, self.changed = tools, changed
            self.generation += 1
        self._fresh.set()

    def _message(self, received: "IncomingMessage") -> None:
        if getattr(received, "method", "") == "notifications/tools/list_changed":
            self._fresh.clear()
            self._stale.set()

    async def _elicit(
        self, context: "ClientRequestContext", params: "ElicitRequestParams"
    ) -> "ElicitResult | ErrorData":
        from mcp.types import INVALID_REQUEST, ErrorData

        flight = _flight.get() or self._only_flight()
        if flight not in self._flights or flight.context.ask is None:
            return ErrorData(code=INVALID_REQUEST, message="Nobody can be asked about this call")
        return await elicited(self.config.name, params, flight.ask)

    def _only_flight(self) -> _Flight | None:
        """Before protocol 2026-07-28 a server does not say which call it asks for; one thread's may be under way."""
        threads = {flight.context.thread for flight in self._flights}
        return self._flights[-1] if len(threads) == 1 else None


class Pool:
    def __init__(self, place: Place) -> None:
        self.place = place
        self._seen = Seen(place.folder / "seen.json")
        self._connections: dict[str, Connection] = {}

    def get(self, config: ServerConfig) -> Connection:
        """The connection that everybody with this configuration shares; nothing is started yet."""
        if config.key not in self._connections:
            self._connections[config.key] = Connection(config, self.place, self._seen)
        return self._connections[config.key]

    async def close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
        self._connections.clear()


def _told(error: BaseException) -> str:
    """What went wrong; of a group, what went wrong first."""
    members: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return _told(members[0]) if members else str(error) or type(error).__name__
