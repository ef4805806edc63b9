"""Finds the commands, code and files that a program's arguments hide."""

import os.path
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retinue.policy.shell.judgement import Found, Judgement, Risk
from retinue.policy.shell.programs import (
    EVALUATORS,
    GIT_ANY,
    GIT_ASK,
    GIT_OPTION_VALUES,
    GIT_READS_CONFIG,
    GIT_RISKS,
    GIT_SUBCOMMANDS,
    GIT_VALUES,
    HARMLESS_SET,
    LISTERS,
    QUERIES,
    Program,
    Role,
    program,
    risky_variable,
)
from retinue.policy.shell.script import Simple
from retinue.policy.shell.words import Word, names, plain
from retinue.schema.permission import Decision

_BELOW = Word("./*", lead="./*", glob=True)
"""Some file below the folders that a lister was given."""
_ANY = Word("{}", known=False, splits=True)
_FIND_VALUES = names(
    "-name -iname -path -ipath -wholename -regex -iregex -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin "
    "-newer -anewer -cnewer -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -samefile -fstype -printf"
)
_FIND_WRITES = names("-delete -fprint -fprint0 -fprintf -fls -files0-from")
_FIND_RUNS = names("-exec -execdir -ok -okdir")
_SHELL_VALUES = names("--rcfile --init-file -o -O +o +O")


@dataclass(frozen=True, slots=True)
class _Call:
    state: Judgement
    words: Sequence[Word]
    part: Simple
    decision: Decision
    program: Program
    found: Found

    @property
    def name(self) -> str:
        return self.words[0].text.rpartition("/")[2]

    def risk(self, token: str, reason: str) -> None:
        self.found.risks.append(Risk(token, reason))

    def inside(self, words: Sequence[Word], part: Simple | None = None) -> None:
        """Judge a command that this one runs."""
        if words:
            self.found.inner = True
            cover = self.decision.rule if self.decision.verdict == "allow" else None
            self.state.command(words, part or self.part, cover)


def unwrap(state: Judgement, words: Sequence[Word], part: Simple, decision: Decision) -> Found:
    """Judge what the command hides, and return what is risky about the command itself."""
    name = words[0].text.rpartition("/")[2].lower()
    found = Found()
    known = program(name)
    call = _Call(state, words, part, decision, known or Program(), found)
    if name in EVALUATORS and not (name == "printf" and words[1:2] and not words[1].text.startswith("-v")):
        for word in words[1:]:
            if "$(" in word.text or "`" in word.text:
                state.apart(word.text)
    if name in ("export", "declare", "typeset", "local", "readonly"):
        for word in words[1:]:
            if risky_variable(word.text.partition("=")[0]) and "=" in word.text:
                state.variable(word.text.partition("=")[0], Word(word.text.partition("=")[2]))
    if name == "set" and not all(w.known and HARMLESS_SET.fullmatch(w.text) for w in words[1:]):
        call.risk("set", "it changes how the shell works")
    if known is not None:
        _ROLES[known.role](call)
    return found


def _options(call: _Call, values: frozenset[str], start: int = 1) -> tuple[list[Word], list[Word]]:
    """Split the arguments into those that may be options and the rest; values of options are in neither."""
    options: list[Word] = []
    rest: list[Word] = []
    skipping = False
    ended = False
    for word in call.words[start:]:
        if skipping:
            skipping = False
        elif not ended and word.known and word.text == "--":
            ended = True
        elif ended or not _may_be_option(word):
            rest.append(word)
        elif word.known:
            options.append(word)
            skipping = word.text in values
        else:
            options.append(word)
    return options, rest


def _may_be_option(word: Word) -> bool:
    if word.known:
        return len(word.text) > 1 and word.text[0] in "-+"
    return word.splits or not word.lead or word.lead[0] == "-"


def _risky(option: Word, risks: frozenset[str]) -> str:
    """Return the risk that an option is, also abbreviated, joined with its value, or in a cluster."""
    text = (option.text if option.known else option.lead).partition("=")[0]
    if text.startswith("--"):
        return next((r for r in risks if r == text or (len(text) > 3 and r.startswith(text))), "")
    return next((r for r in sorted(risks) if len(r) == 2 and r[1] in text[1:]), "")


def _check_options(call: _Call, options: Sequence[Word], risks: frozenset[str]) -> None:
    if not risks:
        return
    for option in options:
        if token := _risky(option, risks):
            call.risk(token, f"{call.name} {token} runs a program, writes or looks elsewhere")
            if not call.program.stdin:
                call.state.probe(call.words[1:])
        elif not option.known:
            call.risk("", f"an argument of {call.name} is only known when it runs and may be an option")


