"""What a key's value may be: one `Kind` reads a node, names itself, and describes itself as JSON Schema.

A kind raises `Bad` with the node that is wrong, or `Kept` for a value that means
something to another tool. Whether a bad value is an error is the key's decision.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import isfinite

import msgspec

from retinue.definition.codes import Report
from retinue.definition.node import Fields, Items, Node, Plain, Scalar, plain, shown


class Bad(Exception):
    """`node` is not what is wanted; `path` leads to it from the key."""

    def __init__(
        self, wanted: str, node: Node, *, path: str = "", code: str = "bad-value", hint: str | None = None
    ) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.node = node
        self.path = path
        self.code = code
        self.hint = hint

    def under(self, step: str) -> "Bad":
        self.path = f"{step}.{self.path}" if self.path else step
        return self


class Kept(Exception):
    """The value is kept in `extra` and not used."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Kind(msgspec.Struct, frozen=True):
    label: str
    read: Callable[[Node, Report], object]
    schema: Mapping[str, object]
    write: Callable[[object], object] = msgspec.to_builtins
    """Back to what the canonical form says."""


class Key(msgspec.Struct, frozen=True):
    """A row of a table of keys: of the frontmatter itself, or of a map inside it."""

    name: str
    kind: Kind
    help: str
    aliases: tuple[str, ...] = ()
    variants: Mapping[str, Kind] = {}
    """Other names whose value is read differently: another unit, the opposite sense."""
    default: str = ""
    power: bool = False
    """It decides what an agent may do, or with which model: never rescued, never guessed."""
    lenient: bool = False
    """Other tools give it another meaning: a bad value is kept and warned of."""
    rescue: bool = False
    """Plain text that is read even where it breaks YAML."""


def folded(key: str) -> str:
    """`mcpServers`, `mcp-servers`, `McpServers` and `mcp_servers` are one key."""
    return key.replace("_", "").replace("-", "").lower()


def lookup(keys: Iterable[Key]) -> dict[str, tuple[Key, Kind]]:
    found: dict[str, tuple[Key, Kind]] = {}
    for key in keys:
        for name in (key.name, *key.aliases):
            found[folded(name)] = (key, key.kind)
        for name, kind in key.variants.items():
            found[folded(name)] = (key, kind)
    return found


@lru_cache(maxsize=1024)
def did_you_mean(key: str, names: tuple[str, ...]) -> str | None:
    if len(key) > 40:
        return None
    from difflib import get_close_matches

    near = get_close_matches(key.lower(), names, n=1, cutoff=0.75)
    return f"did you mean '{near[0]}'?" if near else None


LARGEST = 2**53 - 1
"""Of whole numbers: every reader of JSON keeps them exact up to here."""


def number_of(node: Node) -> float | int | None:
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or node.value is None:
        return None
    if isinstance(node.value, str):
        try:
            value = float(node.value)
        except ValueError:
            return None
        return (int(value) if value.is_integer() and "." not in node.value else value) if isfinite(value) else None
    return node.value


def flag_of(node: Node) -> bool | None:
    if not isinstance(node, Scalar):
        return None
    if isinstance(node.value, bool):
        return node.value
    return {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}.get(node.text.lower())


def text_of(node: Node, wanted: str = "text") -> str:
    if isinstance(node, Scalar) and node.value is not None:
        return node.text
    raise Bad(wanted, node)


def texts_of(node: Node, wanted: str = "a list of texts") -> tuple[str, ...]:
    """A list, or one text with commas."""
    if isinstance(node, Items):
        return tuple([text_of(item, wanted).strip() for item in node.items])
    if isinstance(node, Fields):
        raise Bad(wanted, node)
    return tuple([part for raw in node.text.split(",") if (part := raw.strip())]) if node.value is not None else ()


def fields_of(node: Node, wanted: str) -> Fields:
    if isinstance(node, Fields):
        return node
    raise Bad(wanted, node)


def free_map(node: Node, wanted: str = "a map") -> dict[str, Plain]:
    return {key: plain(value) for key, value in fields_of(node, wanted).fields.items()}


# kinds without parameters


def _read_flag(node: Node, _: Report) -> object:
    if (value := flag_of(node)) is None:
        raise Bad("true or false", node)
    return value


def _read_not(node: Node, report: Report) -> object:
    return not _read_flag(node, report)


def _read_text_map(node: Node, _: Report) -> object:
    values: dict[str, str] = {}
    for key, value in fields_of(node, "a map of texts").fields.items():
        try:
            values[key] = "" if isinstance(value, Scalar) and value.value is None else text_of(value)
        except Bad as bad:
            raise bad.under(key) from None
    return values


