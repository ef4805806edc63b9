"""What the tools of MCP servers are called here: `mcp_<server>_<tool>`, in characters that every provider takes."""

import re
from collections.abc import Collection, Iterable
from hashlib import sha256

LONGEST = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


def prefix(server: str) -> str:
    return f"mcp_{_FOREIGN.sub('_', server)}_"


def tool_names(tools: Iterable[tuple[str, str]], taken: Collection[str] = ()) -> dict[tuple[str, str], str]:
    """Return a name for each pair of server and tool.

    A name that can be spelled as it is stays so, whatever else maps to it: a server
    can't rename a tool, and so dodge a rule, by offering `write.file` beside `write_file`.
    What is cut or clashes ends in a hash of the pair.
    """
    named: dict[tuple[str, str], str] = {}
    used = set(taken)
    for pair in sorted(dict.fromkeys(tools), key=lambda pair: (not _exact(*pair), pair)):
        spelled = prefix(pair[0]) + _FOREIGN.sub("_", pair[1])
        if len(spelled) > LONGEST or spelled in used:
            digest = sha256("\0".join(pair).encode()).hexdigest()[:8]
            spelled = f"{spelled[: LONGEST - 9]}_{digest}"
        named[pair] = spelled
        used.add(spelled)
    return named


def _exact(server: str, tool: str) -> bool:
    return len(server) + len(tool) + 5 <= LONGEST and not _FOREIGN.search(server + tool)
