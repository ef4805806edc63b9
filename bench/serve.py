"""A server under load, and killed in the middle of it: threads that talk, readers that follow, clients that list.

    python bench/serve.py [--threads 500] [--messages 3] [--watchers 50] [--rounds 1] [--kills 0] [--idle 0]
                           [--write]

Every thread has one reader that checks sequence numbers: an event missed or doubled is an
error, as is a message that was acknowledged and is not in the log exactly once. The server
is a process of its own on loopback, with the scripted model. Prints JSON.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

PROGRAM = (sys.executable, "-c", "from retinue.cli.main import main; main()")
RESULTS = Path(__file__).parent / "results" / "serve.json"
SETTINGS = """
default_model = "scripted/bench"
[providers.scripted]
format = "scripted"
base_url = "{home}/script.json"
[serve]
rate = 1000000.0
burst = 1000000
"""
SCRIPT = {
    "rules": [
        {"when": {"tool_result": "*"}, "answer": {"text": "word " * 60, "latency": 0.02}},
        {"when": {}, "answer": {"calls": [{"tool": "load_memory", "arguments": {"key": "{{step}}"}}], "latency": 0.02}},
    ]
}
AGENT = "---\ndescription: Looks and answers.\ntools: []\n---\nYou look and answer.\n"
IDLE_SECONDS = 20.0
AWAY = (aiohttp.ClientError, ConnectionError, asyncio.TimeoutError)


@dataclass
class Server:
    home: Path
    port: int
    token: str = ""
    process: "subprocess.Popen[str] | None" = None

    def start(self) -> None:
        env = {**os.environ, "RETINUE_HOME": str(self.home), "RETINUE_OPERATOR": str(self.home / "none")}
        command = [*PROGRAM, "serve", "--port", str(self.port)]
        self.process = subprocess.Popen(command, env=env, cwd=self.home, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("serving on"), line
        if not self.token:
            self.token = self.process.stdout.readline().rpartition(" ")[2].strip()

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def cpu(self) -> float:
        """Seconds of both cores so far; of this process of the server, not of one that was killed."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Megabytes that are resident."""
        assert self.process is not None
        try:
            text = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0.0
        return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS")), 0.0)


@dataclass
class Seen:
    """What the clients saw."""

    latencies: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    events: int = 0
    reconnects: int = 0
    acknowledged: int = 0
    completed: int = 0
    memory: list[float] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def acknowledge(self) -> None:
        self.acknowledged += 1
        self.more.set()

    async def reached(self, acknowledged: int) -> None:
        while self.acknowledged < acknowledged:
            self.more.clear()
            await self.more.wait()

    def took(self, what: str, seconds: float) -> None:
        self.latencies.setdefault(what, []).append(seconds)

    def wrong(self, text: str) -> None:
        self.errors.append(text)


