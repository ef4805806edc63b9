"""The taint gate: a thread that has read private data and untrusted content may not send out unasked.

Whoever controls the content could otherwise have the data sent to them. Labels
only ever grow; they follow children, memory and resume, which the runtime sees to.
"""

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from retinue.policy.patterns import matches
from retinue.schema.errors import UsageError
from retinue.schema.permission import Decision

Label = Literal["private", "untrusted", "sends"]
Mode = Literal["ask", "deny", "off"]

LABELS: dict[str, frozenset[Label]] = {
    "read": frozenset(("private",)),
    "grep": frozenset(("private",)),
    "glob": frozenset(),
    "list": frozenset(),
    "bash": frozenset(("private",)),
    "diagnostics": frozenset(("private",)),
    "load_memory": frozenset(("private",)),
    "webfetch": frozenset(("untrusted", "sends")),
    "websearch": frozenset(("untrusted", "sends")),
    "mcp_*": frozenset(("private", "untrusted", "sends")),
    "remote_*": frozenset(("untrusted", "sends")),
}
"""What a tool's results are, and whether its arguments leave the machine. Others have no label."""


_NETWORK: frozenset[Label] = frozenset(("untrusted", "sends"))


class TaintPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's own policy; `labels` come before the table's."""

    mode: Mode = "ask"
    labels: Mapping[str, frozenset[Label]] = {}


def policy_of(taint: Mapping[str, object]) -> TaintPolicy:
    """Return the policy that a definition's `taint` writes: `{mode: deny, labels: {mcp_mail_*: [private, sends]}}`."""
    try:
        return msgspec.convert(taint, TaintPolicy)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"taint is not a policy: {error}",
            hint="write mode (ask, deny, off) and labels (tool: private, untrusted, sends)",
        ) from None


def labels(tool: str, policy: TaintPolicy | None = None, *, network: bool = False) -> frozenset[Label]:
    """Return the labels of a tool.

    Args:
        tool: Its name.
        policy: The agent's own.
        network: The shell has the network, so bash sends and reads what is untrusted.
    """
    rows = (*(policy.labels.items() if policy else ()), *LABELS.items())
    found = next((names for pattern, names in rows if matches(pattern, tool)), frozenset[Label]())
    return found | _NETWORK if tool == "bash" and network else found


def gate(tool: str, taints: Collection[str], policy: TaintPolicy, *, network: bool = False) -> Decision | None:
    """Return the objection to a call, or None: the rules decide then as always.

    Args:
        tool: The tool that is called.
        taints: Labels that the thread carries.
        policy: The agent's.
        network: See `labels`.
    """
    if policy.mode == "off" or not {"private", "untrusted"} <= {*taints}:
        return None
    if "sends" not in labels(tool, policy, network=network):
        return None
    reason = f"this thread has read private data and untrusted content, and {tool} sends out"
    return Decision(verdict="deny" if policy.mode == "deny" else "ask", reason=reason)
