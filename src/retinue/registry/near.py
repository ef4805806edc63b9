"""Names that somebody may have meant."""

from collections.abc import Iterable, Sequence

from retinue.definition.ids import fold

_FEW = 300


def near_names(name: str, known: Iterable[str], *, limit: int = 3) -> Sequence[str]:
    """Return the closest of `known`: first those that end in the same segment, then by spelling."""
    from difflib import get_close_matches  # only errors need it

    wanted = fold(name)
    by_fold = {fold(k): k for k in known}
    tail = wanted.rpartition("/")[2]
    same_tail = [k for f, k in by_fold.items() if f.rpartition("/")[2] == tail]
    alike = [by_fold[f] for f in get_close_matches(wanted, _likely(wanted, by_fold), n=limit, cutoff=0.6)]
    return tuple(dict.fromkeys([*same_tail, *alike]))[:limit]


def _likely(wanted: str, names: Iterable[str]) -> Sequence[str]:
    """The few names that share the most pairs of letters: comparing thousands properly takes too long."""
    pairs = {wanted[i : i + 2] for i in range(len(wanted))}
    return sorted(names, key=lambda n: sum(pair in n for pair in pairs) - len(n) / 1_000, reverse=True)[:_FEW]