class Load:
    def __init__(self, session: aiohttp.ClientSession, seen: Seen) -> None:
        self.session = session
        self.seen = seen
        self.threads: list[str] = []
        self.done = False

    async def insist(self, method: str, path: str, key: str, body: object) -> dict[str, object]:
        """Send until it is acknowledged; the key makes sure that it happens once."""
        while True:
            began = time.perf_counter()
            try:
                headers = {"Idempotency-Key": key}
                async with self.session.request(method, path, json=body, headers=headers) as response:
                    said = await response.json(content_type=None)
                    if response.status in (200, 201, 202):
                        self.seen.took("write", time.perf_counter() - began)
                        self.seen.acknowledge()
                        return said
                    if response.status not in (409, 503):
                        self.seen.wrong(f"{method} {path}: {response.status} {said}")
            except AWAY:
                pass
            await asyncio.sleep(0.1)

    async def talk(self, number: int, messages: int) -> str:
        body = {"agent": "worker", "message": f"message 0 of {number}"}
        thread = str((await self.insist("POST", "/v1/threads", f"{number}-0", body))["id"])
        self.threads.append(thread)
        reader = Reader(self, thread)
        following = asyncio.create_task(reader.run())
        for message in range(1, messages):
            await reader.completions(message)
            said = {"message": f"message {message} of {number}"}
            await self.insist("POST", f"/v1/threads/{thread}/messages", f"{number}-{message}", said)
        await reader.completions(messages)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return thread

    async def watch(self) -> None:
        """List and show, over and over."""
        while not self.done:
            for path in ("/v1/threads?limit=20", f"/v1/threads/{self.threads[-1]}" if self.threads else "/v1/health"):
                began = time.perf_counter()
                try:
                    async with self.session.get(path) as response:
                        await response.read()
                        if response.status != 200:
                            self.seen.wrong(f"GET {path}: {response.status}")
                        self.seen.took("show" if path.count("/") > 2 else "list", time.perf_counter() - began)
                except AWAY:
                    await asyncio.sleep(0.1)
            await asyncio.sleep(0.05)

    async def verify(self, thread: str, number: int, messages: int) -> None:
        """Every acknowledged message is in the log, once and in order."""
        async with self.session.get(f"/v1/threads/{thread}/messages?limit=500") as response:
            entries = (await response.json())["items"]
        said = [entry["text"] for entry in entries if entry["kind"] == "message"]
        if said != [f"message {m} of {number}" for m in range(messages)]:
            self.seen.wrong(f"thread {thread} has {said}")


class Reader:
    """Follows one thread across connections and checks that no event is missed or doubled."""

    def __init__(self, load: Load, thread: str) -> None:
        self._load = load
        self._thread = thread
        self._seq = 0
        self._completed = 0
        self._changed = asyncio.Event()

    async def completions(self, wanted: int) -> None:
        while self._completed < wanted:
            self._changed.clear()
            await self._changed.wait()

    async def run(self) -> None:
        while True:
            headers = {"Last-Event-ID": f"{self._thread}:{self._seq}"} if self._seq else {}
            try:
                path = f"/v1/threads/{self._thread}/events"
                async with self._load.session.get(path, headers=headers, timeout=aiohttp.ClientTimeout()) as response:
                    if response.status != 200:
                        self._load.seen.wrong(f"GET {path}: {response.status}")
                    async for kind, id in _events(response):
                        self._take(kind, id)
            except AWAY:
                pass
            self._load.seen.reconnects += 1
            await asyncio.sleep(0.1)

    def _take(self, kind: str, id: str) -> None:
        if not id:
            return
        thread, _, seq = id.partition(":")
        if thread != self._thread or int(seq) != self._seq + 1:
            self._load.seen.wrong(f"{self._thread}: after {self._seq} came {id}")
        self._seq = int(seq)
        self._load.seen.events += 1
        if kind == "run.completed":
            self._completed += 1
            self._load.seen.completed += 1
            self._changed.set()


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, str]]:
    id = kind = ""
    async for line in response.content:
        if line.startswith(b"id: "):
            id = line[4:].decode().strip()
        elif line.startswith(b"event: "):
            kind = line[7:].decode().strip()
        elif line.startswith(b"data: "):
            yield kind, id
            id = kind = ""


