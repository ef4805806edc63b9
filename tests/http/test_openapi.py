"""The OpenAPI document, held against the server by a program that knows nothing else of it."""

import asyncio
import sys
from pathlib import Path

import pytest

from retinue.app.settings import ServeSettings
from retinue.models.script import Say
from support.agents import agent
from support.serving import serving

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
    "use_after_free",
)


@pytest.mark.spec("API-03")
@pytest.mark.timeout(900)  # always the same requests, however long a busy machine takes for them
async def test_schemathesis_finds_no_undocumented_answer_and_no_failure_of_the_server(tmp_path: Path) -> None:
    settings = ServeSettings(rate=1e6, burst=1_000_000, stream_seconds=0.2)
    async with serving(tmp_path, lambda _: Say(text="done"), agents=[agent("coder")], serve=settings) as api:
        client = await api.client("admin")
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{api.url}/openapi.json"),
            *("--header", f"Authorization: Bearer {client.token}", "--checks", ",".join(CHECKS)),
            *("--phases", "coverage,fuzzing", "--max-examples", "2", "--request-timeout", "600", "--seed", "1"),
            *("--generation-deterministic", "--no-color", "--workers", "1"),
            *("--exclude-operation-id", "keys_revoke"),  # it would revoke the key that it was given
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await program.communicate()
        assert program.returncode == 0, "\n".join(line[:300] for line in output.decode().splitlines())
