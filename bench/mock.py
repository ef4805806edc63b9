"""A local mock of the OpenAI Chat API: N tool steps, then an answer. Its own process, so its CPU is not ours.

`mock.py PORT [LATENCY]`. The number of steps is the model's name (`steps-10`); the
answer depends only on how many assistant turns the request holds. `chunks-500`
streams an answer of that many chunks; `fan-100` first makes that many calls of the
tool whose name has `worker` in it, all in one answer.
"""

import asyncio
import json
import sys

from aiohttp import web

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


async def completions(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    kind, _, count = body["model"].rpartition("-")
    if LATENCY:
        await asyncio.sleep(LATENCY)
    if kind == "chunks":
        return await stream(request, int(count))
    turns = sum(m["role"] == "assistant" for m in body["messages"])
    message: dict[str, object] = {"role": "assistant", "content": "done"}
    finish = "stop"
    if kind == "fan" and not turns:
        name = next(t["function"]["name"] for t in body["tools"] if "worker" in t["function"]["name"])
        function = {"name": name, "arguments": '{"query": "go"}'}
        calls = [{"id": f"call_{n}", "type": "function", "function": function} for n in range(int(count))]
        message, finish = {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
    elif kind != "fan" and turns < int(count):
        message, finish = (
            {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": f"call_{turns}"}]},
            "tool_calls",
        )
    if body.get("stream"):
        return await one_chunk(request, message, finish)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return web.json_response({"id": "x", "object": "chat.completion", "created": 1, "model": body["model"],
                              "choices": [choice], "usage": USAGE})  # fmt: skip


async def one_chunk(request: web.Request, message: dict[str, object], finish: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    calls = message.get("tool_calls")
    numbered = [{"index": n, **call} for n, call in enumerate(calls)] if isinstance(calls, list) else None
    delta = {**message, "tool_calls": numbered} if numbered else message
    events = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {"choices": [], "usage": USAGE},
    ]
    base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    data = b"".join(b"data: " + json.dumps({**base, **e}).encode() + b"\n\n" for e in events)
    await response.write(data + b"data: [DONE]\n\n")
    return response


async def stream(request: web.Request, count: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for n in range(count):
        chunk = {**base, "choices": [{"index": 0, "delta": {"content": f"word{n} "}, "finish_reason": None}]}
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        if n % 5 == 0:
            await asyncio.sleep(0.001)
    last = {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE}
    await response.write(b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n")
    return response


def app() -> web.Application:
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_post("/v1/chat/completions", completions)
    return application


if __name__ == "__main__":
    LATENCY = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    web.run_app(app(), host="127.0.0.1", port=int(sys.argv[1]), print=None)
