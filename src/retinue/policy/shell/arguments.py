"""Reads a program's arguments: options and what is risky about them, files, and the actions of find and git."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from retinue.policy.shell.judgement import Found, Judgement, Risk
from retinue.policy.shell.programs import (
    GIT_ANY,
    GIT_OPTION_VALUES,
    GIT_PLACES,
    GIT_PLAIN,
    GIT_READS_CONFIG,
    GIT_RISKS,
    GIT_SUBCOMMANDS,
    GIT_VALUES,
    QUERIES,
    Program,
)
from retinue.policy.shell.script import Simple
from retinue.policy.shell.words import Word, names
from retinue.schema.permission import Decision

BELOW = Word("./*", lead="./*", glob=True)
"""Some file below the folders that a lister was given."""
HERE = Word("*", lead="*", glob=True)
"""The same, without a folder before its name."""
ANY = Word("{}", known=False, splits=True)
_FIND_VALUES = names(
    "-name -iname -path -ipath -wholename -regex -iregex -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin "
    "-newer -anewer -cnewer -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -samefile -fstype -printf"
)
_FIND_WRITES = names("-delete -fprint -fprint0 -fprintf -fls -files0-from")
_FIND_RUNS = names("-exec -execdir -ok -okdir")
_MODULE = frozenset(("-m",))
_TAKES_CODE = names("timeit code pdb")
_GIT_OUTPUTS = frozenset(("--output", "--output-directory"))


@dataclass(frozen=True, slots=True)
class Call:
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


def split_options(call: Call, values: frozenset[str], start: int = 1) -> tuple[list[Word], list[Word]]:
    """Split the arguments into those that may be options and the rest; values of options are in neither."""
    options: list[Word] = []
    rest: list[Word] = []
    skipping = False
    ended = False
    for word in call.words[start:]:
        if skipping and not word.splits:
            skipping = False
        elif not ended and word.known and word.text == "--":
            ended = True
        elif ended or not _may_be_option(word):
            rest.append(word)
        else:
            options.append(word)
            skipping = takes_next(word, values)
    return options, rest


def takes_next(option: Word, values: frozenset[str]) -> bool:
    """Return whether the next word is the option's value, also when it is abbreviated or the last of a cluster."""
    text = option.text
    if not option.known or text in values:
        return option.known
    if text.startswith("--"):
        return "=" not in text and any(value.startswith(text) for value in values)
    first = next((i for i, letter in enumerate(text[1:], 1) if f"-{letter}" in values), 0)
    return first > 0 and first == len(text) - 1


def _may_be_option(word: Word) -> bool:
    if word.known:
        return len(word.text) > 1 and word.text[0] in "-+"
    return word.splits or not word.lead or word.lead[0] == "-"


def risky(option: Word, risks: frozenset[str]) -> str:
    """Return the risk that an option is, also abbreviated, joined with its value, or in a cluster."""
    text = (option.text if option.known else option.lead).partition("=")[0]
    if text.startswith("--"):
        return next((r for r in risks if r == text or (len(text) > 3 and r.startswith(text))), "")
    if text.startswith("+"):
        return ""
    return next((r for r in sorted(risks) if r == text or (len(r) == 2 and r[1] in text[1:])), "")


def check_options(call: Call, options: Sequence[Word], risks: frozenset[str]) -> None:
    if not risks:
        return
    for option in options:
        if token := risky(option, risks):
            call.risk(token, f"{call.name} {token} runs a program, writes or looks elsewhere")
            if not call.program.stdin:
                call.state.probe(call.words[1:])
        elif not option.known and (option.splits or "=" not in option.lead):
            call.risk("", f"an argument of {call.name} is only known when it runs and may be an option")


