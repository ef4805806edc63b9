"""Nodes → one value a key: the table is looked up here, and every key finds its fate.

A key is read, kept for later (`extra`) with a warning, or an error. How the values
fit together is `retinue.definition.assemble`'s business.
"""

import re
from unicodedata import normalize

import msgspec

from retinue.definition.codes import Report
from retinue.definition.keys import NESTED, find, grants_power, is_free, names, unsupported
from retinue.definition.node import Fields, Node, Plain, Scalar, joined_words, plain
from retinue.definition.values import Bad, Kept, Key, Kind, did_you_mean, folded, found_and_wanted

_NOT_A_WORD = re.compile(r"[^\w-]")
_READ_EMPTY = frozenset(
    ["tools", "allowed_tools", "disallowed_tools", "allowed_commands", "allowed_agents", "mcp_servers", "permissions"]
)
"""Keys for which no value is a value: no tools, no commands, no servers, or an error."""


class Given(msgspec.Struct):
    """What a file says, by canonical key."""

    values: dict[str, object]
    places: dict[str, tuple[int, int]]
    extra: dict[str, Plain]

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        return value if isinstance(value, str) else None


def gather(root: Fields, report: Report) -> Given:
    given = Given({}, {}, {})
    _gather(root, "", given, report)
    return given


def _gather(fields: Fields, path: str, given: Given, report: Report) -> None:
    for name, node in fields.fields.items():
        place = fields.keys[name]
        if (row := find(name)) is not None:
            _known(name, path + name, node, row, place, given, report)
        elif folded(name) in NESTED and isinstance(node, Fields) and not path:
            _gather(node, f"{name}.", given, report)
        else:
            _unknown(name, path + name, node, place, given, report)


def _known(
    name: str, path: str, node: Node, row: tuple[Key, Kind], place: tuple[int, int], given: Given, report: Report
) -> None:
    key, kind = row
    if isinstance(node, Scalar) and node.value is None and key.name not in _READ_EMPTY:
        report.add("empty-value", *place, f"'{path}' has no value", "quote a value that starts with '#'")
        return
    try:
        if key.power and (joined := joined_words(node)) is not None:
            raise Bad("one line; put a longer value in quotes", joined)
        value = kind.read(node, report)
    except Kept as kept:
        given.extra[name] = plain(node)
        report.add(kept.code, *place, f"'{path}': {kept.message}")
        return
    except Bad as bad:
        message = found_and_wanted(f"{path}.{bad.path}" if bad.path else path, bad)
        foreign = key.lenient or (not key.power and not isinstance(node, Scalar) and _is_plain(kind))
        if foreign:
            given.extra[name] = plain(node)
        report.add("foreign-value" if foreign else bad.code, bad.node.line, bad.node.column, message, bad.hint)
        return
    if key.name not in given.values:
        given.values[key.name] = value
        given.places[key.name] = place
        return
    if given.values[key.name] == value:
        return
    first = given.places[key.name][0]
    if key.power:
        report.add("duplicate-key", *place, f"'{path}' is another name of '{key.name}', given in line {first}")
        return
    report.add("foreign-value", *place, f"'{path}' says again what '{key.name}' says in line {first}; that one is used")


def _is_plain(kind: Kind) -> bool:
    """A kind of one word or number: a list or map in its place has another tool's meaning."""
    return kind.schema.get("type") not in ("object", "array", None)


def _unknown(name: str, path: str, node: Node, place: tuple[int, int], given: Given, report: Report) -> None:
    given.extra[name] = plain(node)
    bare = _NOT_A_WORD.sub("", normalize("NFKC", name)) if not name.isascii() or not name.isidentifier() else name
    if bare != name and grants_power(bare) and not grants_power(name):
        report.add("hidden-power", *place, f"{name!r} looks like '{bare}', which grants power, and is another word")
        return
    if is_free(name):
        return
    if (reason := unsupported(name)) is not None:
        report.add("unsupported-key", *place, f"'{path}' has no meaning here", reason)
        return
    # the search is slow, and a file of a thousand unknown keys needs no thousand hints
    hint = did_you_mean(name, names()) if len(report.problems) < 10 else None
    report.add("unknown-key", *place, f"'{path}' is not a known key", hint)
