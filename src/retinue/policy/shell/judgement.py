"""One walk through a script: where it is, which commands and files it has met, and what was decided of each.

How a program's arguments hide other commands is `retinue.policy.shell.unwrap`'s
subject.
"""

import os.path
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Protocol

from retinue.policy.rules import strictest
from retinue.policy.shell.programs import FREE, risky_variable
from retinue.policy.shell.script import RESERVED, Doubt, Part, Redirect, Scope, Simple, parse
from retinue.policy.shell.words import Word, decode_ansi
from retinue.ports.tool import Op
from retinue.schema.permission import STRICTNESS, CommandDecision, Decision, Rule, Verdict


@dataclass(frozen=True, slots=True)
class FileUse:
    """What a command does to a file; the path is absolute and not resolved."""

    op: Op
    path: str
    pattern: bool = False
    bare: bool = False
    """The pattern has no folder: a name that it matches may look like an option."""
    fallback: Verdict = "allow"
    """For a file that no rule matches: the command itself is judged by its own rules."""


Judge = Callable[[str], Decision]
FileJudge = Callable[[FileUse], Decision]


@dataclass(frozen=True, slots=True)
class Risk:
    """Why an allowed command is asked, and the word by which a rule can say that it is meant."""

    token: str
    reason: str


_FREE_PATHS = re.compile(r"/dev/(?:null|zero|stdin|stdout|stderr|tty|fd/\d+)")
_MISPLACED = RESERVED - {"time", "coproc", "[["}
_STANDARD = frozenset(("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin"))
_BLANK = re.compile(r"\s").search
_SEPARATORS = re.compile(r"[\s;&|()<>{}`$]+")
_DEEPEST = 8
_MOST_PROBES = 2000
_LONGEST_SHOWN = 2000


class Unwrap(Protocol):
    """Judges what a command hides, and tells what is risky about the command itself."""

    def __call__(self, state: "Judgement", words: Sequence[Word], part: Simple, decision: Decision, /) -> "Found": ...


@dataclass(slots=True)
class Found:
    risks: list[Risk] = field(default_factory=list[Risk])
    inner: bool = False
    """A command was found inside, so the program's own name matters only if a rule names it."""


