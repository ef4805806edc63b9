"""LangGraph on the same work, in memory or with its SQLite checkpointer: `PORT STEPS RUNS AT_ONCE [sqlite]`."""

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from measure import measured


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def work(port: int, steps: int, runs: int, at_once: int, checkpointer: object) -> None:
    model = ChatOpenAI(model=f"steps-{steps}", base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
    agent = create_react_agent(model, [add], prompt="You add.", checkpointer=checkpointer)
    limit = asyncio.Semaphore(at_once)

    async def one(n: int) -> None:
        async with limit:
            config = {"recursion_limit": steps * 3 + 10, "configurable": {"thread_id": f"t{n}"}}
            await agent.ainvoke({"messages": [("user", "go")]}, config)

    await one(-1)
    with measured(runs * (steps + 1)):
        await asyncio.gather(*(one(n) for n in range(runs)))


async def main(port: int, steps: int, runs: int, at_once: int, *, durable: bool) -> None:
    if not durable:
        return await work(port, steps, runs, at_once, None)
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(f"{folder}/log.db") as saver:
            await work(port, steps, runs, at_once, saver)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:5]), durable=sys.argv[5:] == ["sqlite"]))
