"""Finds the commands, code and files that a program's arguments hide."""

import os.path
import re
from collections.abc import Callable, Sequence

from retinue.policy.shell.arguments import (
    ANY,
    BELOW,
    HERE,
    Call,
    check_options,
    filled,
    find,
    git,
    plain_program,
    protected_arguments,
    risky,
    runner,
    split_options,
    takes_next,
)
from retinue.policy.shell.judgement import Found, Judgement
from retinue.policy.shell.programs import (
    EVALUATORS,
    FREE,
    HARMLESS_SET,
    QUERIES,
    Program,
    Role,
    program,
    risky_variable,
)
from retinue.policy.shell.script import Simple
from retinue.policy.shell.words import Word, names, plain
from retinue.schema.permission import Decision

_SHELL_VALUES = names("--rcfile --init-file")


def unwrap(state: Judgement, words: Sequence[Word], part: Simple, decision: Decision) -> Found:
    """Judge what the command hides, and return what is risky about the command itself."""
    name = words[0].text.rpartition("/")[2].lower()
    found = Found()
    known = program(name)
    call = Call(state, words, part, decision, known or Program(), found)
    if name in EVALUATORS and not (name == "printf" and words[1:2] and not words[1].text.startswith("-v")):
        for word in words[1:]:
            if "$(" in word.text or "`" in word.text:
                state.apart(word.text)
    if name in ("export", "declare", "typeset", "local", "readonly"):
        for word in words[1:]:
            if risky_variable(word.text.partition("=")[0]) and "=" in word.text:
                state.variable(word.text.partition("=")[0], Word(word.text.partition("=")[2]))
            if not word.known and "=" not in word.lead:
                call.risk("", "a variable whose name is only known when it runs")
    if name == "set" and not all(w.known and HARMLESS_SET.fullmatch(w.text) for w in words[1:]):
        call.risk("set", "it changes how the shell works")
    if known is not None:
        _ROLES[known.role](call)
    elif name not in FREE:
        protected_arguments(call)
    return found


def _wrap(call: Call) -> None:
    """Run on to the command: options, their values, and `skip` arguments of its own come first."""
    index, skip = 1, call.program.skip
    while index < len(call.words):
        word = call.words[index]
        if not word.known or word.glob:
            call.state.probe(call.words[index:])
            call.risk("", f"an argument of {call.name} is only known when it runs")
        elif word.text == "--":
            index += 1
            break
        elif len(word.text) > 1 and word.text[0] == "-":
            if call.name == "command" and word.text in ("-v", "-V"):
                call.found.inner = True
                return
            if token := risky(word, call.program.risks):
                call.risk(token, f"{call.name} {token} runs a program, writes or looks elsewhere")
                call.state.probe(call.words[index:])
            index += takes_next(word, call.program.values) and not _splits(call, index + 1)
        elif word.text == "-":
            call.risk("-i", f"{call.name} takes the environment away")
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


def _splits(call: Call, index: int) -> bool:
    """Return whether a value may be several words, of which all but the first are the command's own."""
    return index < len(call.words) and (call.words[index].splits or call.words[index].glob)


def _guard(call: Call) -> None:
    call.risk(call.name, f"{call.name} runs the command with other powers")
    _wrap(call)


def _opaque(call: Call) -> None:
    call.risk(call.name, f"{call.name} may run other commands")
    call.state.probe(call.words[1:])


def _join(call: Call) -> None:
    """Its arguments are joined and run as a script."""
    code = list(call.words[2 if call.words[1:2] == (plain("--"),) else 1 :])
    if call.name != "eval":
        options, code = split_options(call, call.program.values)
        check_options(call, options, frozenset(("",)))
    call.found.inner = True
    if not all(word.known for word in code):
        call.risk("", f"the code that {call.name} runs is only known when it runs")
    call.state.script(" ".join(word.text for word in code))


def _shell(call: Call) -> None:
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
        index += len(re.findall("[oO]", text)) if not text.startswith("--") else text in _SHELL_VALUES
    rest = words[index:]
    if takes_code and rest:
        _code(call, rest[0], rest[1:])
    elif rest and not reads_input:
        call.state.probe(rest)
        call.risk("", f"{call.name} runs a file whose content is not judged")
        call.state.use("read", rest[0])
    elif not any(word.text in QUERIES for word in words[1:]):
        _input(call)


def _code(call: Call, code: Word, arguments: Sequence[Word]) -> None:
    call.found.inner = True
    if not code.known:
        call.risk("", f"the code that {call.name} runs is only known when it runs")
    call.state.apart(code.text)
    if "$" in code.text:
        call.state.probe(arguments)


def _input(call: Call) -> None:
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


def _source(call: Call) -> None:
    call.risk(" ".join(w.text for w in call.words[1:2] if w.known), "it runs a file whose content is not judged")
    for word in call.words[1:2]:
        call.state.use("read", word)
        if word.text.startswith("/dev/"):
            call.state.ask(call.name, "it runs what it reads from a pipe")


def _trap(call: Call) -> None:
    words = [w for w in call.words[1:] if w.text != "--"]
    call.state.defers = True
    if words and words[0].text not in ("-", "", "-l", "-p"):
        _code(call, words[0], ())


def _cd(call: Call) -> None:
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


def _xargs(call: Call) -> None:
    """The command gets what the pipe carries: names below known folders after a lister, else anything."""
    words = list(call.words)
    fed_by = [word.text for word in call.part.fed_by]
    item = ANY if not _lists_files(fed_by) else BELOW if fed_by[0] == "find" else HERE
    index, marker = 1, ""
    while index < len(words) and words[index].known and words[index].text.startswith("-"):
        text = words[index].text
        if text == "--":
            index += 1
            break
        if risky(words[index], call.program.risks):
            call.risk(text, f"xargs {text} reads its arguments from a file")
        takes = takes_next(words[index], call.program.values)
        if found := re.match(r"-[^-]*?(?:I|i(?=$))|--replace=?", text):
            given = text[found.end() :] or (words[index + 1].text if takes and index + 1 < len(words) else "")
            marker = given or "{}"
        index += 1 + (takes and not _splits(call, index + 1))
    inner = words[index:]
    if not inner:
        return
    if marker:
        inner = [filled(word, marker, item) for word in inner]
    else:
        inner.append(item)
    call.inside(inner)


def _lists_files(words: Sequence[str]) -> bool:
    """Return whether a command prints names of files below the folders it is given, and nothing else."""
    if words[:1] == ["ls"] or words[:2] == ["git", "ls-files"]:
        return True
    if words[:2] in (["git", "diff"], ["git", "grep"]):
        return not {"--name-only", "-l"}.isdisjoint(words)
    if words[:1] == ["find"]:
        return not any(word.startswith(("-printf", "-exec", "-fprint")) for word in words)
    return words[:1] in (["rg"], ["grep"]) and any(re.fullmatch(r"--files.*|-[a-zA-Z]*l", word) for word in words)


_ROLES: dict[Role, Callable[[Call], None]] = {
    "plain": plain_program,
    "wrap": _wrap,
    "guard": _guard,
    "opaque": _opaque,
    "join": _join,
    "shell": _shell,
    "source": _source,
    "find": find,
    "xargs": _xargs,
    "git": git,
    "cd": _cd,
    "trap": _trap,
    "inert": lambda _: None,
    "runner": runner,
}