class Judgement:
    def __init__(self, unwrap: Unwrap, judge: Judge, files: FileJudge, cwd: str, home: str) -> None:
        self.unwrap = unwrap
        self.judge = judge
        self.files = files
        self.home = home or "/~"
        self.cwds = frozenset((cwd,))
        self.landed: frozenset[str] | None = None
        """Where the last command has certainly gone if it succeeded."""
        self.entries: list[tuple[str, Decision]] = []
        self.functions: set[str] = set()
        self.defers = self.moves = False
        self.depth = 0

    def decision(self) -> Decision:
        if self.defers and self.moves:
            self.ask("cd", "it changes directory and runs code later, so paths are not certain")
        top = strictest(decision for _, decision in self.entries)
        if top is None:
            return Decision(verdict="allow", reason="it runs no command")
        commands = tuple(
            CommandDecision(command=text[:_LONGEST_SHOWN], verdict=d.verdict, reason=d.reason, rule=d.rule)
            for text, d in dict.fromkeys(self.entries)
        )
        return Decision(verdict=top.verdict, reason=top.reason, tier=top.tier, rule=top.rule, commands=commands)

    def script(self, text: str) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.doubt(Doubt("code nested too deeply", scan=text), text)
        else:
            self.run(parse(text), text)
        self.depth -= 1

    def run(self, parts: Sequence[Part], source: str) -> None:
        stack: list[frozenset[str]] = []
        for part in parts:
            match part:
                case Simple():
                    self.simple(part)
                case Doubt():
                    self.doubt(part, source)
                case Scope(opens=True):
                    stack.append(self.cwds)
                    if part.kind == "and" and self.landed is not None:
                        self.cwds = self.landed
                    if part.kind == "later":
                        self.defers = True
                        self.functions.add(part.name)
                case Scope():
                    self.leave(part, stack.pop())

    def leave(self, scope: Scope, before: frozenset[str]) -> None:
        inside = self.cwds
        if scope.kind == "sub":
            self.cwds = before
            return
        if scope.kind in ("loop", "later") and inside != before:
            self.ask("cd", "it changes directory in a loop or a function")
        self.landed = inside if scope.kind == "and" else None
        self.cwds = before | inside

    def doubt(self, doubt: Doubt, source: str) -> None:
        self.ask(source, doubt.reason)
        if doubt.code:
            self.apart(doubt.code)
        if doubt.scan:
            self.scan(doubt.scan)

    def apart(self, code: str) -> None:
        """Judge code that leaves the working directory as it was."""
        before = self.cwds
        self.script(code)
        self.cwds = before

    def ask(self, text: str, reason: str) -> None:
        self.entries.append((text, Decision(verdict="ask", reason=reason)))

    def simple(self, part: Simple) -> None:
        self.landed = None
        reads = bool(part.words) and part.words[0].text == "read"
        for name, value in part.assigns:
            if risky_variable(name) and not (name == "IFS" and reads):
                self.variable(name, value)
        for redirect in part.redirects:
            self.redirect(redirect)
        if part.words:
            self.command(part.words, part)

    def variable(self, name: str, value: Word) -> None:
        text = f"{name}={value.text}"
        decision = self.judge(text)
        if decision.rule is None or (decision.verdict == "allow" and not value.known):
            decision = Decision(verdict="ask", reason=f"{name} runs a program or changes where programs are found")
        self.entries.append((text, decision))
        self.deny_in(value.text)

    def redirect(self, redirect: Redirect) -> None:
        if redirect.kind == "text":
            return
        if redirect.kind != "write":
            self.use("read", redirect.target)
        if redirect.kind != "read":
            self.use("write", redirect.target, fallback="ask")

    def use(self, op: Op, word: Word, *, fallback: Verdict = "allow") -> None:
        """Judge a file that a word names, from every directory the script may be in."""
        text = word.text if word.known else f"{word.lead}_"  # some name that starts like it
        if word.known and _FREE_PATHS.fullmatch(text):
            return
        if word.glob and any(p[:1] == "." and p != ".." and fnmatchcase("..", p) for p in text.split("/")):
            self.ask(f"{op} {text}", "the pattern may match the folder above")
        shown = f"{'<' if op == 'read' else '>' if op == 'write' else op} {word.text}"
        found = self.paths(text, tilde=word.tilde)
        uses = [FileUse(op, path, pattern=word.glob, bare="/" not in text, fallback=fallback) for path in found]
        decision = strictest(self.files(use) for use in uses)
        if not word.known and (decision is None or decision.verdict != "deny"):
            self.ask(shown, "the path is only known when it runs")
        elif decision is not None and (decision.verdict != "allow" or fallback == "ask"):
            self.entries.append((shown, decision))

    def is_protected(self, text: str) -> bool:
        """Return whether no agent may change the file that `text` names, if it names one."""
        if _FREE_PATHS.fullmatch(text):
            return False
        uses = [FileUse("write", path) for path in self.paths(text, tilde=text.startswith("~"))]
        return any((made := self.files(use)).verdict == "deny" and made.rule is None for use in uses)

    def paths(self, text: str, *, tilde: bool) -> list[str]:
        """Return what a path may mean, from every directory the script may be in."""
        if tilde:
            text = self.home + text[1:] if text[1:2] in ("", "/") else f"/home/{text[1:]}"
        if text.startswith("/"):
            return [text]
        return [f"{cwd.rstrip('/')}/{text}" for cwd in sorted(self.cwds)]

    def command(self, words: Sequence[Word], part: Simple, cover: Rule | None = None) -> None:
        """Judge one simple command and whatever it hides.

        `cover` is a rule that allowed the command around this one; it speaks for
        this one too where it names its program.
        """
        name = words[0]
        if not name.known or name.glob or _BLANK(name.text) or not name.text:
            self.ask(joined(words), "the command's name is only known when it runs")
            self.probe(words if name.known else words[1:])
            return
        if name.bare and name.text in _MISPLACED:
            self.ask(joined(words), f"a reserved word where none belongs: {name.text}")
            if len(words) > 1:
                self.command(words[1:], part)
            return
        for word in words[1:]:
            if word.glob and word.known:
                self.use("read", word)  # the shell lists folders for it
        decision = self.rule(words)
        if name.text in self.functions and decision.verdict != "deny":
            return
        found = self.unwrap(self, words, part, decision)
        self.settle(words, decision, found.risks, inner=found.inner, cover=cover)

    def settle(
        self, words: Sequence[Word], decision: Decision, risks: Sequence[Risk], *, inner: bool, cover: Rule | None
    ) -> None:
        name = words[0].text
        if decision.rule is None:
            if inner and not risks:
                return
            if inner or (name in FREE and not risks):
                decision = Decision(verdict="allow", reason="changes nothing outside the shell")
            elif cover and name in cover.pattern.split():
                decision = Decision(verdict="allow", reason=f"covered by {cover.pattern}", rule=cover)
        unsaid = [risk for risk in risks if not _consents(decision.rule, risk.token)]
        if unsaid and decision.verdict == "allow":
            decision = replace_decision(decision, "ask", unsaid[0].reason)
        self.entries.append((joined(words), decision))

    def rule(self, words: Sequence[Word]) -> Decision:
        """Return what rules say of a command; another spelling of its program can't escape a deny."""
        name, text = words[0].text, joined(words)
        if ".." in name.split("/"):
            name = os.path.normpath(name)
            text = joined((Word(name), *words[1:]))
        decision = self.judge(text)
        folder, _, base = name.rpartition("/")
        other = base.lower()
        if other == name or not other:
            return decision
        alike = self.judge(joined((Word(other), *words[1:])))
        if decision.rule is None and folder in _STANDARD and base == other:
            return alike
        return alike if alike.rule and STRICTNESS[alike.verdict] > STRICTNESS[decision.verdict] else decision

    def probe(self, words: Sequence[Word]) -> None:
        """Look for commands that are denied among words that may or may not be one."""
        for index, word in enumerate(words[:_MOST_PROBES]):
            decision = self.rule(words[index : index + 20])
            if decision.verdict == "deny":
                self.entries.append((joined(words[index:]), decision))
            if re.search(r"[\s;|&]", word.text):
                # Code may follow an option's letter, a name, or git's mark for a shell alias.
                for code in {word.text, word.text[2:], word.text.partition("=")[2].lstrip("!")}:
                    self.deny_in(code)
            elif not word.known:
                self.scan(word.text)

    def deny_in(self, code: str) -> None:
        """Judge text that may be code for its denies only."""
        kept = len(self.entries)
        self.apart(code)
        self.entries[kept:] = [entry for entry in self.entries[kept:] if entry[1].verdict == "deny"]

    def scan(self, text: str) -> None:
        """Look for denied commands in text without structure: each word may start one."""
        for _ in range(3):
            text = decode_ansi(text.replace("'\"'\"'", "'"))
        for cleaned in (re.sub(r"[\"'\\]", "", text), re.sub(r"[\"'\\,]", " ", text)):
            words = [word for word in _SEPARATORS.split(cleaned) if word][:_MOST_PROBES]
            for index in range(len(words)):
                decision = self.rule([Word(word) for word in words[index : index + 8]])
                if decision.verdict == "deny":
                    self.entries.append((" ".join(words[index : index + 8]), decision))
                    return


def joined(words: Sequence[Word]) -> str:
    """Return a command as rules match it: words apart by one blank, quoted where a blank is part of one."""
    return " ".join([f"'{w.text}'" if not w.text or (w.known and _BLANK(w.text)) else w.text for w in words])


def replace_decision(decision: Decision, verdict: Verdict, reason: str) -> Decision:
    if STRICTNESS[decision.verdict] >= STRICTNESS[verdict]:
        return decision
    return Decision(verdict=verdict, reason=reason, tier=decision.tier, rule=decision.rule)


def _consents(rule: Rule | None, token: str) -> bool:
    """A rule for everything, or one that names the risk, means it."""
    return rule is not None and (rule.pattern in ("*", "**") or token in rule.pattern.split())
