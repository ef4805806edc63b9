"""What a scripted model may say, and which answer of a script a request gets.

A file holds `answers` (used in order), `rules` (the first that fits and has an
answer left is used), or both:

    rules:
      - when: {agent: coder, step: 1}
        answer: {calls: [{tool: read, arguments: {path: notes.md}}]}
      - when: {agent: coder}
        answer: "The file says: {{last_outcome}}"
      - when: {contains: weather}
        answers: [Where are you?, Sunny.]
    answers: [Hello., {text: Bye., fault: rate_limit}]

`answer` is always the same; `answers` go on step by step, counted from the message
when the rule looks at the message and from the start of the thread otherwise.
`{{message}}`, `{{message_id}}`, `{{last_outcome}}`, `{{agent}}` and `{{step}}` are
replaced in texts and arguments. A fault comes before the answer it stands on or in
front of: the request that is tried again gets the answer.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec

from retinue.models import neutral
from retinue.ports.model import Finish, Head, Request
from retinue.schema.completion import Usage
from retinue.schema.errors import ModelError, SettingsError
from retinue.schema.message import Outcome, Turn, text_of

FaultKind = Literal["rate_limit", "overloaded", "overflow", "cut", "refuse", "error", "hang"]


class CallTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call. `arguments` as text is sent as it is, valid JSON or not."""

    tool: str
    arguments: Mapping[str, object] | str = {}


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A failure. `times` None is every time; `after` is how many chunks come before a cut."""

    kind: FaultKind
    text: str = ""
    retry_after: float | None = None
    after: int = 0
    times: int | None = 1
    status: int | None = None
    transient: bool = False


class Say(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer. `chunks` is how the text streams: the pieces, or how many; by default word by word."""

    text: str = ""
    thinking: str = ""
    calls: Sequence[CallTool] = ()
    usage: Usage | None = None
    finish: Finish | None = None
    latency: float = 0.0
    """Seconds before the first chunk."""
    pace: float = 0.0
    """Seconds between chunks."""
    chunks: int | Sequence[str] | None = None
    fault: Fault | FaultKind | None = None

    @property
    def failure(self) -> Fault | None:
        return Fault(self.fault) if isinstance(self.fault, str) else self.fault


Item = Say | CallTool | Fault | str


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is given must hold."""

    contains: str | None = None
    regex: str | None = None
    message_id_prefix: str | None = None
    agent: str | None = None
    tool_result: str | None = None
    """The newest turn holds an outcome of this tool; `*` is any."""
    step: int | None = None
    """The number of this request in its thread, from 1."""
    system_contains: str | None = None

    @property
    def looks_at_message(self) -> bool:
        return (self.contains, self.regex, self.message_id_prefix) != (None, None, None)

    def holds(self, request: "ScriptedRequest") -> bool:
        return (
            (self.agent is None or self.agent == request.agent)
            and (self.step is None or self.step == request.step)
            and (self.message_id_prefix is None or (request.message_id or "").startswith(self.message_id_prefix))
            and (self.contains is None or self.contains in request.message)
            and (self.regex is None or re.search(self.regex, request.message) is not None)
            and (self.tool_result is None or any(self.tool_result in (o.tool, "*") for o in request.outcomes))
            and (self.system_contains is None or self.system_contains in request.system)
        )


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    when: When
    answer: Say | str | None = None
    answers: Sequence[Say | str] = ()


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    answers: Sequence[Say | str] = ()
    rules: Sequence[Rule] = ()


class ScriptedRequest:
    """A request as a script sees it. Nothing is decoded before it is looked at."""

    def __init__(self, request: Request, *, agent: str = "") -> None:
        self.agent = agent
        self.message_id = request.message_id
        self.tail = request.tail
        self._request = request

    @cached_property
    def head(self) -> Head:
        return neutral.decode_head(self._request.head)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(map(neutral.decode_turn, self._request.turns))

    @property
    def system(self) -> str:
        return self.head.system

    @property
    def tools(self) -> tuple[str, ...]:
        """Those that may be called now."""
        return () if self.head.tool_choice == "none" else tuple(t.name for t in self.head.tools)

    @cached_property
    def step(self) -> int:
        """The number of this request in its thread, from 1."""
        return 1 + neutral.count_assistant(self._request.turns)

    @cached_property
    def step_of_message(self) -> int:
        """The number of this request since the newest message, from 1."""
        return 1 + neutral.count_assistant(self._request.turns[self._message_at :])

    @cached_property
    def message(self) -> str:
        """The text of the newest user turn that has any."""
        return text_of(self.turns[self._message_at].parts) if self._message_at < len(self.turns) else ""

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What came of the calls of the step before."""
        if not self._request.turns:
            return ()
        return tuple(p for p in neutral.decode_turn(self._request.turns[-1]).parts if isinstance(p, Outcome))

    @cached_property
    def conversation(self) -> bytes:
        """Tells threads apart: the agent with the newest message's id, or what was said."""
        if self.message_id is not None:
            return f"{self.agent} {self.message_id}".encode()
        digest = blake2b(digest_size=16)
        for fragment in self._request.turns:
            digest.update(fragment.data)
        return digest.digest()

    @cached_property
    def _message_at(self) -> int:
        turns = self.turns
        at = (i for i in range(len(turns) - 1, -1, -1) if turns[i].role == "user" and text_of(turns[i].parts))
        return next(at, len(turns))


