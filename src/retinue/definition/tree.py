"""YAML → nodes with their places, in one pass over the parser's events and under limits.

Nothing is expanded or constructed: an alias ends the reading, so a bomb costs nothing.
What is broken is only told; `retinue.definition.rescue` decides what becomes of it.
"""

from collections.abc import Callable

from yaml import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    MarkedYAMLError,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    YAMLError,
)
from yaml._yaml import CParser
from yaml.events import Event

from retinue.definition.node import MAX_DEPTH, Fields, Items, Node, scalar


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


def read_yaml(source: str, first_line: int, is_text: Callable[[str], bool]) -> Node | None:
    """The root node, or None for no content. `is_text` tells the top-level keys whose value may be rescued.

    Raises `Broken` or `Refused`. Lines count from `first_line`.
    """
    try:
        parser = CParser(source.encode())
        try:
            return _Builder(first_line, is_text).build(parser)
        finally:
            parser.dispose()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + first_line, mark.column + 1) if mark else (first_line, 1)
        raise Broken(error.problem or "not YAML", line, column) from None
    except YAMLError as error:
        raise Broken(str(error).splitlines()[0], first_line, 1) from None


class _Builder:
    __slots__ = ("is_text", "keys", "line", "root", "stack")

    def __init__(self, first_line: int, is_text: Callable[[str], bool]) -> None:
        self.line = first_line
        self.is_text = is_text
        self.stack: list[Items | Fields] = []
        self.keys: list[str | None] = []
        self.root: Node | None = None

    def build(self, parser: CParser) -> Node | None:
        documents = 0
        while (event := parser.get_event()) is not None:
            match event:
                case ScalarEvent():
                    self._scalar(event)
                case MappingStartEvent():
                    self._open(event, Fields({}, {}, *self._place(event)))
                case SequenceStartEvent():
                    self._open(event, Items([], *self._place(event)))
                case MappingEndEvent() | SequenceEndEvent():
                    self.stack.pop()
                    self.keys.pop()
                case AliasEvent():
                    raise self._unwanted(event)
                case DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise Broken("a second document starts here", *self._place(event))
                case _:
                    pass
        return self.root

    def _place(self, event: Event) -> tuple[int, int]:
        mark = event.start_mark
        return (mark.line + self.line, mark.column + 1) if mark else (self.line, 1)

    def _scalar(self, event: ScalarEvent) -> None:
        if event.anchor is not None or event.tag is not None:
            raise self._unwanted(event)
        line, column = self._place(event)
        if self.stack:
            top = self.stack[-1]
            if isinstance(top, Fields) and self.keys[-1] is None:
                self._key(top, event.value, line, column)
                return
        self._put(scalar(event.value, line, column, quoted=not event.implicit[0]))

    def _key(self, top: Fields, key: str, line: int, column: int) -> None:
        if key in top.keys:
            first = top.keys[key][0]
            raise Refused(f"'{key}' was given before, in line {first}", line, column, "duplicate-key")
        top.keys[key] = (line, column)
        self.keys[-1] = key

    def _open(self, event: MappingStartEvent | SequenceStartEvent, node: Items | Fields) -> None:
        if event.anchor is not None or event.tag is not None:
            raise self._unwanted(event)
        if len(self.stack) >= MAX_DEPTH:
            raise Refused(f"values are nested deeper than {MAX_DEPTH}", node.line, node.column, "too-deep")
        self._put(node)
        self.stack.append(node)
        self.keys.append(None)

    def _put(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        if isinstance(top, Items):
            top.items.append(node)
            return
        key = self.keys[-1]
        if key is None:
            raise Broken(
                f"a key must be text, not {'a list' if isinstance(node, Items) else 'a map'}", node.line, node.column
            )
        top.fields[key] = node
        self.keys[-1] = None

    def _unwanted(self, event: Event) -> Broken:
        """An anchor, alias or tag: text that happens to start with `&`, `*` or `!`, or an attempt to expand."""
        line, column = self._place(event)
        if getattr(event, "anchor", None) is None:
            return Broken("a value starts with '!', a YAML tag; quote it", line, column)
        key = self.keys[-1] if len(self.stack) == 1 else None
        kind = Broken if key is not None and self.is_text(key) else Refused
        return kind(
            "YAML anchors and aliases are not read; quote a value that starts with '&' or '*'",
            line,
            column,
            "yaml-alias",
        )