_BOOL: dict[str, object] = {"type": "boolean"}
_STRING: dict[str, object] = {"type": ["string", "number", "boolean"]}
TEXT = Kind("text", lambda node, _: text_of(node), _STRING)
TEXTS = Kind(
    "list of texts, or one text with commas",
    lambda node, _: texts_of(node),
    {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": ["string", "null"]}]},
)
FLAG = Kind("true or false", _read_flag, _BOOL)
NOT = Kind("true or false, the other way round", _read_not, _BOOL)
TEXT_MAP = Kind("map of texts", _read_text_map, {"type": "object"})
MAP = Kind("map", lambda node, _: free_map(node), {"type": "object"})


# kinds with parameters


def number(low: float | None = None, high: float | None = None, *, whole: bool = False) -> Kind:
    wanted = "a whole number" if whole else "a number"
    if low is not None and high is not None:
        wanted += f" from {low:g} to {high:g}"
    elif low is not None:
        wanted += f" of at least {low:g}"

    def read(node: Node, _: Report) -> object:
        value = number_of(node)
        if value is None or (whole and value != int(value)):
            raise Bad(wanted, node)
        if whole and abs(value) > LARGEST:
            raise Bad(f"{wanted}, at most {LARGEST}", node)
        if (low is not None and value < low) or (high is not None and value > high):
            raise Bad(wanted, node)
        return int(value) if whole else float(value)

    schema: dict[str, object] = {"type": "integer" if whole else "number"}
    if low is not None:
        schema["minimum"] = low
    if high is not None:
        schema["maximum"] = high
    return Kind(wanted.removeprefix("a "), read, schema)


def choice(*values: str, also: Mapping[str, str] | None = None) -> Kind:
    """One of `values`, however it is spelled (`SingleShot`); `also` maps other tools' words onto them."""
    by_fold = {folded(v): v for v in values} | {folded(k): v for k, v in (also or {}).items()}
    wanted = f"{', '.join(values[:-1])} or {values[-1]}"

    def read(node: Node, _: Report) -> object:
        text = text_of(node, wanted)
        if (value := by_fold.get(folded(text.strip()))) is None:
            raise Bad(wanted, node, hint=did_you_mean(text, values))
        return value

    return Kind(wanted, read, {"type": "string", "enum": list(values)})


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)", re.IGNORECASE)
_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)(?:\.\d+)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 3650 * 86400.0


def seconds_of(node: Node, unit: float = 1.0) -> float:
    wanted = "a duration like 90s, 5m or 1h, at most 3650d"
    value = number_of(node)
    # a long run of digits would be tried from each of them
    if value is None and isinstance(node, Scalar) and isinstance(node.value, str) and len(node.value) < 100:
        text = node.value.strip()
        if clock := _CLOCK.fullmatch(text):
            value, unit = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3]), 1.0
        elif (parts := _DURATION.findall(text)) and not _DURATION.sub("", text).strip():
            spans = (float(n) * _UNITS["ms" if u.lower() == "ms" else u[0].lower()] for n, u in parts)
            value, unit = sum(spans), 1.0
    if value is None or not 0 < value * unit <= _LONGEST:
        raise Bad(wanted, node)
    return float(value * unit)


def duration(unit: float = 1.0) -> Kind:
    """Seconds; a bare number is in `unit`s."""
    name = {1.0: "seconds", 60.0: "minutes"}[unit]
    schema = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}
    return Kind(f"duration like 5m, or {name}", lambda node, _: seconds_of(node, unit), schema, _write_duration)


def _write_duration(value: object) -> object:
    if not isinstance(value, float):
        raise TypeError(value)
    for suffix in ("h", "m", "s"):
        if value % _UNITS[suffix] == 0:
            return f"{int(value / _UNITS[suffix])}{suffix}"
    return value


def nano_dollars(node: Node) -> int:
    """`$2`, `2.50` or a number: dollars, kept exact."""
    from decimal import Decimal, InvalidOperation

    wanted = "an amount like $2.50"
    text = text_of(node, wanted).strip().removeprefix("$")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise Bad(wanted, node) from None
    if not value.is_finite() or not 0 <= value <= 1_000_000:
        raise Bad(wanted, node)
    return int(value * 1_000_000_000)


def structure(make: Callable[..., object], keys: Sequence[Key], label: str, *, short: str | None = None) -> Kind:
    """A map of `keys` that becomes one value; with `short`, a bare text is that key."""
    table = lookup(keys)
    names = tuple(key.name for key in keys)
    required = [key.name for key in keys if key.default == "required"]

    def read(node: Node, report: Report) -> object:
        if short is not None and isinstance(node, Scalar) and node.value is not None:
            return make(**{short: node.text})
        found: dict[str, object] = {}
        for name, value in fields_of(node, label).fields.items():
            if (row := table.get(folded(name))) is None:
                place = node.keys[name] if isinstance(node, Fields) else (1, 1)
                report.add("unknown-key", *place, f"'{name}' is not a key of {label}", did_you_mean(name, names))
                continue
            key, kind = row
            if isinstance(value, Scalar) and value.value is None:
                continue
            try:
                found[key.name] = kind.read(value, report)
            except Bad as bad:
                raise bad.under(name) from None
        if missing := [name for name in required if name not in found]:
            raise Bad(f"a map with '{missing[0]}'", node)
        return make(**found)

    return Kind(label, read, _structure_schema(keys, required, short))


def _structure_schema(keys: Sequence[Key], required: list[str], short: str | None) -> dict[str, object]:
    properties = {key.name: {**key.kind.schema, "description": key.help} for key in keys}
    schema: dict[str, object] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {"anyOf": [{"type": "string"}, schema]} if short else schema


def found_and_wanted(path: str, bad: Bad) -> str:
    return f"'{path}' is {shown(bad.node)}; wanted {bad.wanted}"
