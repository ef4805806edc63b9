"""OpenTelemetry spans and metrics by the GenAI conventions, made from events as they are committed.

A run is `invoke_agent`, a request `chat`, a call `execute_tool`; a child's run lies
below the call that started it. The loop knows nothing of it. Only the API is used:
which SDK collects, if any, is for whoever starts the process. What was said is left
out unless the settings ask for it. Imported only when telemetry is on.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from opentelemetry import context, metrics, trace
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from retinue.runtime.live import Tap
from retinue.runtime.state import State
from retinue.schema.completion import Usage
from retinue.schema.events.children import ChildStarted
from retinue.schema.events.people import QuestionAsked
from retinue.schema.events.runs import (
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunStarted,
    RunWaiting,
)
from retinue.schema.events.steps import CallSettled, ModelAnswered, ModelAsked, ModelFailed
from retinue.schema.events.threads import ThreadTerminated
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import CallId, ThreadId
from retinue.schema.message import Call, calls_of, text_of

log = logging.getLogger("retinue.telemetry")
Attributes = Mapping[str, str | int | float | bool | Sequence[str]]
_NAME = "retinue"
_NS = 1_000_000_000
_BEGINS = (RunStarted, RunResumed, ModelAsked, CallSettled)
"""What a run's span begins with; all but the first where another process began the run."""


@dataclass(slots=True)
class _Open:
    """The spans of one thread that have begun and not ended."""

    run: Span
    request: Span | None = None
    asked_at: float = 0.0
    calls: dict[CallId, Call] = field(default_factory=dict[CallId, Call])
    waiting: dict[CallId, Span] = field(default_factory=dict[CallId, Span])
    """Calls that a child was started for."""


def telemetry(
    *,
    content: bool,
    redact: Callable[[str], str],
    tracers: TracerProvider | None = None,
    meters: MeterProvider | None = None,
) -> Tap:
    """What to hang on `Live.taps`. The process's own providers are used unless others are given."""
    made = _Telemetry(trace.get_tracer(_NAME, tracer_provider=tracers), metrics.get_meter(_NAME, meter_provider=meters))
    made.said = redact if content else lambda _: ""
    return made.committed