def _plain(call: _Call) -> None:
    known = call.program
    options, rest = _options(call, known.values)
    _check_options(call, options, known.risks)
    if known.files and not known.risks:
        rest = [*(o for o in options if not o.known), *rest]
    if rest and rest[0].known and rest[0].text in known.subcommands:
        call.risk(rest[0].text, f"{call.name} {rest[0].text} runs programs or changes settings")
    if (
        known.stdin
        and (not rest or rest[0].text == "-")
        and not any(o.text in QUERIES or o.text == "-m" for o in options)
    ):
        call.risk("-", f"{call.name} runs what it reads from its input")
    if call.name in ("make", "gmake") and any("=" in word.text for word in rest):
        call.risk("=", "a variable for make may run a program")
    if call.name in ("tar", "bsdtar") and rest and set(rest[0].text) & set("IFPC") and "." not in rest[0].text:
        call.risk(rest[0].text, "tar runs a program or leaves the folder")
    if known.code is not None and rest:
        script, *rest = rest
        if not script.known or not known.code.fullmatch(script.text):
            call.risk("", f"the program that {call.name} is given may run commands or write")
    _files(call, rest[known.skip :] if known.skip and not _has(options, "-e") else rest)


def _has(options: Sequence[Word], *wanted: str) -> bool:
    return any(option.text in wanted for option in options)


def _files(call: _Call, words: Sequence[Word]) -> None:
    known = call.program
    if known.files is None:
        return
    if call.name == "dd":
        for word in words:
            if word.text.startswith(("if=", "of=")):
                target = Word(word.text[3:], known=word.known, lead=word.lead[3:])
                call.state.use("read" if word.text.startswith("if=") else "write", target)
        return
    for index, word in enumerate(words):
        is_last = known.last is not None and index > 0 and index == len(words) - 1
        call.state.use(known.last if is_last and known.last else known.files, word)


def _wrap(call: _Call) -> None:
    """Run on to the command: options, their values, and `skip` arguments of its own come first."""
    index, skip = 1, call.program.skip
    while index < len(call.words):
        word = call.words[index]
        if not word.known:
            call.state.probe(call.words[index:])
            call.risk("", f"an argument of {call.name} is only known when it runs")
        elif word.text == "--":
            index += 1
            break
        elif len(word.text) > 1 and word.text[0] == "-":
            if call.name == "command" and word.text in ("-v", "-V"):
                call.found.inner = True
                return
            if token := _risky(word, call.program.risks):
                call.risk(token, f"{call.name} {token} runs a program, writes or looks elsewhere")
                call.state.probe(call.words[index:])
            index += word.text in call.program.values
        elif call.program.assigns and re.match(r"\w+=", word.text):
            name, _, value = word.text.partition("=")
            if risky_variable(name):
                call.state.variable(name, plain(value))
        elif skip:
            skip -= 1
        else:
            break
        index += 1
    call.inside(call.words[index + skip :])


def _guard(call: _Call) -> None:
    call.risk(call.name, f"{call.name} runs the command with other powers")
    _wrap(call)


def _opaque(call: _Call) -> None:
    call.risk(call.name, f"{call.name} may run other commands")
    call.state.probe(call.words[1:])


def _join(call: _Call) -> None:
    options, rest = _options(call, call.program.values)
    _check_options(call, options, frozenset(("",)) if call.name != "eval" else frozenset())
    code = [*options, *rest] if call.name == "eval" else rest
    call.found.inner = True
    if not all(word.known for word in code):
        call.risk("", f"the code that {call.name} runs is only known when it runs")
    call.state.script(" ".join(word.text for word in code))


def _shell(call: _Call) -> None:
    """`bash -c code`, `bash script`, or bash reading its input."""
    words = call.words
    index, takes_code, reads_input = 1, False, False
    while index < len(words) and words[index].known and words[index].text[:1] in ("-", "+"):
        text = words[index].text
        index += 1
        if text in ("--", "-"):
            break
        if text in ("--rcfile", "--init-file"):
            call.risk(text, f"{call.name} {text} runs a file")
        if not text.startswith("--"):
            takes_code = takes_code or "c" in text
            reads_input = reads_input or "s" in text
        index += text in _SHELL_VALUES or (not text.startswith("--") and text[-1] in "oO")
    rest = words[index:]
    if takes_code and rest:
        _code(call, rest[0], rest[1:])
    elif rest and not reads_input:
        call.state.probe(rest)
        call.risk("", f"{call.name} runs a file whose content is not judged")
        call.state.use("read", rest[0])
    elif not any(word.text in QUERIES for word in words[1:]):
        _input(call)


def _code(call: _Call, code: Word, arguments: Sequence[Word]) -> None:
    call.found.inner = True
    if not code.known:
        call.risk("", f"the code that {call.name} runs is only known when it runs")
    call.state.apart(code.text)
    if "$" in code.text:
        call.state.probe(arguments)


def _input(call: _Call) -> None:
    """A shell without a script runs its input: a here-document is code, what a pipe carries can only be guessed."""
    texts = [r.target for r in call.part.redirects if r.kind == "text"]
    for text in texts:
        _code(call, text, ())
    if texts:
        return
    call.risk("", f"{call.name} runs what it reads from its input")
    for word in (*call.part.fed_text, *call.part.fed_by[1:]):
        call.state.deny_in(word.text)
    call.state.deny_in(" ".join(word.text for word in call.part.fed_by[1:]))


