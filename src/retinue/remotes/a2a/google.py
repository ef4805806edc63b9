"""Google's application default credentials. Boundary code: google-auth has no types."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false

import asyncio
from collections.abc import Mapping
from typing import Any

from retinue.net.client import Fetched, GuardedClient
from retinue.schema.errors import SettingsError


def access_token(scopes: tuple[str, ...], client: GuardedClient, loop: asyncio.AbstractEventLoop) -> str:
    """A fresh token. Runs in a thread, because google-auth blocks; `loop` makes its requests."""
    try:
        import google.auth
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport import Request, Response
    except ImportError:
        raise SettingsError("google-credentials needs google-auth", hint="pip install google-auth") from None

    class Answer(Response):
        def __init__(self, fetched: Fetched) -> None:
            self._fetched = fetched

        @property
        def status(self) -> int:
            return self._fetched.status

        @property
        def headers(self) -> Mapping[str, str]:
            return self._fetched.headers

        @property
        def data(self) -> bytes:
            return self._fetched.body

    class Guarded(Request):
        def __call__(
            self, url: str, method: str = "GET", body: Any = None, headers: Any = None, timeout: Any = None, **_: Any
        ) -> Answer:
            data = body.encode() if isinstance(body, str) else body
            fetched = client.fetch(method, url, headers=headers, body=data, seconds=timeout or 30.0)
            return Answer(asyncio.run_coroutine_threadsafe(fetched, loop).result())

    try:
        credentials, _ = google.auth.default(scopes=list(scopes), request=Guarded())
        credentials.refresh(Guarded())
    except GoogleAuthError as error:
        raise SettingsError(
            f"Google's credentials can't be used: {error}", hint="run `gcloud auth application-default login`"
        ) from None
    return str(credentials.token)
