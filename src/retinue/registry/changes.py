"""What one catalog has that the one before had not."""

import msgspec

from retinue.ports.source import Entry, Snapshot
from retinue.registry.catalog import Catalog, prefix_of


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a new catalog has that the old one had not, by address."""

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone)

    def __str__(self) -> str:
        parts = [("new", self.new), ("changed", self.changed), ("gone", self.gone)]
        return ", ".join(f"{len(names)} {word}" + (f" ({_some(names)})" if names else "") for word, names in parts)


def diff(old: Catalog, new: Catalog) -> Summary:
    """Compare what each address means; snapshots that are the same object cost nothing."""
    touched: set[str] = set()
    before = {s.name: s for s in old.snapshots}
    after = {s.name: s for s in new.snapshots}
    for name in before.keys() | after.keys():
        touched |= _touched(before.get(name), after.get(name))
    verdicts: dict[str, list[str]] = {"new": [], "changed": [], "gone": []}
    for address in sorted(touched):
        was, now = old.winner(address), new.winner(address)
        if was is None and now is None:
            continue
        if was is None or now is None:
            verdicts["new" if was is None else "gone"].append(address)
        elif was.snapshot.name != now.snapshot.name or _differs(was.entry, now.entry):
            verdicts["changed"].append(address)
    return Summary(new=tuple(verdicts["new"]), changed=tuple(verdicts["changed"]), gone=tuple(verdicts["gone"]))


def _touched(was: Snapshot | None, now: Snapshot | None) -> set[str]:
    if was is now:
        return set()
    if was is None or now is None:
        one = was or now
        return {prefix_of(one) + id for id in one.entries} if one is not None else set()
    ids = set(was.entries.keys() ^ now.entries.keys())
    ids |= {id for id in was.entries.keys() & now.entries.keys() if _differs(was.entries[id], now.entries[id])}
    return {prefix_of(now) + id for id in ids}


def _differs(was: Entry, now: Entry) -> bool:
    return was is not now and (was.hash, was.trusted, was.problems) != (now.hash, now.trusted, now.problems)


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
