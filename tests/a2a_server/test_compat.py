"""The agent for the official compatibility kit, served as its users serve it: one command."""

import asyncio

import httpx
import pytest

from support.a2a import a2a_compat

pytestmark = pytest.mark.spec("API-05")
STATES = {
    "tck-complete-task": "COMPLETED",
    "tck-input-required": "INPUT_REQUIRED",
    "tck-reject-task": "REJECTED",
    "tck-artifact-text": "text",
    "tck-artifact-file": "raw",
    "tck-artifact-file-url": "url",
    "tck-artifact-data": "data",
    "tck-stream-001": "text",
    "tck-stream-002": "COMPLETED",
    "tck-stream-003": "text",
    "tck-stream-artifact-text": "text",
    "tck-stream-artifact-file": "raw",
    "tck-stream-artifact-chunked": "chunk-1 ",
    "tck-stream-ordering-001": "Ordered output",
    "test-resubscribe-message-id": "COMPLETED",
    "tck-message-response": "message",
}


async def test_every_prefix_of_the_kit_has_its_answer() -> None:
    transport = httpx.AsyncHTTPTransport(retries=5)
    async with asyncio.timeout(60), a2a_compat() as url, httpx.AsyncClient(transport=transport, timeout=20) as client:
        card = (await client.get(f"{url}/.well-known/agent-card.json")).json()
        address = card["supportedInterfaces"][0]["url"]

        async def ask(prefix: str) -> str:
            said = {"role": "ROLE_USER", "parts": [{"text": "hi"}], "messageId": f"{prefix}-1"}
            headers = {"A2A-Version": "1.0"}
            answer = await client.post(f"{address}/message:send", json={"message": said}, headers=headers)
            return answer.text

        answers = dict(zip(STATES, await asyncio.gather(*map(ask, STATES)), strict=True))
    assert {prefix: STATES[prefix] in answer for prefix, answer in answers.items()} == dict.fromkeys(STATES, True)