def plain_program(call: Call) -> None:
    known = call.program
    options, rest = split_options(call, known.values)
    check_options(call, options, known.risks)
    for value in _values(call, known.outputs):
        call.state.use("write", value)
    for value in _values(call, known.places):
        call.state.use("read", value)
    if known.files and not known.risks:
        rest = [*(o for o in options if not o.known), *rest]
    if rest and rest[0].known and rest[0].text in known.subcommands:
        call.risk(rest[0].text, f"{call.name} {rest[0].text} runs programs or changes settings")
    if known.stdin and not _has(options, "-m", "--test", *QUERIES):
        if not rest or rest[0].text == "-":
            call.risk("-", f"{call.name} runs what it reads from its input")
        else:
            call.state.use("read", rest[0])
    if any(value.text in _TAKES_CODE for value in _values(call, _MODULE) if known.stdin):
        call.risk("-m", f"{call.name} -m runs the code in its arguments")
    if call.name in ("make", "gmake") and any(
        re.search(r"=(?!(?:\d+|yes|no|on|off|true|false)?$)", w.text) for w in rest
    ):
        call.risk("=", "a variable for make may run a program")
    if call.name in ("tar", "bsdtar") and rest and set(rest[0].text) & set("IFPC") and "." not in rest[0].text:
        call.risk(rest[0].text, "tar runs a program or leaves the folder")
    replaced = any(risky(option, known.instead) for option in options)
    if known.code is not None:
        scripts = _values(call, known.instead) if replaced else rest[:1]
        rest = rest if replaced else rest[1:]
        if not all(script.known and known.code(script.text) for script in scripts):
            call.risk("", f"the program that {call.name} is given may run commands or write")
    _files(call, rest if replaced else rest[known.skip :])
    if known.files:
        _option_files(call, options)
    else:
        protected_arguments(call)


def protected_arguments(call: Call) -> None:
    """What the program does with its arguments is not known: it may write to a protected file among them."""
    for word in call.words[1:]:
        for text in {word.text, word.text.rpartition("=")[2]}:
            if call.state.is_protected(text):
                call.risk("", f"{call.name} may change {text}, which is protected")


def _values(call: Call, wanted: frozenset[str], start: int = 1) -> list[Word]:
    """Return the values of options: `-o file`, `-ofile`, `-xo file`, `--output=file`, `--output file`."""
    found: list[Word] = []
    words = call.words
    for index, word in enumerate(words[start:], start) if wanted else ():
        if word.text == "--":
            break
        option, equals, value = word.text.partition("=")
        letter = next((i for i, c in enumerate(word.text[1:], 1) if f"-{c}" in wanted), 0)
        if not word.text.startswith("-") or len(word.text) < 2:
            continue
        if word.text.startswith("--") or word.text in wanted:
            if not any(name.startswith(option) for name in wanted):
                continue
            if equals:
                found.append(Word(value, known=word.known, lead=word.lead.partition("=")[2]))
            else:
                found += words[index + 1 : index + 2]
        elif letter:
            rest = word.text[letter + 1 :]
            found += (
                [Word(rest, known=word.known, lead=word.lead[letter + 1 :])] if rest else words[index + 1 : index + 2]
            )
    return found


def _option_files(call: Call, options: Sequence[Word]) -> None:
    """Judge `--from-file=/etc/passwd`: what an option's value looks like is read."""
    for option in options:
        value = option.text.partition("=")[2]
        if value.startswith(("/", "~", "..")) or "/.." in value:
            call.state.use("read", Word(value, known=option.known, tilde=value.startswith("~")))


def _has(options: Sequence[Word], *wanted: str) -> bool:
    return any(option.text in wanted for option in options)


def _files(call: Call, words: Sequence[Word]) -> None:
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


