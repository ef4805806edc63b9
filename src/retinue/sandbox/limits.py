"""What one command may use, kept by the kernel for each process; time is kept by whoever runs it."""

from collections.abc import Sequence

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may use; 0 is no limit."""

    seconds: float = 120.0
    """When the call names no time of its own."""
    most_seconds: float = 1800.0
    memory: int = 8 * 1024**3
    """Bytes of data each process may have."""
    processes: int = 2048
    """In a sandbox only: outside, the user's other processes would count."""
    file_size: int = 4 * 1024**3


def limited(argv: Sequence[str], limits: Limits, *, sandboxed: bool) -> list[str]:
    """`argv` behind the limits that the kernel keeps for a process and what it starts."""
    kibibytes = {"-d": limits.memory // 1024, "-f": limits.file_size // 1024}
    counts = {"-u": limits.processes if sandboxed else 0, "-c": None}
    wanted = [f"ulimit {flag} {n or 0}" for flag, n in (kibibytes | counts).items() if n or flag == "-c"]
    return ["bash", "--noprofile", "--norc", "-c", f'{"; ".join(wanted)}; exec "$@"', "bash", *argv]
