"""Frontmatter of plain lines → nodes, in a fraction of the time that YAML's own machinery takes.

Most frontmatter says one thing a line: `key: value`, `key: [a, b]`, or a key and below it a list
or a map of such lines. What is read here is exactly what `retinue.definition.tree` would read,
places included; at the first line that is anything else, or might be, the answer is None and
the YAML parser reads the whole. Nothing is ever judged or guessed here.
"""

import re

from retinue.definition.node import Fields, Items, Node, Scalar, scalar

_LINE = re.compile(
    r"""(\ *)(?:-\ +|([A-Za-z_][\w-]{0,60}):(?:\ +|(?=\n|\Z)))
        (?:("[^"\\\n]*"|'[^'\n]*'|\[[^\#:\[\]{}\n]*\])
          |([^\s\-?:,\[\]{}\#&*!|>'"%@`](?:.*[^\ \n])?)
        )?\ *(?:\n|\Z)
      |(?:\#.*)?\n
      |(.)""",
    re.VERBOSE | re.ASCII,
)
_ITEM = re.compile(
    r"""[\[,]\ *(?:"([^"\\]*)"|'([^']*)'|(\w(?:[\w./()*+@ -]*[\w./()*+@-])?))\ *(?=[,\]])""", re.VERBOSE | re.ASCII
)
_ODD = re.compile("[\t\ufffe\uffff]")
_MOST = 500
"""Lines and commas: above it the limits of the YAML reader have a say."""


def read_lines(block: str, first_line: int) -> Fields | None:
    """The root node; None when this is more than plain lines. Lines count from `first_line`."""
    if block.count("\n") + block.count(",") > _MOST or _ODD.search(block):
        return None
    root = Fields({}, {}, 0, 1)
    fields, keys = root.fields, root.keys
    opened: str | None = None
    inner: Items | Fields | None = None
    for line, match in enumerate(_LINE.finditer(block), first_line):
        indent, key, closed, text, odd = match.groups()
        if indent is None:
            if odd:
                return None
            continue
        if text is not None:
            if ": " in text or " #" in text or text[-1] == ":":
                return None
            node = scalar(text, line, match.start(4) - match.start() + 1, quoted=False)
        elif closed is not None:
            node = _closed(closed, line, match.start(3) - match.start() + 1)
        elif key is not None:
            node = Scalar(None, "", line, match.end(2) - match.start() + 2, quoted=False)
        else:
            return None
        if node is None:
            return None
        if key is not None and not indent:
            if key in fields:
                return None
            fields[key] = node
            keys[key] = (line, 1)
            opened, inner = (key if text is None and closed is None else None), None
        elif opened is None:
            return None
        else:
            column = len(indent) + 1
            if inner is None:
                inner = Fields({}, {}, line, column) if key else Items([], line, column)
                fields[opened] = inner
            if not _add(inner, key, node, line, column):
                return None
    root.line = next(iter(keys.values()), (0, 0))[0]
    return root if fields else None


def _add(inner: Items | Fields, key: str | None, node: Node, line: int, column: int) -> bool:
    """Whether a line goes on with the list or map that the lines before it are."""
    if column != inner.column:
        return False
    if isinstance(inner, Items):
        inner.items.append(node)
        return key is None
    if key is None or key in inner.fields:
        return False
    inner.fields[key] = node
    inner.keys[key] = (line, column)
    return True


def _closed(text: str, line: int, column: int) -> Node | None:
    """Text in quotes, or a list in brackets."""
    if text[0] != "[":
        inside = text[1:-1]
        return Scalar(inside, inside, line, column)
    items: list[Node] = []
    at, end = 0, len(text) - 1
    while at < end:
        match = _ITEM.match(text, at)
        if match is None:
            return Items([], line, column) if not text[1:-1].strip(" ") else None
        what = match.lastindex or 0
        item: str = match[what]
        place = column + match.start(what)
        items.append(scalar(item, line, place, quoted=False) if what == 3 else Scalar(item, item, line, place - 1))
        at = match.end()
    return Items(items, line, column)
