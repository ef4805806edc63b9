"""Names that somebody may have meant."""

from collections.abc import Iterable, Sequence

from retinue.definition.ids import fold


def near_names(name: str, known: Iterable[str], *, limit: int = 3) -> Sequence[str]:
    """Return the closest of `known`: first those that end in the same segment, then by spelling."""
    from difflib import get_close_matches  # only errors need it

    wanted = fold(name)
    by_fold = {fold(k): k for k in known}
    tail = wanted.rpartition("/")[2]
    same_tail = [k for f, k in by_fold.items() if f.rpartition("/")[2] == tail]
    alike = [by_fold[f] for f in get_close_matches(wanted, by_fold, n=limit, cutoff=0.6)]
    return tuple(dict.fromkeys([*same_tail, *alike]))[:limit]
