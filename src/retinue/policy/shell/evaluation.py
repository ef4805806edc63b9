"""What bash evaluates once more: arithmetic, subscripts and names of variables run the substitutions in their text.

`x='a[$(id)]'; echo $((x))` runs `id`, and so does a file's content that is read into `x`. So a
value that is only known when it runs must not be evaluated unasked.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_ALWAYS = frozenset(("arithmetic_expansion", "c_style_for_statement", "subscript"))
_TESTS = re.compile(r"\[\[.*\s-(?:eq|ne|lt|le|gt|ge|v|R)\s|(?:\[|test)\s(?:.*\s)?-[vR]\s", re.DOTALL)
_EXPANSION = re.compile(r"\$\{(?:!(?P<name>.*)|[\w@*]+:(?![-=+?])(?P<offset>.*)|(?P<value>.*)@[A-Za-z])\}", re.DOTALL)
_NAMING = re.compile(r"(?:read|mapfile|readarray|wait|getopts|unset)\s|printf\s+-v")
_COMPUTED = re.compile(r"\$\{?\w+|\[.*\]|\$\(.*|`.*", re.DOTALL)
"""The parts of a name that are not simply written."""
_DECLARED = re.compile(r"\w+\s(?:.*\s)?(?:-\w*[in]\b|[\"'$]\S*=|\+\w)", re.DOTALL)
_CODE = {
    "raw_string": re.compile(r"\(\(|\[|\$\{|\b(?:let|declare|typeset|local|test)\s"),
    "string": re.compile(r"\(\(|\[\[|\blet\s"),
}
"""Quoted text that may evaluate what it names when another shell gets it."""
_NUMERIC = re.compile(
    r"\$\(\s*(?:date \+%s(?:%3?N)?|nproc|id -u|seq [\d ]+|(?:[^()`]*\|)?\s*wc -[lwcm](?:\s*<\s*[\w./\"-]+)?)\s*\)"
)
"""Substitutions that are numbers whatever they read."""
_ARITHMETIC = re.compile(r"\$\(\(((?:[^()]|\([^()]*\))*)\)\)")
_UNKNOWN = re.compile(r"\$\(|`|<\(|\$\{?[1-9@*]")
_GLOB = re.compile(r"[*?]|\[.*\]")
_ASSIGNING = re.compile(r"\$\{(\w+):?=")
_READERS = re.compile(r"(?:read|mapfile|readarray|printf\s+-v|select)\s")


def evaluations(root: "Node") -> list[str]:
    """Return the texts that bash evaluates."""
    return [text for node in _nodes(root) if (text := _evaluated(node))]


def named_variables(root: "Node", evaluated: Sequence[str]) -> set[str]:
    """Return the variables that get a value in another way than by `name=value`."""
    found = {name for text in evaluated for name in re.findall(r"\w+", text)}
    for node in _nodes(root):
        if node.type in ("command", "unset_command") and _NAMING.match(text := _command(node)):
            found.update(re.findall(r"\w+", text.replace("-v", "-v ")))
        elif node.type == "for_statement" and (name := node.child_by_field_name("variable")):
            found.add(_text(name))
        elif node.type == "expansion" and (assigned := _ASSIGNING.match(_text(node))):
            found.add(assigned[1])
        elif node.type == "file_redirect" and (given := re.match(r"\{(\w+)\}", _text(node))):
            found.add(given[1])
    return found


def evaluates_unknown(root: "Node", evaluated: Sequence[str]) -> bool:
    """Return whether something in `evaluated` may be a value that is only known when it runs."""
    kept = [text for node in _nodes(root) if (code := _CODE.get(node.type)) and code.search(text := _text(node))]
    if not evaluated and not kept:
        return False
    unknown = _unknown_variables(root)
    for text in (*evaluated, *kept):
        plain = _NUMERIC.sub("", text)
        if unknown & set(re.findall(r"\w+", plain)) or (text not in kept and _is_unknown(plain)):
            return True
    return False


def _evaluated(node: "Node") -> str:
    kind, text = node.type, _command(node)
    if kind in _ALWAYS or (kind == "compound_statement" and text.startswith("((")):
        return text
    if kind in ("test_command", "command") and _TESTS.match(text):
        return text
    if kind == "expansion" and (found := _EXPANSION.fullmatch(text)):
        return next(part for part in found.groups() if part is not None)
    if kind in ("command", "unset_command") and _NAMING.match(text):
        return " ".join(_COMPUTED.findall(text))
    if kind == "command" and text.startswith("let "):
        return text
    return text if kind == "declaration_command" and _DECLARED.match(text) else ""


def _unknown_variables(root: "Node") -> set[str]:
    """Return the variables that get something else than text of the script; one that mentions another is like it."""
    given: list[tuple[str, str]] = []
    unknown: set[str] = set()
    for node in _nodes(root):
        text = _text(node)
        if node.type == "variable_assignment":
            name, _, value = text.partition("=")
            array = value.startswith("(") and _GLOB.search(value)
            given.append((re.split(r"[\[+]", name)[0], "$(*)" if array else value))
        elif node.type == "for_statement":
            name = node.child_by_field_name("variable")
            values = " ".join(_text(value) for value in node.children_by_field_name("value"))
            given.append((_text(name) if name else "", "$(*)" if not values or _GLOB.search(values) else values))
        elif node.type == "command" and _READERS.match(text := _command(node)):
            unknown.update(re.findall(r"\w+", text))
    while more := {
        n for n, v in given if n not in unknown and (_is_unknown(v) or unknown & set(re.findall(r"\w+", v)))
    }:
        unknown |= more
    return unknown


def _is_unknown(value: str) -> bool:
    value = _NUMERIC.sub("", value)
    while value != (inner := _ARITHMETIC.sub(r"\1", value)):
        value = inner
    return _UNKNOWN.search(value) is not None


def _command(node: "Node") -> str:
    """Return a node's text; of a command, without the variables set for it."""
    name = node.child_by_field_name("name") if node.type == "command" else None
    return _text(node)[name.start_byte - node.start_byte if name else 0 :]


def _nodes(root: "Node") -> Iterator["Node"]:
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        todo += node.children


def _text(node: "Node") -> str:
    return (node.text or b"").decode()
