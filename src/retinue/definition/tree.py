"""YAML → nodes with their places, in one pass over the parser's events and under limits.

Nothing is expanded or constructed: an alias ends the reading, so a bomb costs nothing.
What is broken is only told; `retinue.definition.rescue` decides what becomes of it.
"""

from collections.abc import Callable

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
)

from retinue.definition.node import MAX_DEPTH, Fields, Items, Node, Scalar, scalar


class Broken(Exception):
    """It is not YAML as we read it, at this place; a text key may still be rescued."""

    def __init__(self, message: str, line: int, column: int, code: str = "bad-yaml") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.code = code


class Refused(Broken):
    """A limit is passed: no rescue."""


def read_yaml(
    source: str, first_line: int, is_text: Callable[[str], bool], *, max_values: int = 1_000_000
) -> Node | None:
    """The root node, or None for no content. `is_text` tells the top-level keys whose text may start like an alias.

    Raises `Broken` or `Refused`. Lines count from `first_line`; keys, values and ends of lists and maps count
    towards `max_values`.
    """
    try:
        parser = CParser(source.encode())
        try:
            return _Builder(source, first_line, is_text).build(parser.get_event, max_values)
        finally:
            parser.dispose()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + first_line, mark.column + 1) if mark else (first_line, 1)
        raise Broken(error.problem or "not YAML", line, column) from None
    except YAMLError as error:
        raise Broken(str(error).splitlines()[0], first_line, 1) from None


class _Builder:
    """A stack of open lists and maps, and the key that each open map waits to fill."""

    __slots__ = ("is_text", "keys", "line", "source", "stack")

    def __init__(self, source: str, first_line: int, is_text: Callable[[str], bool]) -> None:
        self.source = source
        self.line = first_line
        self.is_text = is_text
        self.stack: list[Items | Fields] = []
        self.keys: list[str | None] = []

    def build(self, next_event: Callable[[], Event | None], left: int) -> Node | None:
        """Every event is a turn of one loop: a file has some twenty, a catalog ten thousand files."""
        stack, keys, base = self.stack, self.keys, self.line
        root: Node | None = None
        documents = 0
        while (event := next_event()) is not None:
            if (left := left - 1) < 0:
                raise Refused("there are thousands of values", *self._place(event), "too-many-values")
            if isinstance(event, ScalarEvent):
                line, column = (mark.line + base, mark.column + 1) if (mark := event.start_mark) else (base, 1)
                if event.anchor is not None or event.tag is not None:
                    raise self._unwanted(event)
                if stack and keys[-1] is None and isinstance(top := stack[-1], Fields):
                    keys[-1] = _new_key(top, event.value, line, column)
                    continue
                node = scalar(event.value, line, column, quoted=not event.implicit[0])
                if not node.quoted and event.end_mark and event.end_mark.line + base > line:
                    node.goes_on = self._joins(event)
            elif isinstance(event, CollectionStartEvent):
                if event.anchor is not None or event.tag is not None:
                    raise self._unwanted(event)
                node = self._opened(event)
            elif isinstance(event, CollectionEndEvent):
                stack.pop()
                keys.pop()
                continue
            elif isinstance(event, AliasEvent):
                raise self._unwanted(event)
            else:
                documents += isinstance(event, DocumentStartEvent)
                if documents > 1:
                    raise Broken("a second document starts here", *self._place(event))
                continue
            if not stack:
                root = node
            elif isinstance(top := stack[-1], Items):
                top.items.append(node)
            else:
                self._fill(top, node)
            if not isinstance(node, Scalar):
                stack.append(node)
                keys.append(None)
        return root

    def _place(self, event: Event) -> tuple[int, int]:
        mark = event.start_mark
        return (mark.line + self.line, mark.column + 1) if mark else (self.line, 1)

    def _joins(self, event: ScalarEvent) -> bool:
        """Whether lines were joined where no comma says that a list goes on."""
        if event.start_mark is None or event.end_mark is None:
            return True
        *lines, _ = self.source[event.start_mark.index : event.end_mark.index].rstrip().split("\n")
        return not all(line.rstrip().endswith(",") for line in lines)

    def _opened(self, event: CollectionStartEvent) -> Items | Fields:
        line, column = self._place(event)
        if len(self.stack) >= MAX_DEPTH:
            raise Refused(f"values are nested deeper than {MAX_DEPTH}", line, column, "too-deep")
        if isinstance(event, MappingStartEvent):
            return Fields({}, {}, line, column)
        return Items([], line, column)

    def _fill(self, top: Fields, node: Node) -> None:
        key = self.keys[-1]
        if key is None:
            what = "a list" if isinstance(node, Items) else "a map"
            raise Broken(f"a key must be text, not {what}", node.line, node.column)
        top.fields[key] = node
        self.keys[-1] = None

    def _unwanted(self, event: Event) -> Broken:
        """An anchor, alias or tag: text that happens to start with `&`, `*` or `!`, or an attempt to expand."""
        line, column = self._place(event)
        if getattr(event, "anchor", None) is None:
            return Broken("a value starts with '!', a YAML tag; quote it", line, column)
        key = self.keys[-1] if len(self.stack) == 1 else None
        kind = Broken if key is not None and self.is_text(key) else Refused
        message = "YAML anchors and aliases are not read; quote a value that starts with '&' or '*'"
        return kind(message, line, column, "yaml-alias")


def _new_key(top: Fields, key: str, line: int, column: int) -> str:
    if key in top.keys:
        raise Refused(f"'{key}' was given before, in line {top.keys[key][0]}", line, column, "duplicate-key")
    top.keys[key] = (line, column)
    return key