class Script:
    """Answers in order and rules, with the memory of faults that were raised."""

    def __init__(self, *, answers: Sequence[Item] = (), rules: Sequence[Rule] = ()) -> None:
        self._answers = _groups(answers)
        self._rules = [(r, _groups(r.answers if r.answer is None else [r.answer])) for r in rules]
        self._tries: dict[tuple[int | None, int, bytes], int] = {}

    def choose(self, request: ScriptedRequest) -> Say:
        """The answer that is due.

        Raises:
            ModelError: no rule fits and no answer is left.
        """
        for number, (rule, groups) in enumerate(self._rules):
            if not rule.when.holds(request):
                continue
            step = request.step_of_message if rule.when.looks_at_message else request.step
            say = self._at(groups, 0 if rule.answer is not None else step - 1, request, number)
            if say is not None:
                return _fill(say, request)
        say = self._at(self._answers, request.step - 1, request, None)
        if say is not None:
            return _fill(say, request)
        by_agent = not request.agent and any(rule.when.agent for rule, _ in self._rules)
        raise ModelError(
            f"the script has no answer for step {request.step} of {request.agent or 'its agent'}: "
            f"none of {len(self._rules)} rules fits and there are {len(self._answers)} answers in order; "
            f"the newest message was {request.message[:200]!r}",
            hint="this model can't tell agents apart: give the script to ScriptedModels, or use system_contains"
            if by_agent
            else "add an answer or a rule to the script",
        )

    def _at(
        self, groups: Sequence[Sequence[Say]], position: int, request: ScriptedRequest, rule: int | None
    ) -> Say | None:
        if position >= len(groups):
            return None
        group = groups[position]
        if len(group) == 1 and group[0].fault is None:
            return group[0]
        key = (rule, position, request.conversation)
        nth = self._tries.get(key, 0)
        self._tries[key] = nth + 1
        last = group[-1]
        lasts = last.failure is None or last.failure.times is None
        return group[nth] if nth < len(group) else last if lasts else None


def as_say(item: Item) -> Say:
    match item:
        case Say():
            return item
        case str():
            return Say(item)
        case CallTool():
            return Say(calls=(item,))
        case Fault():
            return Say(fault=item)


def script_from_file(path: Path) -> Script:
    """Read a script from a YAML or JSON file (JSON is YAML).

    Raises:
        SettingsError: the file can't be read or is not a script; names the place.
    """
    try:
        found = msgspec.yaml.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise SettingsError(f"{path}: can't read the script: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise SettingsError(f"{path}: not a script: {error}", hint="wanted `answers:` and `rules:`") from error
    return Script(answers=found.answers, rules=found.rules)


def _groups(items: Sequence[Item]) -> list[list[Say]]:
    """One group per answer, its faults first. The last group may hold faults only."""
    groups: list[list[Say]] = [[]]
    for say in map(as_say, items):
        fault = say.failure
        if fault is None or fault.kind == "refuse" or fault.times is None:
            groups[-1].append(say)
            groups.append([])
            continue
        groups[-1].extend([say] * fault.times)
        if say.text or say.thinking or say.calls:
            groups[-1].append(msgspec.structs.replace(say, fault=None))
            groups.append([])
    return [group for group in groups if group]


def _fill(say: Say, request: ScriptedRequest) -> Say:
    arguments = "".join(str(call.arguments) for call in say.calls)
    if "{{" not in say.text and "{{" not in say.thinking and "{{" not in arguments:
        return say
    values = {
        "message": request.message,
        "message_id": request.message_id or "",
        "last_outcome": request.outcomes[-1].text if request.outcomes else "",
        "agent": request.agent,
        "step": str(request.step),
    }
    return msgspec.structs.replace(
        say,
        text=_filled_text(say.text, values),
        thinking=_filled_text(say.thinking, values),
        calls=tuple(CallTool(call.tool, _filled_json(call.arguments, values)) for call in say.calls),
    )


def _filled_text(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda m: values.get(m[1], m[0]), text)


def _filled_json(arguments: Mapping[str, object] | str, values: Mapping[str, str]) -> str:
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return _filled_text(text, {k: msgspec.json.encode(v)[1:-1].decode() for k, v in values.items()})
