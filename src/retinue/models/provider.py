"""A provider as the operator configured it, and a model of one: format × endpoint × key × sizes.

Which model an agent gets is decided in `retinue.models.resolve`. Keys are read when
a request leaves and are in no error and no representation.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

from retinue.models import failures, prices
from retinue.models.formats import BASE_URLS, FormatName, load_format
from retinue.models.known import ModelInfo, known
from retinue.models.names import MAKERS
from retinue.models.sse import Splitter
from retinue.models.transport import Response, Transport, host_of
from retinue.models.wire import Format, Reader
from retinue.ports.model import Answer, Fragment, Head, OnDelta, Request
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError
from retinue.schema.message import Turn

DEFAULT_WINDOW = 128_000
DEFAULT_MAX_OUTPUT = 8192
OPENAI_HOST = "api.openai.com"
_LOCAL = re.compile(r"127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|\[|0\.0\.0\.0|[^.]+$|.*\.local(:\d+)?$")
_RENAMED = re.compile(rf"{re.escape(OPENAI_HOST)}$|\.azure\.com$")
"""Hosts that call the limit of an answer `max_completion_tokens`."""
_LARGEST_ERROR = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """One provider of the operator's configuration."""

    name: str
    format: FormatName
    base_url: str | None = None
    """None: the place of the format's maker. For `scripted`: the script's file."""
    key: str | Callable[[], str | None] | None = field(default=None, repr=False)
    """The name of an environment variable, or what gives the key; None: no key is sent."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Sent with each request, over those of the format; an empty value removes one."""
    models: Mapping[str, ModelInfo] = field(default_factory=dict[str, ModelInfo])
    """What it offers. Empty: whatever it is asked for."""
    default_model: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of other providers' models → what is used here instead."""
    concurrency: int | None = None
    """Requests at a time."""
    idle_timeout: float = 300.0
    """Seconds without a byte after which a request has failed."""

    @property
    def url(self) -> str:
        return (self.base_url or BASE_URLS.get(self.format, "")).rstrip("/")

    @property
    def host(self) -> str:
        return host_of(self.url).lower()

    @property
    def key_source(self) -> str | None:
        """Where the key comes from, for messages."""
        return self.key if isinstance(self.key, str) else None if self.key is None else "the configuration"

    def read_key(self, env: Mapping[str, str]) -> str | None:
        if not isinstance(self.key, str):
            return None if self.key is None else self.key()
        if key := env.get(self.key):
            return key
        raise ModelError(
            f"{self.name} needs a key and the environment variable {self.key} is not set", hint=f"export {self.key}=…"
        )

    def info(self, model: str) -> ModelInfo:
        """The operator's word, else the table of known models, else the kept price list."""
        table = known(model)
        if table is not None and not any(self.name in group for group in MAKERS.values()):
            table = ModelInfo(window=table.window, max_output=table.max_output)
        info = self.models.get(model, ModelInfo()).over(table)
        if (info.window is not None and info.price_in is not None) or _LOCAL.match(self.host):
            return info
        return info.over(prices.listed("google" if self.name == "gemini" else self.name, model))


def from_environment(env: Mapping[str, str]) -> list[ProviderConfig]:
    """The providers that the usual variables name, without any configuration.

    OpenAI itself is spoken to in its own newer format, which keeps reasoning from
    step to step; another base URL is taken for a compatible server, which speaks Chat.
    """
    found: list[ProviderConfig] = []
    usual: Mapping[str, FormatName] = {"openai": "openai-chat", "anthropic": "anthropic", "gemini": "gemini"}
    for name, wire in usual.items():
        key, base = f"{name.upper()}_API_KEY", f"{name.upper()}_BASE_URL"
        if key not in env and base not in env:
            continue
        url = env.get(base) or None
        if name == "openai" and (url is None or f"//{OPENAI_HOST}/" in f"{url}/"):
            wire = "openai-responses"
        found.append(ProviderConfig(name=name, format=wire, base_url=url, key=key if env.get(key) else None))
    return found