async def measure(options: argparse.Namespace, server: Server) -> dict[str, object]:
    seen = Seen()
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {server.token}"}
    base = f"http://127.0.0.1:{server.port}"
    async with aiohttp.ClientSession(base, connector=connector, headers=headers, read_bufsize=2**20) as session:
        load = Load(session, seen)
        await load.insist("POST", "/v1/runs", "warm", {"agent": "worker", "message": "everything is loaded then"})
        seen = load.seen = Seen()
        began, before, idle_cpu = time.perf_counter(), server.memory(), server.cpu()
        watching = [asyncio.create_task(load.watch()) for _ in range(options.watchers)]
        sampling = asyncio.create_task(_every(0.5, lambda: _sample(server, seen)))
        threads: list[str] = []
        after: list[float] = []
        for number in range(options.rounds):
            numbers = range(number * options.threads, (number + 1) * options.threads)
            talking = [asyncio.create_task(load.talk(n, options.messages)) for n in numbers]
            await _kill(options, server, seen)
            threads += await asyncio.gather(*talking)
            after.append(round(server.memory()))
        seconds, used = time.perf_counter() - began, server.cpu() - (0.0 if options.kills else idle_cpu)
        load.done = True
        await asyncio.gather(*watching)
        sampling.cancel()
        for number, thread in enumerate(threads):
            await load.verify(thread, number, options.messages)
        idle = await _idle(session, server, threads[0], options.idle)
    return {
        "threads": options.threads,
        "messages_each": options.messages,
        "watchers": options.watchers,
        "kills": options.kills,
        "rounds": options.rounds,
        "seconds": round(seconds, 2),
        "runs_per_second": round(seen.completed / seconds, 1),
        "events_per_second": round(seen.events / seconds, 1),
        "reads_per_second": round(sum(len(seen.latencies.get(k, [])) for k in ("list", "show")) / seconds, 1),
        "server_cpu_seconds": round(used, 2),
        "server_cpu_ms_a_run": None if options.kills else round(used * 1000 / seen.completed, 2),
        "milliseconds": {name: _spread(values) for name, values in sorted(seen.latencies.items())},
        "acknowledged": seen.acknowledged,
        "reconnects": seen.reconnects,
        "errors": len(seen.errors),
        "first_errors": seen.errors[:5],
        "idle": idle,
        "memory_mb": {"before": round(before), "peak": round(max(seen.memory)), "after_each_round": after},
    }


async def _kill(options: argparse.Namespace, server: Server, seen: Seen) -> None:
    """Kill and start again, each time after the same part of the messages."""
    total = options.threads * options.messages
    for number in range(options.kills):
        await seen.reached(total * (number + 1) // (options.kills + 1))
        server.kill()
        await asyncio.to_thread(server.start)


async def _idle(session: aiohttp.ClientSession, server: Server, thread: str, readers: int) -> dict[str, float]:
    """What readers cost to whom nothing happens."""
    before = server.memory()
    path, timeout = f"/v1/threads/{thread}/events?after=1000000", aiohttp.ClientTimeout()
    opened = [await session.get(path, timeout=timeout) for _ in range(readers)]
    await asyncio.sleep(1)
    used = server.cpu()
    await asyncio.sleep(IDLE_SECONDS if readers else 0.1)
    cpu = (server.cpu() - used) / IDLE_SECONDS
    result = {"readers": readers, "cpu_of_a_core": round(cpu, 4), "memory_mb": round(server.memory() - before, 1)}
    for response in opened:
        response.close()
    return result


async def _every(seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    while True:
        await act()
        await asyncio.sleep(seconds)


async def _sample(server: Server, seen: Seen) -> None:
    seen.memory.append(server.memory())


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    cut = statistics.quantiles(ordered, n=100) if len(ordered) > 1 else ordered * 99
    return {"p50": round(cut[49] * 1000, 1), "p95": round(cut[94] * 1000, 1), "p99": round(cut[98] * 1000, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = {"threads": 500, "messages": 3, "watchers": 50, "rounds": 1, "kills": 0, "idle": 0}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--write", action="store_true", help=f"keep it in {RESULTS.name}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "agents").mkdir()
        (home / "agents" / "worker.md").write_text(AGENT)
        (home / "retinue.toml").write_text(SETTINGS.format(home=home))
        (home / "script.json").write_text(json.dumps(SCRIPT))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        server = Server(home, port)
        server.start()
        try:
            result = asyncio.run(measure(options, server))
        finally:
            server.kill(signal.SIGTERM)
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept["killed" if options.kills else "load"] = result
        RESULTS.write_text(json.dumps(kept, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