def _source(call: _Call) -> None:
    call.risk("", "it runs a file whose content is not judged")
    for word in call.words[1:2]:
        call.state.use("read", word)
        if word.text.startswith("/dev/"):
            call.state.ask(call.name, "it runs what it reads from a pipe")


def _trap(call: _Call) -> None:
    words = [w for w in call.words[1:] if w.text != "--"]
    call.state.defers = True
    if words and words[0].text not in ("-", "", "-l", "-p"):
        _code(call, words[0], ())


def _cd(call: _Call) -> None:
    state = call.state
    targets = [word for word in call.words[1:] if word.text not in ("-L", "--", "-n")]
    target = targets[0] if targets else Word("~", lead="~", tilde=True)
    state.moves = True
    if not target.known or target.glob or target.text[:1] in ("-", "+"):
        call.risk("", "the directory is only known when it runs")
        return
    state.use("read", target)
    went = frozenset(os.path.normpath(path) for path in state.paths(target.text, tilde=target.tilde))
    state.landed = went
    state.cwds |= went


def _find(call: _Call) -> None:
    words = call.words
    index = 1
    paths = True
    while index < len(words):
        word = words[index]
        index += 1
        if word.known and word.text in _FIND_RUNS:
            paths = False
            end = next((i for i in range(index, len(words)) if words[i].text in (";", "+")), len(words))
            call.state.command([_BELOW if w.text == "{}" else w for w in words[index:end]] or [_ANY], call.part)
            index = end + 1
        elif word.known and word.text in _FIND_WRITES:
            paths = False
            call.risk(word.text, f"find {word.text} changes files")
        elif word.known and word.text in _FIND_VALUES:
            paths = False
            index += 1
        elif not word.known and _may_be_option(word):
            call.risk("", "an argument of find is only known when it runs and may be an action")
        elif paths and word.text[:1] not in ("-", "(", "!", ")"):
            call.state.use("read", word)
        elif word.text not in ("-H", "-L", "-P"):
            paths = False


def _xargs(call: _Call) -> None:
    """The command gets what the pipe carries: names below known folders after a lister, else anything."""
    words = list(call.words)
    fed = call.part.fed_by
    item = _BELOW if fed and fed[0].known and fed[0].text in LISTERS else _ANY
    index, marker = 1, ""
    while index < len(words) and words[index].known and words[index].text.startswith("-"):
        text = words[index].text
        if _risky(words[index], call.program.risks):
            call.risk(text, f"xargs {text} reads its arguments from a file")
        if text.startswith("-I"):
            marker = text[2:] or (words[index + 1].text if index + 1 < len(words) else "")
        index += 1 + (text in call.program.values)
    inner = words[index:]
    if not inner:
        return
    if marker:
        inner = [item if w.text == marker else _opened(w) if marker in w.text else w for w in inner]
    else:
        inner.append(item)
    call.inside(inner)


def _opened(word: Word) -> Word:
    return Word(word.text, known=False, splits=word.splits, bare=False)


def _git(call: _Call) -> None:
    index = 1
    words = call.words
    while index < len(words) and _may_be_option(words[index]):
        word = words[index]
        if token := _risky_global(word):
            call.risk(token, f"git {token} runs a program or looks elsewhere")
            call.state.probe(words[index:])
        elif not word.known:
            call.risk("", "an argument of git is only known when it runs and may be an option")
        if word.text == "-C" and index + 1 < len(words):
            call.state.use("read", words[index + 1])
        index += 1 + (word.text in GIT_VALUES)
    if index >= len(words):
        return
    sub = words[index].text
    options, rest = _options(call, GIT_OPTION_VALUES, index + 1)
    _check_options(call, options, GIT_ANY | GIT_SUBCOMMANDS.get(sub, frozenset()))
    if sub in GIT_ASK and not _reads_only(sub, words[index + 1 :]):
        call.risk(sub, f"git {sub} runs programs or changes settings")
        call.state.probe(words[index + 1 :])
    if rest and rest[0].text in GIT_SUBCOMMANDS.get(sub, frozenset()):
        call.risk(rest[0].text, f"git {sub} {rest[0].text} runs programs, writes or looks elsewhere")
    if any(re.match(r"[\w+-]+::", word.text) for word in rest):
        call.risk("::", "a transport that runs a program")


def _risky_global(word: Word) -> str:
    if word.text == "--exec-path":
        return ""
    return _risky(word, frozenset(r for r in GIT_RISKS if r.startswith("--"))) or (
        "-c" if word.text.startswith("-c") else ""
    )


def _reads_only(sub: str, words: Sequence[Word]) -> bool:
    first = words[0].text if words else ""
    if sub == "config":
        return any(w.text in GIT_READS_CONFIG for w in words) and all(w.known for w in words)
    return sub == "submodule" and first in ("", "status", "summary")


_ROLES: dict[Role, Callable[[_Call], None]] = {
    "plain": _plain,
    "wrap": _wrap,
    "guard": _guard,
    "opaque": _opaque,
    "join": _join,
    "shell": _shell,
    "source": _source,
    "find": _find,
    "xargs": _xargs,
    "git": _git,
    "cd": _cd,
    "trap": _trap,
}