def runner(call: Call) -> None:
    """`uv run pytest`: what follows the subcommand is a command, a module or a script."""
    known = call.program
    for value in _values(call, known.places):
        call.state.use("read", value)
    if any(word.splits or (not word.known and not word.lead) for word in call.words[1:]):
        call.risk("", f"an argument of {call.name} is only known when it runs and may be a command")
    index = 1
    while index < len(call.words) and _may_be_option(call.words[index]):
        index += 1 + takes_next(call.words[index], known.values)
    if index >= len(call.words) or call.words[index].text not in known.subcommands:
        protected_arguments(call)
        return
    index += 1
    while index < len(call.words) and _may_be_option(call.words[index]):
        if call.words[index].text in ("-m", "--module"):
            return
        index += 1 + (call.words[index].text != "--" and takes_next(call.words[index], known.values))
    inner = call.words[index:]
    if inner and inner[0].known and inner[0].text.endswith(".py"):
        call.state.use("read", inner[0])
    else:
        call.inside(inner)


def find(call: Call) -> None:
    words = call.words
    index = 1
    paths = True
    while index < len(words):
        word = words[index]
        index += 1
        if word.known and word.text in _FIND_RUNS:
            paths = False
            end = next((i for i in range(index, len(words)) if words[i].text in (";", "+")), len(words))
            call.state.command([filled(w, "{}", BELOW) for w in words[index:end]] or [ANY], call.part)
            index = end + 1
        elif word.known and word.text in _FIND_WRITES:
            paths = False
            call.risk(word.text, f"find {word.text} changes files")
            for target in words[index : index + 1] if word.text != "-delete" else ():
                call.state.use("write", target)
        elif word.known and word.text in _FIND_VALUES:
            paths = False
            index += not (index < len(words) and words[index].splits)
        elif not word.known and _may_be_option(word):
            call.risk("", "an argument of find is only known when it runs and may be an action")
        elif paths and word.text[:1] not in ("-", "(", "!", ")"):
            call.state.use("read", word)
        elif not re.fullmatch(r"-[HLP]+|-O\d|-D|--", word.text):
            paths = False


def filled(word: Word, marker: str, item: Word) -> Word:
    """Return the word with what a program puts in place of `marker`: inside a longer one, that may be code."""
    if word.text == marker:
        return item
    return Word(word.text, known=False, splits=word.splits, bare=False) if marker in word.text else word


def git(call: Call) -> None:
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
        index += 1 + takes_next(word, GIT_VALUES)
    if index >= len(words):
        return
    sub = words[index].text
    options, rest = split_options(call, GIT_OPTION_VALUES, index + 1)
    check_options(call, options, GIT_ANY | GIT_SUBCOMMANDS.get(sub, frozenset()))
    for value in _values(call, _GIT_OUTPUTS, index + 1):
        call.state.use("write", value)
    if sub not in GIT_PLAIN and not _reads_only(sub, words[index + 1 :]):
        call.risk(sub, f"git {sub} runs programs or changes settings")
        call.state.probe(words[index + 1 :])
    if rest and rest[0].text in GIT_SUBCOMMANDS.get(sub, frozenset()):
        call.risk(rest[0].text, f"git {sub} {rest[0].text} runs programs, writes or looks elsewhere")
        call.state.probe(rest[1:])
    if any(re.match(r"[\w+-]+::", word.text) for word in rest):
        call.risk("::", "a transport that runs a program")
    for place in rest if sub in GIT_PLACES else ():
        path = place.text.removeprefix("file://")
        if path.startswith(("/", "~", "..")) or "/.." in path:
            call.state.use("write", Word(path, known=place.known, tilde=place.tilde))


def _risky_global(word: Word) -> str:
    if word.text == "--exec-path":
        return ""
    return risky(word, frozenset(r for r in GIT_RISKS if r.startswith("--"))) or (
        "-c" if word.text.startswith("-c") else ""
    )


def _reads_only(sub: str, words: Sequence[Word]) -> bool:
    first = words[0].text if words else ""
    if sub == "config":
        return any(w.text in GIT_READS_CONFIG for w in words) and all(w.known for w in words)
    return sub == "submodule" and first in ("", "status", "summary")
