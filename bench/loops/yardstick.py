"""A bare aiohttp loop that commits each message to SQLite in groups. `yardstick.py PORT STEPS RUNS AT_ONCE`."""

import asyncio
import json
import queue
import sqlite3
import sys
import tempfile
import threading
from pathlib import Path

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from measure import measured

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    }
]


class Writer(threading.Thread):
    """One thread; everything queued is one transaction."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self.path, self.loop = path, loop
        self.queue: queue.SimpleQueue = queue.SimpleQueue()

    def run(self) -> None:
        db = sqlite3.connect(self.path, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE log (thread TEXT, seq INTEGER, data BLOB, PRIMARY KEY (thread, seq)) WITHOUT ROWID")
        while True:
            group = [self.queue.get()]
            while not self.queue.empty():
                group.append(self.queue.get())
            if group[-1] is None:
                return
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO log VALUES (?, ?, ?)", [row for row, _ in group])
            db.execute("COMMIT")
            self.loop.call_soon_threadsafe(lambda done=[f for _, f in group]: [f.set_result(None) for f in done])

    async def write(self, thread: str, seq: int, data: bytes) -> None:
        done = self.loop.create_future()
        self.queue.put(((thread, seq, data), done))
        await done


async def run(session: aiohttp.ClientSession, writer: Writer, url: str, steps: int, name: str) -> None:
    messages: list[dict] = [{"role": "system", "content": "You add."}, {"role": "user", "content": "go"}]
    seq = 0
    while True:
        async with session.post(
            url, json={"model": f"steps-{steps}", "messages": messages, "tools": TOOLS}
        ) as response:
            answer = (await response.json())["choices"][0]["message"]
        messages.append(answer)
        await writer.write(name, seq := seq + 1, json.dumps(answer).encode())
        if not answer.get("tool_calls"):
            return
        for call in answer["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            outcome = {"role": "tool", "tool_call_id": call["id"], "content": str(arguments["a"] + arguments["b"])}
            messages.append(outcome)
            await writer.write(name, seq := seq + 1, json.dumps(outcome).encode())


async def main(port: int, steps: int, runs: int, at_once: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(f"{folder}/log.db", asyncio.get_running_loop())
        writer.start()
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        async with aiohttp.ClientSession() as session:
            limit = asyncio.Semaphore(at_once)

            async def one(n: int) -> None:
                async with limit:
                    await run(session, writer, url, steps, f"t{n}")

            await run(session, writer, url, 1, "warm")
            with measured(runs * (steps + 1)):
                await asyncio.gather(*(one(n) for n in range(runs)))
        writer.queue.put(None)
        writer.join()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:5])))
