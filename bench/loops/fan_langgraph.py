"""LangGraph: an agent whose tool runs another, in memory or on SQLite. `fan_langgraph.py PORT CHILDREN... [sqlite]`."""

import asyncio
import sys
import tempfile
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from measure import fanned, spent


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def work(port: int, sizes: list[int], checkpointer: object) -> None:
    def model(name: str) -> ChatOpenAI:
        return ChatOpenAI(model=name, base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)

    inner, numbers = create_react_agent(model("steps-1"), [add], prompt="You add.", checkpointer=checkpointer), count()

    @tool
    async def worker(query: str) -> str:
        """Work."""
        config = {"configurable": {"thread_id": f"child-{next(numbers)}"}}
        answer = await inner.ainvoke({"messages": [("user", query)]}, config)
        return answer["messages"][-1].content

    async def fan(size: int) -> int:
        lead = create_react_agent(model(f"fan-{size}"), [worker], prompt="You lead.", checkpointer=checkpointer)
        config = {"configurable": {"thread_id": f"lead-{next(numbers)}"}}
        answer = await lead.ainvoke({"messages": [("user", "go")]}, config)
        return sum(message.type == "tool" for message in answer["messages"])

    await fan(sizes[0])
    for size in sizes:
        before = spent()
        done = await fan(size)
        fanned(size, before)
        assert done == size


async def main(port: int, sizes: list[int], *, durable: bool) -> None:
    if not durable:
        return await work(port, sizes, None)
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(f"{folder}/log.db") as saver:
            await work(port, sizes, saver)


if __name__ == "__main__":
    sizes = [int(size) for size in sys.argv[2:] if size != "sqlite"]
    asyncio.run(main(int(sys.argv[1]), sizes, durable="sqlite" in sys.argv))