class WireModel:
    """One model of one provider, spoken to in one of our formats."""

    def __init__(
        self,
        config: ProviderConfig,
        model: str,
        *,
        transport: Transport,
        env: Mapping[str, str],
        limit: asyncio.Semaphore | None = None,
    ) -> None:
        self.name = f"{config.name}/{model}"
        self.format: str = config.format
        self._config = config
        self._model = model
        self._transport = transport
        self._env = env
        self._limit: AbstractAsyncContextManager[object] = nullcontext() if limit is None else limit

    @property
    def window(self) -> int:
        return self._info.window or DEFAULT_WINDOW

    @property
    def max_output(self) -> int:
        return self._info.max_output or DEFAULT_MAX_OUTPUT

    def encode_head(self, head: Head) -> Fragment:
        return self._format.encode_head(head, self._model)

    def encode_turn(self, turn: Turn) -> Fragment:
        return self._format.encode_turn(turn, self._model)

    def price(self, usage: Usage) -> int | None:
        return prices.cost(usage, self._info)

    async def ask(self, request: Request, on_delta: OnDelta | None = None) -> Answer:
        key = self._config.read_key(self._env)
        try:
            return await self._ask(request, key, on_delta)
        except ModelError as error:
            failure = self._named(error, key)
        # Outside the handler, so that no context keeps what the provider said of the key.
        raise failure

    async def _ask(self, request: Request, key: str | None, on_delta: OnDelta | None) -> Answer:
        body = self._format.body(request, self._model)
        given = {**self._format.headers(key, self._model), **self._config.headers}
        headers = {name: value for name, value in given.items() if value}
        async with self._limit:
            with await self._transport.post(
                self._urls[request.stream], headers=headers, body=body, idle_timeout=self._config.idle_timeout
            ) as response:
                if not 200 <= response.status < 300:
                    said = await response.rest(_LARGEST_ERROR)
                    raise failures.classify(response.status, response.headers, said)
                if request.stream and response.is_stream:
                    return await _read(response, self._format.reader(self._model, on_delta))
                return self._format.parse(await response.rest(), self._model)

    def _named(self, error: ModelError, key: str | None) -> ModelError:
        text = f"{self.name}: {failures.redacted(error.message, key, *self._config.headers.values())}"
        hint = error.hint
        if error.status in (401, 403):
            source = self._config.key_source
            text += f" (the key was read from {source})" if source else " (no key is configured)"
            hint = f"check that the key is valid for {self._config.host} and may use {self._model}"
        return type(error)(
            text, status=error.status, transient=error.transient, retry_after=error.retry_after, hint=hint
        )

    @cached_property
    def _format(self) -> Format:
        renamed = _RENAMED.search(self._config.host) is not None
        return load_format(self._config.format, max_output=self.max_output, renamed=renamed)

    @cached_property
    def _urls(self) -> Mapping[bool, str]:
        """Where to send requests, by whether the answer is to stream."""
        paths = {stream: self._format.path(self._model, stream=stream) for stream in (False, True)}
        return {stream: _joined(self._config.url, path) for stream, path in paths.items()}

    @cached_property
    def _info(self) -> ModelInfo:
        return self._config.info(self._model)


async def _read(response: Response, reader: Reader) -> Answer:
    splitter = Splitter()
    while read := await response.read():
        for data in splitter.feed(read):
            reader.feed(data)
        reader.flush()
    for data in splitter.finish():
        reader.feed(data)
    reader.flush()
    return reader.answer()


def _joined(base: str, path: str) -> str:
    """Base URLs are written with and without the version that the path begins with, and with a query."""
    base, mark, query = base.partition("?")
    url = base.rstrip("/").removesuffix("/v1") + path if path.startswith("/v1/") else base.rstrip("/") + path
    return f"{url}{'&' if '?' in path else mark}{query}" if mark else url
