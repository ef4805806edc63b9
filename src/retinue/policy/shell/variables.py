"""Variables whose every value is written plainly in the script itself, so that words that use them are known."""

import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING

from retinue.policy.shell.words import decode

if TYPE_CHECKING:
    from tree_sitter import Node

Values = Mapping[str, tuple[str, ...]]

# Where variables may get values in a way that the tree does not show, none is trusted.
_HIDDEN = re.compile(
    r"\b(?:eval|source|read|mapfile|readarray|declare|typeset|local|getopts|trap|let|unset|select|IFS)\b"
    r"|printf\s+-v|:=|^\s*\.\s",
    re.MULTILINE,
)
_PLAIN_VALUE = re.compile(r"[\w./:@%+,*?=\[\]-]+")
_MOST_VALUES = 16


def written_values(root: "Node", source: bytes) -> Values:
    """Return the variables whose every value is written plainly in the script."""
    text = source.decode()
    if "$" not in text or _HIDDEN.search(text):
        return {}
    found: dict[str, set[str]] = {}
    todo = [root]
    while todo:
        node = todo.pop()
        todo += node.children
        if node.type not in ("variable_assignment", "for_statement"):
            continue
        name = node.child_by_field_name("name") or node.child_by_field_name("variable")
        written = node.children_by_field_name("value")
        replaced = node.type == "for_statement" or node.children[1].type == "="
        values = [decode([v], source, {}).text for v in written] if written and replaced else [""]
        if name is not None:
            found.setdefault((name.text or b"").decode().partition("[")[0], set()).update(values)
    return {
        name: tuple(sorted(values))
        for name, values in found.items()
        if len(values) <= _MOST_VALUES and all(_PLAIN_VALUE.fullmatch(v) for v in values)
    }


def choices(known: Values, nodes: Iterable["Node"]) -> Iterable[Mapping[str, str]]:
    """Return every way to fill in the variables that the script gives plain values."""
    if not known:
        return ({},)
    used = {n for node in nodes for n in re.findall(r"\$\{?(\w+)", (node.text or b"").decode()) if n in known}
    ways = 1
    for name in used:
        ways *= len(known[name])
    if ways > _MOST_VALUES:
        return ({},)
    names = sorted(used)
    return [dict(zip(names, way, strict=True)) for way in product(*(known[n] for n in names))]
