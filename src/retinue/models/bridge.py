"""Every provider we do not speak to ourselves, through pydantic-ai's model classes.

An extra (`retinue[bridge]`), loaded at the first request because it is heavy; the
conversion in both directions is in `retinue.models.bridge_messages`. The library
retries nothing: that is the runtime's business.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from retinue.models import neutral
from retinue.ports.model import Answer, OnDelta, Request
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError

if TYPE_CHECKING:
    from pydantic_ai.models import Model as LibraryModel
    from pydantic_ai.providers import Provider

NAME = "bridge"


class BridgeModel:
    """One model of the library.

    Args:
        model: What the library calls it, `groq:llama-3.3-70b` or `bedrock:…`; or one of its models.
        name: Ours, `provider/model`.
        base_url: Where to send requests instead of the provider's own place.
        api_key: Instead of the variable that the library reads.
        price: Nano-dollars for a usage.
    """

    def __init__(
        self,
        model: "str | LibraryModel",
        *,
        name: str,
        window: int = 128_000,
        max_output: int = 8192,
        base_url: str | None = None,
        api_key: str | None = None,
        price: Callable[[Usage], int | None] = lambda _: None,
        limit: asyncio.Semaphore | None = None,
    ) -> None:
        self.name = name
        self.format = NAME
        self.window = window
        self.max_output = max_output
        self._price = price
        self._limit: AbstractAsyncContextManager[object] = nullcontext() if limit is None else limit
        self._wanted = model
        self._endpoint = {k: v for k, v in (("base_url", base_url), ("api_key", api_key)) if v is not None}
        self._model: LibraryModel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    encode_head = staticmethod(neutral.encode_head)
    encode_turn = staticmethod(neutral.encode_turn)

    def price(self, usage: Usage) -> int | None:
        return self._price(usage)

    async def ask(self, request: Request, on_delta: OnDelta | None = None) -> Answer:
        model = await self._opened()
        from retinue.models import bridge_messages as messages

        asked = messages.asked(request, model, self.name)
        watch = None if on_delta is None else messages.Watcher(on_delta)
        try:
            if not request.stream:
                async with self._limit:
                    return messages.answer(await model.request(*asked), self.name)
            async with self._limit, model.request_stream(*asked) as stream:
                async for event in stream:
                    if watch is not None:
                        watch(event)
                return messages.answer(stream.get(), self.name)
        except messages.FAILURES as error:
            failure = messages.failure(error, self.name, self._endpoint.get("api_key"))
        # Outside the handler, so that no context keeps what the provider said of the key.
        raise failure

    async def close(self) -> None:
        """Close the library's connections; the next request opens new ones."""
        model, self._model = self._model, None
        if model is not None:
            await model.__aexit__(None, None, None)

    async def _opened(self) -> "LibraryModel":
        loop = asyncio.get_running_loop()
        # A sync facade may run each call in a loop of its own; connections belong to one.
        if self._model is None or self._loop is not loop:
            self._loop = loop
            self._model = self._found(self._wanted) if isinstance(self._wanted, str) else self._wanted
            await self._model.__aenter__()
        return self._model

    def _found(self, wanted: str) -> "LibraryModel":
        try:
            from pydantic_ai.exceptions import UserError
            from pydantic_ai.models import infer_model
        except ImportError as error:
            raise ModelError(
                f"{self.name} is reached through pydantic-ai, which is not installed",
                hint="pip install 'retinue[bridge]'",
            ) from error
        try:
            return infer_model(wanted, self._provider) if self._endpoint else infer_model(wanted)
        except ImportError as error:
            raise ModelError(f"{self.name}: {error}") from error
        except (UserError, TypeError, ValueError) as error:
            raise ModelError(f"{self.name} can't be set up: {error}") from error

    def _provider(self, name: str) -> "Provider[object]":
        from pydantic_ai.providers import infer_provider_class

        return infer_provider_class(name)(**self._endpoint)
