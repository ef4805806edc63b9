"""Questions on a terminal: how they are shown, what a typed line means, and how to answer from elsewhere."""

import asyncio
import os
import sys
from collections.abc import Sequence

import msgspec

from retinue.app.questions import OpenQuestion, Reply
from retinue.cli.output import count
from retinue.cli.status import Screen
from retinue.schema.errors import UsageError

KEYS = "y allow once · t in this thread · p PATTERN what matches · a always · n WHY refuse"
_SCOPES = {"y": "once", "t": "thread", "p": "pattern", "a": "always", "n": "deny"}
_MOST = 60
"""Lines of a preview that are shown."""


def show_question(screen: Screen, question: OpenQuestion, *, more: int = 0) -> None:
    """Who asks, what exactly would happen, and why it is asked; `more` questions wait behind this one."""
    who = " › ".join(question.path)
    asked = f"{who} wants to use {question.tool}" if question.kind == "permission" else f"{who}: {question.prompt}"
    screen.line(f"? {asked}" + (f"  ({more} more after this)" if more else ""), "bold")
    preview = (question.preview or "").splitlines()
    if question.kind in ("permission", "loop"):
        for line in arguments(question, preview):
            screen.line(f"    {line}")
    for reason in _reasons(question):
        screen.line(f"  {reason}", "yellow")
    for line in preview[:_MOST]:
        screen.line(f"  {line}", "green" if line.startswith("+") else "red" if line.startswith("-") else "dim")
    if len(preview) > _MOST:
        screen.line(f"  … {len(preview) - _MOST} more lines", "dim")
    for number, choice in enumerate(question.choices, 1):
        screen.line(f"  {number}. {choice}")


def _reasons(question: OpenQuestion) -> list[str]:
    """Why a person is asked: of several commands, those that are not allowed anyway."""
    if len(question.commands) < 2:
        return [question.why] if question.why else []
    wanted = [f"asks for: {c.command}  ({c.reason})" for c in question.commands if c.verdict != "allow"]
    others = len(question.commands) - len(wanted)
    return wanted + [f"{count(others, 'other command is', 'other commands are')} allowed"] * bool(others)


def arguments(question: OpenQuestion, preview: Sequence[str]) -> list[str]:
    """The exact call, an argument a line; what the diff shows is not told twice."""
    try:
        values = msgspec.json.decode(question.arguments or "{}", type=dict[str, object])
    except msgspec.MsgspecError:
        return [question.arguments or ""]
    changes = "\n".join(line for line in preview if line[:1] in "+-" and line[:3] not in ("+++", "---"))
    told: list[str] = []
    for name, value in values.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        first, *rest = text.splitlines() or [""]
        if not isinstance(value, str) or not changes or any(line not in changes for line in (first, *rest)):
            told += [f"{name}: {first}", *(f"{' ' * len(name)}  {line}" for line in rest)]
    return told


def show_waiting(screen: Screen, question: OpenQuestion) -> None:
    """A question that can't be answered here and now."""
    show_question(screen, question)
    screen.line(f"  to answer: {how_to_answer(question)}", "bold")


def wanted(question: OpenQuestion) -> str:
    """What may be typed."""
    match question.kind:
        case "permission":
            return KEYS.replace("PATTERN", f"[{question.suggested}]") if question.suggested else KEYS
        case "approval" | "loop":
            return "y yes · n no"
        case "choice":
            return f"1 to {len(question.choices)}"
        case "file":
            return "the path of a file"
        case _:
            return "an answer"


def parse_reply(question: OpenQuestion, line: str) -> Reply:
    """What a person meant by `line`. Raises UsageError."""
    line = line.strip()
    match question.kind:
        case "permission":
            word, _, rest = line.partition(" ")
            scope = _SCOPES.get(word.lower()[:1] if word.lower() in _WORDS else word.lower())
            pattern = rest.strip() or question.suggested
            if scope is None or (scope == "pattern" and not pattern):
                raise UsageError(f"type one of {KEYS}")
            if scope == "pattern":
                return Reply(scope="thread", pattern=pattern)
            if scope == "deny":
                return Reply(scope="deny", answer=rest or None)
            return Reply(scope="always" if scope == "always" else "thread" if scope == "thread" else "once")
        case "choice" if line.isdigit() and 0 < int(line) <= len(question.choices):
            return Reply(answer=question.choices[int(line) - 1])
        case _:
            return Reply(answer=line)


_WORDS = frozenset({"yes", "once", "thread", "pattern", "always", "no", "deny"})


def how_to_answer(question: OpenQuestion) -> str:
    """The command that answers from any terminal."""
    options = {
        "permission": '--once | --thread | --pattern P | --always | --deny "why"',
        "file": "--file PATH",
        "approval": "yes|no",
        "loop": "yes|no",
    }
    return f"retinue answer {question.id[:8]} {options.get(question.kind, 'ANSWER')}"


async def read_line(prompt: str) -> str | None:
    """One line typed at the terminal; None at its end. Cancelling it leaves the terminal as it was."""
    sys.stdout.flush()
    sys.stderr.write(prompt)
    sys.stderr.flush()
    loop, file = asyncio.get_running_loop(), sys.stdin.fileno()
    typed: asyncio.Future[bytes] = loop.create_future()
    loop.add_reader(file, lambda: typed.done() or typed.set_result(os.read(file, 65536)))
    try:
        data = await typed
    finally:
        loop.remove_reader(file)
    return data.decode(errors="replace").rstrip("\n") if data else None