class _Telemetry:
    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        self.said: Callable[[str], str] = lambda _: ""
        """What may be told of a text."""
        self._tracer = tracer
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of a request.")
        self._duration = meter.create_histogram("gen_ai.client.operation.duration", "s", "Time of an operation.")
        self._open: dict[ThreadId, _Open] = {}
        self._callers: dict[ThreadId, Span] = {}
        """The call below which a child's run lies."""

    def committed(self, state: State, events: Sequence[AnyEvent]) -> None:
        try:
            for event in events:
                self._take(state, event)
        except Exception:  # a run never fails for what watches it
            log.exception("telemetry of thread %s failed", state.thread.thread)

    def _take(self, state: State, event: AnyEvent) -> None:
        thread = state.thread.thread
        if isinstance(event, RunStarted):
            self._end(thread, event.at)
        opened = self._open.get(thread)
        if opened is None:
            if state.run is None or not isinstance(event, _BEGINS):
                return
            opened = self._open[thread] = self._begin(state, event)
        match event:
            case ModelAsked():
                opened.request, opened.asked_at = self._ask(opened, state, event), event.at
            case ModelAnswered():
                self._answer(opened, event)
            case ModelFailed():
                self._fail(opened, event)
            case ChildStarted() if event.call in opened.calls:
                span = self._call(opened, opened.calls[event.call], event.at)
                opened.waiting[event.call] = self._callers[event.reference] = span
            case CallSettled():
                self._settle(opened, event)
            case RunWaiting() | RunInterrupted() | RunResumed() | QuestionAsked():
                opened.run.add_event(str(type(event).__struct_config__.tag), _about(event), _ns(event.at))
            case RunCompleted() | RunFailed():
                self._complete(opened, event)
                self._end(thread, event.at)
                self._callers.pop(thread, None)
            case ThreadTerminated():
                self._end(thread, event.at)
            case _:
                pass

    def _begin(self, state: State, event: AnyEvent) -> _Open:
        """The run's span; in a process that took the thread over, what is left of the run."""
        assert state.run is not None
        started, definition, thread = state.run.started, state.pin.definition, state.thread
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": definition.id,
            "gen_ai.agent.name": definition.name,
            "gen_ai.conversation.id": thread.thread,
            **_model(started.model),
            "retinue.run": started.run,
            "retinue.tenant": thread.tenant,
        }
        optional = {
            "gen_ai.agent.description": definition.description,
            "gen_ai.agent.version": state.pin.commit or definition.version,
            "gen_ai.system_instructions": self.said(started.system.get("a", "")),
            "gen_ai.input.messages": self._message("user", started.prompt),
        }
        attributes |= {name: value for name, value in optional.items() if value}
        if not isinstance(event, RunStarted):
            attributes["retinue.resumed"] = True
        caller = self._callers.get(thread.thread)
        above = trace.set_span_in_context(caller) if caller is not None else context.Context()
        span = self._tracer.start_span(
            f"invoke_agent {definition.name}", above, SpanKind.INTERNAL, attributes, start_time=_ns(event.at)
        )
        return _Open(span)

    def _ask(self, opened: _Open, state: State, event: ModelAsked) -> Span:
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": state.thread.thread,
            **_model(event.model),
            "retinue.step": event.step,
            "retinue.attempt": event.attempt,
        }
        return self._below(opened.run, f"chat {event.model}", attributes, event.at, SpanKind.CLIENT)

    def _answer(self, opened: _Open, event: ModelAnswered) -> None:
        opened.calls = {call.id: call for call in calls_of(event.parts)}
        if opened.request is None:
            return
        usage = event.usage
        attributes: dict[str, str | int | Sequence[str]] = {
            "gen_ai.response.finish_reasons": [event.finish],
            "gen_ai.usage.input_tokens": usage.input,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
            "gen_ai.usage.reasoning.output_tokens": usage.thinking,
        }
        if said := self._message("assistant", text_of(event.parts)):
            attributes["gen_ai.output.messages"] = said
        opened.request.set_attributes(attributes)
        self._measure(opened.request, usage, event.at - opened.asked_at)
        opened.request.end(_ns(event.at))
        opened.request = None

    def _fail(self, opened: _Open, event: ModelFailed) -> None:
        if opened.request is None:
            return
        opened.request.set_attribute("error.type", event.code)
        opened.request.set_status(Status(StatusCode.ERROR, event.code))
        self._measure(opened.request, None, event.at - opened.asked_at)
        opened.request.end(_ns(event.at))
        opened.request = None

    def _call(self, opened: _Open, call: Call, at: float) -> Span:
        attributes: dict[str, str] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        if said := self.said(call.arguments):
            attributes["gen_ai.tool.call.arguments"] = said
        return self._below(opened.run, f"execute_tool {call.tool}", attributes, at, SpanKind.INTERNAL)

    def _settle(self, opened: _Open, event: CallSettled) -> None:
        outcome = event.outcome
        call = opened.calls.pop(outcome.call, None) or Call(id=outcome.call, tool=outcome.tool, arguments="")
        span = opened.waiting.pop(outcome.call, None) or self._call(opened, call, event.at - event.duration)
        span.set_attribute("retinue.outcome", outcome.status)
        if outcome.status != "ok":
            span.set_attribute("error.type", outcome.status)
            span.set_status(Status(StatusCode.ERROR, outcome.status))
        if said := self.said(outcome.text):
            span.set_attribute("gen_ai.tool.call.result", said)
        span.end(_ns(event.at))

    def _complete(self, opened: _Open, event: RunCompleted | RunFailed) -> None:
        done = event.completion
        attributes: dict[str, str | int | float] = {
            "retinue.status": done.status,
            "retinue.reason": done.reason,
            "retinue.steps": done.steps,
            "gen_ai.usage.input_tokens": done.usage.input,
            "gen_ai.usage.output_tokens": done.usage.output,
        }
        if done.cost is not None:
            attributes["retinue.cost"] = done.cost / _NS
        opened.run.set_attributes(attributes)
        if done.status == "FAILED":
            opened.run.set_attribute("error.type", done.reason)
            opened.run.set_status(Status(StatusCode.ERROR, done.reason))

    def _end(self, thread: ThreadId, at: float) -> None:
        opened = self._open.pop(thread, None)
        if opened is None:
            return
        for span in (opened.request, *opened.waiting.values(), opened.run):
            if span is not None:
                span.end(_ns(at))

    def _below(self, parent: Span, name: str, attributes: Attributes, at: float, kind: SpanKind) -> Span:
        above = trace.set_span_in_context(parent)
        return self._tracer.start_span(name, above, kind, attributes, start_time=_ns(at))

    def _measure(self, span: Span, usage: Usage | None, seconds: float) -> None:
        labels = {"gen_ai.operation.name": "chat"}
        within = trace.set_span_in_context(span)
        self._duration.record(max(seconds, 0.0), labels, within)
        if usage is not None:
            for kind, tokens in (("input", usage.input), ("output", usage.output)):
                self._tokens.record(tokens, {**labels, "gen_ai.token.type": kind}, within)

    def _message(self, role: str, text: str) -> str:
        said = self.said(text)
        parts = [{"type": "text", "content": said}]
        return msgspec.json.encode([{"role": role, "parts": parts}]).decode() if said else ""


def _model(name: str) -> dict[str, str]:
    provider, _, model = name.partition("/")
    return {"gen_ai.provider.name": provider, "gen_ai.request.model": model or provider}


def _about(event: RunWaiting | RunInterrupted | RunResumed | QuestionAsked) -> dict[str, str]:
    match event:
        case RunWaiting():
            return {"waiting_for": event.waiting_for}
        case RunResumed():
            return {"after": event.after}
        case QuestionAsked():
            return {"kind": event.kind}
        case RunInterrupted():
            return {}


def _ns(seconds: float) -> int:
    return int(seconds * _NS)
