"""Spans and metrics, as an SDK collects them."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from retinue.app.telemetry import telemetry
from retinue.models.script import CallTool, Fault, Say, ScriptedRequest
from retinue.policy.redact import Redactor
from retinue.testing.harness import scripted_app
from support.agents import add, agent

BOSS = agent("boss", "call_agent", "add", allowed_agents=("helper",), can_spawn_subagents=True, category="primary")
SECRET = "open-sesame"


class Team:
    """A boss that adds, calls a helper, adds wrongly, is overloaded once and is done."""

    def __init__(self) -> None:
        self._failed = False

    def __call__(self, request: ScriptedRequest) -> Say | Fault:
        if request.agent == "helper":
            return Say(calls=[CallTool("complete_agent_execution", {"result": "helped", "status": "SUCCESS"})])
        if request.step == 1:
            child = CallTool("call_agent", {"agent_name": "helper", "input": "help", "context_scope": "NONE"})
            return Say(calls=[CallTool("add", {"a": 1, "b": 2}), child, CallTool("add", {"a": "x", "b": 2})])
        if not self._failed:
            self._failed = True
            return Fault("overloaded")
        return Say(text=f"all {SECRET} done")


class Collected:
    def __init__(self, *, content: bool) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])
        redact = Redactor({"WORD": SECRET})
        self.tap = telemetry(content=content, redact=redact, tracers=self.tracers, meters=self.meters)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()


async def collected(folder: Path, *, content: bool = False) -> Collected:
    made = Collected(content=content)
    async with scripted_app(folder, Team(), agents=[BOSS, agent("helper")], tools=[add]) as app:
        app.engine.runtime.live.taps.append(made.tap)
        completion = await app.run("boss", f"the {SECRET} message")
        assert completion.status == "SUCCESS"
        await app.idle()
    made.close()
    return made


def told(span: ReadableSpan) -> Mapping[str, object]:
    return dict(span.attributes or {})


@pytest.mark.spec("OBS-03")
async def test_a_run_its_requests_calls_and_children_are_spans_of_one_trace(tmp_path: Path) -> None:
    made = await collected(tmp_path)
    spans = {span.name: span for span in made.spans}
    names = {span.context.span_id: span.name for span in made.spans if span.context}
    tree = sorted((span.name, names[span.parent.span_id] if span.parent else "") for span in made.spans)

    assert tree == [
        ("chat scripted/script", "invoke_agent boss"),
        ("chat scripted/script", "invoke_agent boss"),
        ("chat scripted/script", "invoke_agent boss"),
        ("chat scripted/script", "invoke_agent helper"),
        ("execute_tool add", "invoke_agent boss"),
        ("execute_tool add", "invoke_agent boss"),
        ("execute_tool call_agent", "invoke_agent boss"),
        ("execute_tool complete_agent_execution", "invoke_agent helper"),
        ("invoke_agent boss", ""),
        ("invoke_agent helper", "execute_tool call_agent"),
    ]
    assert len({span.context.trace_id for span in made.spans if span.context}) == 1
    run = told(spans["invoke_agent boss"])
    assert (run["gen_ai.operation.name"], run["gen_ai.agent.id"]) == ("invoke_agent", "boss")
    assert (run["gen_ai.provider.name"], run["gen_ai.request.model"]) == ("scripted", "script")
    assert (run["retinue.status"], run["retinue.reason"]) == ("SUCCESS", "goal")
    chat = spans["chat scripted/script"]
    assert (chat.kind, told(chat)["gen_ai.response.finish_reasons"]) == (SpanKind.CLIENT, ("stop",))
    assert told(chat)["gen_ai.usage.input_tokens"]
    failed = [span for span in made.spans if told(span).get("error.type") == "model_error"]
    assert [span.status.status_code for span in failed] == [StatusCode.ERROR]
    outcomes = sorted(str(told(s)["retinue.outcome"]) for s in made.spans if s.name == "execute_tool add")
    assert outcomes == ["error", "ok"]
    tool = told(spans["execute_tool call_agent"])
    assert (tool["gen_ai.tool.name"], tool["gen_ai.tool.type"]) == ("call_agent", "function")
    assert tool["gen_ai.tool.call.id"]
    for span in made.spans:
        assert span.start_time and span.end_time and span.end_time >= span.start_time


@pytest.mark.spec("OBS-03")
async def test_what_was_said_is_told_only_when_asked_for_and_never_with_secrets(tmp_path: Path) -> None:
    silent = await collected(tmp_path / "silent")
    spoken = await collected(tmp_path / "spoken", content=True)

    everything = repr([told(span) for span in silent.spans])
    assert "message" not in everything and "helped" not in everything and SECRET not in everything
    said = repr([told(span) for span in spoken.spans])
    assert "the [secret WORD] message" in said and "all [secret WORD] done" in said
    assert "gen_ai.tool.call.arguments" in said and SECRET not in said


@pytest.mark.spec("OBS-03")
async def test_tokens_and_durations_are_measured(tmp_path: Path) -> None:
    made = Collected(content=False)
    async with scripted_app(tmp_path, Team(), agents=[BOSS, agent("helper")], tools=[add]) as app:
        app.engine.runtime.live.taps.append(made.tap)
        await app.run("boss", "go")
        await app.idle()
    data = made.reader.get_metrics_data()
    assert data is not None
    found = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    made.close()

    assert set(found) == {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"}
    assert (found["gen_ai.client.token.usage"].unit, found["gen_ai.client.operation.duration"].unit) == ("{token}", "s")


PROGRAM = """
import asyncio, sys
from pathlib import Path
from retinue.app.settings import Settings, SettingsFile, TelemetrySettings, Tier
from retinue.testing.harness import scripted_app

async def main(folder, enabled):
    file = SettingsFile(telemetry=TelemetrySettings(enabled=enabled))
    settings = Settings(home=folder / "home", root=folder, user=Tier(name="user", settings=file))
    async with scripted_app(folder, ["done"], settings=settings) as app:
        await app.run("builtin:general", "hello")
        print(len(app.engine.runtime.live.taps), "opentelemetry" in sys.modules)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "on"))
"""


@pytest.mark.spec("OBS-03")
@pytest.mark.parametrize(("wish", "imported"), [("on", "True"), ("off", "False")])
def test_nothing_is_imported_unless_telemetry_is_on(tmp_path: Path, wish: str, imported: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), wish]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == imported
