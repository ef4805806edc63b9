"""Waits on this machine for a browser that comes back from a sign-in."""

import asyncio
import secrets
from urllib.parse import parse_qs, urlsplit

from retinue.schema.errors import SettingsError

_DONE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nDone. You can close this page.\n"


class Callback:
    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/callback"
        self._port = port

    async def listen(self, page: str) -> None:
        """Listen for whoever was sent to `page`: only its `state` is let in.

        Raises:
            SettingsError: the port is taken.
        """
        self._state = _query(page).get("state", "")
        self._came: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        try:
            self._server = await asyncio.start_server(self._take, "127.0.0.1", self._port)
        except OSError as error:
            raise SettingsError(
                f"port {self._port}, where the browser comes back to, can't be used: {error.strerror}",
                hint="set redirect_port of its auth to another one",
            ) from None

    async def answer(self, seconds: float) -> dict[str, str]:
        """What came back, with its `code`.

        Raises:
            SettingsError: the sign-in was refused, or nobody came in time.
        """
        try:
            async with asyncio.timeout(seconds):
                came = await self._came
        except TimeoutError:
            raise SettingsError(f"nobody signed in within {seconds:g} s") from None
        finally:
            self._server.close()
        if "code" not in came:
            said = came.get("error_description") or came.get("error", "no code came")
            raise SettingsError(f"the sign-in was refused: {said}")
        return came

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readline()).decode("latin-1").split(" ")[1:2]
        came = _query(target[0] if target else "")
        writer.write(_DONE)
        await writer.drain()
        writer.close()
        if not self._came.done() and secrets.compare_digest(came.get("state", ""), self._state):
            self._came.set_result(came)


def _query(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
