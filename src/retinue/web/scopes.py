"""What a key may do: scopes, and which of them cover which."""

from collections.abc import Iterable

from retinue.schema.errors import UsageError

ADMIN = "admin"
SUBJECTS: dict[str, tuple[str, ...]] = {
    "agents": ("read", "write"),
    "threads": ("read", "write"),
    "questions": ("read", "write"),
    "memory": ("read", "write"),
    "repos": ("read", "write"),
    "keys": ("read", "write"),
    "metrics": ("read",),
}
SCOPES: tuple[str, ...] = (*(f"{subject}:{verb}" for subject, verbs in SUBJECTS.items() for verb in verbs), ADMIN)


def covers(granted: Iterable[str], wanted: str) -> bool:
    """Whether any of `granted` allows `wanted`. Who may write may read; `memory:*` is both; `admin` is all."""
    subject, _, verb = wanted.partition(":")
    enough = {ADMIN, wanted, f"{subject}:*", f"{subject}:write" if verb == "read" else wanted}
    return any(scope in enough for scope in granted)


def checked(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes without doubles.

    Raises:
        UsageError: one of them is unknown, or there is none.
    """
    found = tuple(dict.fromkeys(scopes))
    known = {*SCOPES, *(f"{subject}:*" for subject in SUBJECTS)}
    if unknown := [scope for scope in found if scope not in known]:
        raise UsageError(f"{', '.join(unknown)} is no scope", hint=f"there are: {', '.join(SCOPES)}")
    if not found:
        raise UsageError("a key needs a scope", hint=f"there are: {', '.join(SCOPES)}")
    return found
