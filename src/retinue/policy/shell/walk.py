"""Walks the syntax tree of a script and lists its parts; loads the parser on first use."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from retinue.policy.shell.evaluation import evaluates_unknown, evaluations, named_variables
from retinue.policy.shell.programs import risky_variable
from retinue.policy.shell.script import Doubt, Part, Redirect, Scope, ScopeKind, Simple, parse
from retinue.policy.shell.variables import Values, choices, written_values
from retinue.policy.shell.words import OPENING, Word, decode, decode_ansi, here_text, names, plain

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_SCOPES: dict[str, ScopeKind] = {
    **dict.fromkeys(("subshell", "command_substitution", "process_substitution"), "sub"),
    **dict.fromkeys(("if_statement", "elif_clause", "else_clause", "case_statement", "case_item"), "branch"),
    **dict.fromkeys(("for_statement", "while_statement", "c_style_for_statement"), "loop"),
}
_COMMANDS = ("command", "declaration_command", "unset_command")
_REDIRECTS = frozenset(("file_redirect", "heredoc_redirect", "herestring_redirect"))
_WORDS = names(
    "word number string raw_string ansi_c_string translated_string concatenation simple_expansion expansion "
    "arithmetic_expansion brace_expression extglob_pattern regex variable_name test_operator special_variable_name "
    "command_name process_substitution command_substitution"
)
_EXPRESSIONS = _WORDS | names(
    "test_command unary_expression binary_expression postfix_expression ternary_expression parenthesized_expression "
    "subscript array string_content heredoc_body heredoc_content file_descriptor file_redirect herestring_redirect"
)
_BLOCKS = frozenset(("program", "compound_statement", "do_group", "negated_command", "variable_assignments"))
_SINGLY_QUOTED = frozenset(("raw_string", "ansi_c_string"))

_DELIMITER = re.compile(r"\\?[\w.-]+|'[^'\n]*'|\"[^\"\\$`\n]*\"")

_Group = list["Node"] | Word


def walk(text: str, bodies: Sequence[str] = ()) -> tuple[Part, ...]:
    """Return the parts of `text`; `bodies` are those of its quoted here-documents that were cut out."""
    source = text.encode()
    root = _parser().parse(source).root_node
    walker = _Walker(source, bodies, written_values(root, source))
    try:
        walker.visit(root)
    except RecursionError:
        return (Doubt("it is nested too deeply to be judged", scan=text),)
    return walker.finish(root)


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class _Walker:
    def __init__(self, source: bytes, bodies: Sequence[str], values: Values) -> None:
        self.source = source
        self.bodies = list(bodies)
        self.values = values
        self.parts: list[Part] = []
        self.dormant: list[str] = []
        self.carried: dict[int, Sequence[Node]] = {}
        """Redirections that belong to a command further down."""
        self.feed: tuple[tuple[Word, ...], tuple[Word, ...]] = ((), ())

    def finish(self, root: "Node") -> tuple[Part, ...]:
        evaluated = evaluations(root)
        named = sorted(name for name in named_variables(root, evaluated) if risky_variable(name))
        self.parts += [Simple(assigns=((name, Word("", known=False)),)) for name in named]
        if evaluated:
            unquoted = [decode_ansi(text).replace("\\", "") for text in evaluated]
            hidden = [
                plain
                for plain, text in zip(unquoted, evaluated, strict=True)
                if plain != text and OPENING.search(plain)
            ]
            self.parts += [
                Doubt("quoted code that an evaluation may run", code=text) for text in (*self.dormant, *hidden)
            ]
        if evaluates_unknown(root, evaluated):
            self.parts.append(Doubt("it evaluates a value that is only known when it runs"))
        if root.has_error or self.bodies:
            self.parts.append(Doubt("it can't be parsed", scan=self.source.decode()))
        return tuple(self.parts)

    def visit(self, node: "Node") -> None:
        kind = node.type
        if method := _VISITORS.get(kind):
            method(self, node)
        elif kind in _SCOPES:
            self.compound(node)
        elif kind in _REDIRECTS:
            self.simple([], [], [node])
        elif kind in _EXPRESSIONS:
            self.expression(node)
        elif kind in _BLOCKS or node.is_error or not node.is_named:
            self.block(node.children, node)
        else:
            self.parts.append(Doubt(f"an unknown construct, {kind}"))
            self.block(node.children, node)

    def block(self, children: Sequence["Node"], node: "Node") -> None:
        """Visit statements, and make sure that the parser has dropped no text between them."""
        at = node.start_byte
        for child in children:
            self.dropped(at, child.start_byte)
            self.visit(child)
            at = child.end_byte

    def dropped(self, start: int, end: int) -> None:
        if text := self.source[start:end].replace(b"\\\n", b"").strip():
            self.parts.append(Doubt("text that the parser drops", code=text.decode()))

    def scoped(self, kind: ScopeKind, nodes: Iterable["Node"], name: str = "") -> None:
        self.parts.append(Scope(kind, True, name))
        for node in nodes:
            self.visit(node)
        self.parts.append(Scope(kind, False, name))

    def compound(self, node: "Node") -> None:
        kind = _SCOPES[node.type]
        text = _text(node)
        if node.type == "command_substitution" and text.startswith(("`", "$`")):
            # Inside backticks a backslash is taken off before the text is parsed.
            inner = parse(re.sub(r"\\([$`\\])", r"\1", text.lstrip("$")[1:-1]))
            self.parts += (Scope(kind, True), *inner, Scope(kind, False))
            return
        self.scoped(kind, node.children)

    def expression(self, node: "Node") -> None:
        """Look for commands inside a word or an expression, also in text that the parser takes for plain."""
        kind = node.type
        if kind == "expansion" and re.search(r"@[A-Za-z]\}$", _text(node)):
            self.parts.append(Doubt("an expansion that evaluates its value"))
        at = node.start_byte
        for child in node.children:
            gap = self.source[at : child.start_byte].decode()
            self.literal(gap)
            if (kind in _REDIRECTS and "\n" in gap.replace("\\\n", "")) or _text(child).startswith("\n\\"):
                rest = self.source[child.start_byte :].decode()
                self.parts.append(Doubt("a line that starts with a backslash", scan=rest))
            if child.is_named:
                self.visit(child)
            at = child.end_byte
        text = self.source[at : node.end_byte].decode()
        if kind not in _SINGLY_QUOTED:
            self.literal(text)
        elif OPENING.search(text):
            self.dormant.append(text[1:-1])

    def literal(self, text: str) -> None:
        if OPENING.search(text):
            self.parts.append(Doubt("a substitution that the parser takes for text", code=text))

    def comment(self, node: "Node") -> None:
        before = self.source[max(node.start_byte - 1, 0) : node.start_byte]
        if before and before not in b" \t\n;&|()":
            self.parts.append(Doubt("a comment that may not be one", code=_text(node)[1:]))

    def chain(self, node: "Node") -> None:
        """`a && b`, `a || b`."""
        kind: ScopeKind = "branch"
        for index, child in enumerate(node.children):
            if child.type == "&&":
                kind = "and"
            elif index == 0 or not child.is_named:
                self.visit(child)
            else:
                self.scoped(kind, [child])

    def pipeline(self, node: "Node") -> None:
        for child in node.children:
            if child.is_named:
                start = len(self.parts)
                body = child.child_by_field_name("body") or child
                # `a && b > f | c` is parsed as `(a && b > f) | c`, but `a` runs in the shell itself.
                self.scoped("branch" if body.type == "list" else "sub", [child])
                self.feed = self.last_simple(start)
        self.feed = ((), ())

    def last_simple(self, start: int) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
        for part in reversed(self.parts[start:]):
            if isinstance(part, Simple) and part.words:
                return part.words, tuple(r.target for r in part.redirects if r.kind == "text")
        return (), ()

    def function(self, node: "Node") -> None:
        name = node.child_by_field_name("name")
        body = [child for child in node.children if child.is_named and child != name]
        self.scoped("later", body, _text(name) if name else "")

    def assignment(self, node: "Node") -> None:
        self.simple([], [node], [])

    def redirected(self, node: "Node") -> None:
        """The parser gives redirections to a whole chain; bash gives them to its last command."""
        redirects = [*(c for c in node.children if c.type in _REDIRECTS), *self.carried.pop(node.id, ())]
        body = last = node.child_by_field_name("body")
        while last is not None and last.type in ("list", "pipeline", "negated_command"):
            last = last.children[-1]
        for child in node.children:
            if child.type not in _REDIRECTS and child != body:
                self.visit(child)
        if body is None or last is None or last.type not in (*_COMMANDS, "redirected_statement"):
            if body is not None:
                self.visit(body)
            self.simple([], [], redirects)
            return
        self.carried[last.id] = redirects
        self.visit(body)

    def command(self, node: "Node") -> None:
        redirects = self.carried.pop(node.id, ())
        groups: list[_Group] = []
        assigns: list[Node] = []
        marks: list[Node] = []
        at = node.start_byte
        for child in (*node.children, *redirects):
            gap = self.source[at : child.start_byte].replace(b"\\\n", b" ")
            if b"\n" in gap or _text(child).startswith("\n"):
                # The parser takes a line that starts with a backslash for more of the line before.
                rest = self.source[child.start_byte : (redirects or node.children)[-1].end_byte]
                self.parts.append(Doubt("a line that starts with a backslash", code=rest.decode().lstrip("\n")))
                break
            groups += self.lost(gap.decode())
            touches = at == child.start_byte
            at = child.end_byte
            if child.type == "variable_assignment":
                assigns.append(child)
            elif child.type in _REDIRECTS:
                marks.append(child)
            elif child.is_named and child.type not in _WORDS:
                self.parts.append(Doubt(f"an unexpected construct, {child.type}"))
                self.visit(child)
            elif touches and groups and isinstance(groups[-1], list):
                groups[-1].append(child)
            else:
                groups.append([child])
        self.simple(groups, assigns, marks)

    def lost(self, gap: str) -> list[_Group]:
        """Return words that the parser leaves out of the tree, a lone `-` before a here-document for one."""
        if not gap or gap.isspace():
            return []
        if re.search(r"[^\w\s./+:,@%=-]", gap):
            self.parts.append(Doubt("text that the parser drops", code=gap))
        return [plain(word) for word in gap.split()]

    def simple(self, groups: list[_Group], assigns: Sequence["Node"], redirects: Sequence["Node"]) -> None:
        feed, self.feed = self.feed, ((), ())
        after: list[Node] = []
        for redirect in redirects:
            groups += self.extra_words(redirect, after)
            if redirect.type != "heredoc_redirect":
                self.expression(redirect)
        for group in groups:
            for node in group if isinstance(group, list) else ():
                self.visit(node)
        for node in assigns:
            for child in node.children:
                if child.is_named:
                    self.visit(child)
        start = len(self.parts)
        bodies = [self.here_body(r) if r.type == "heredoc_redirect" else None for r in redirects]
        for values in choices(
            self.values, (*assigns, *redirects, *(n for g in groups if isinstance(g, list) for n in g))
        ):
            part = Simple(
                words=tuple(g if isinstance(g, Word) else self.word(g, values) for g in groups),
                assigns=tuple(self.assign(node, values) for node in assigns),
                redirects=tuple(
                    redirect
                    for node, body in zip(redirects, bodies, strict=True)
                    for redirect in ((Redirect("text", body),) if body is not None else self.redirect(node, values))
                ),
                fed_by=feed[0],
                fed_text=feed[1],
            )
            self.parts.append(part)
        self.follow(after, self.last_simple(start))

    def follow(self, nodes: Sequence["Node"], feed: tuple[tuple[Word, ...], tuple[Word, ...]]) -> None:
        """Visit what follows a here-document's start on its line: a pipe, or the rest of a chain."""
        for node in nodes:
            self.feed = feed if node.type == "pipeline" else ((), ())
            self.scoped(
                "sub" if node.type == "pipeline" else "branch", node.children if node.type == "pipeline" else [node]
            )
        self.feed = ((), ())

    def word(self, nodes: Sequence["Node"], values: Mapping[str, str]) -> Word:
        word = decode(nodes, self.source, values)
        if word.known and ("$(" in word.text or "`" in word.text):
            self.dormant.append(word.text)
        return word

    def assign(self, node: "Node", values: Mapping[str, str]) -> tuple[str, Word]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        return _text(name) if name else "", self.word([value], values) if value else plain("")

    def extra_words(self, redirect: "Node", after: list["Node"]) -> list[_Group]:
        """Return arguments that the parser puts into a redirection, and note what follows one in `after`."""
        groups: list[_Group] = []
        if redirect.type == "file_redirect":
            groups += [[node] for node in redirect.children_by_field_name("destination")[1:]]
        if redirect.type == "heredoc_redirect":
            groups += [[node] for node in redirect.children_by_field_name("argument")]
            after += [n for n in redirect.children if n.type == "pipeline"] + redirect.children_by_field_name("right")
        return groups

    def here_body(self, node: "Node") -> Word:
        parts = {child.type: child for child in node.children}
        start, body, end = (parts.get(kind) for kind in ("heredoc_start", "heredoc_body", "heredoc_end"))
        written = _text(start) if start else ""
        expands = not set(written) & set("'\"\\")
        for child in node.children:
            if child.is_error or child.type == "file_redirect":
                self.visit(child)
        ends = self.source[start.end_byte : start.end_byte + 1] if start else b""
        clear = bool(_DELIMITER.fullmatch(written)) and ends in b" \t\n;&|<>)"
        if not clear or end is None or end.start_byte != self.here_end(node, written):
            self.parts.append(Doubt("a here-document whose end is unclear", scan=self.source.decode()))
        if body is None or not _text(body):
            return here_text(self.bodies.pop(0) if self.bodies and not expands else "", expands=False)
        if expands:
            self.visit(body)
        return here_text(_text(body), expands=expands)

    def here_end(self, node: "Node", written: str) -> int:
        """Return where bash ends a here-document: the parser takes an indented delimiter for one too."""
        delimiter = written.strip("'\"\\").encode()
        at = self.source.find(b"\n", node.start_byte) + 1
        while at > 0:
            line, newline, _ = self.source[at:].partition(b"\n")
            tabs = len(line) - len(line.lstrip(b"\t")) if _text(node).startswith("<<-") else 0
            if line[tabs:] == delimiter:
                return at + tabs
            at = at + len(line) + 1 if newline else 0
        return -1

    def redirect(self, node: "Node", values: Mapping[str, str]) -> tuple[Redirect, ...]:
        operator = next((c.type for c in node.children if not c.is_named), "")
        if node.type == "herestring_redirect":
            return (Redirect("text", self.word([c for c in node.children if c.is_named], values)),)
        targets = node.children_by_field_name("destination")[:1]
        if not targets:
            return ()
        word = self.word(targets, values)
        if operator in (">&", "<&") and word.known and re.fullmatch(r"\d+-?|-", word.text):
            return ()
        kind = "read" if operator == "<" else "both" if operator == "<&" else "write"
        return (Redirect(kind, word),)


_VISITORS: dict[str, Callable[[_Walker, "Node"], None]] = {
    **dict.fromkeys(_COMMANDS, _Walker.command),
    "variable_assignment": _Walker.assignment,
    "redirected_statement": _Walker.redirected,
    "list": _Walker.chain,
    "pipeline": _Walker.pipeline,
    "function_definition": _Walker.function,
    "comment": _Walker.comment,
}


def _text(node: "Node") -> str:
    return (node.text or b"").decode()
