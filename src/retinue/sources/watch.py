"""Tells when a watched folder changed, within a fraction of a second.

Folders that do not exist yet are looked for twice a second, because the system can
only watch what is there.
"""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

_LOOK_MS = 500
_QUIET_MS = 50
_GROUP_MS = 300


async def changed_folders(folders: Sequence[Path]) -> AsyncGenerator[frozenset[Path], None]:
    """Yield the folders in which something changed, as often as that happens. Cancel to stop.

    Soon after a watch begins all its folders are told once: what changed before it stood went unseen.
    """
    from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]

    while True:
        there = _existing(folders)
        if not there:
            await _pause()
            continue
        watching = awatch(
            *there,
            watch_filter=None,
            debounce=_GROUP_MS,
            step=_QUIET_MS,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
        unseen = there
        async for changes in watching:
            touched = unseen | {f for f in there if any(_within(path, f) for _, path in changes)}
            unseen = frozenset[Path]()
            now = _existing(folders)
            if touched or now != there:
                yield touched | (now ^ there)
            if now != there:
                break
        await watching.aclose()


def _existing(folders: Sequence[Path]) -> frozenset[Path]:
    return frozenset(f for f in folders if f.is_dir())


def _within(path: str, folder: Path) -> bool:
    return path == str(folder) or path.startswith(f"{folder}/")


async def _pause() -> None:
    import asyncio

    await asyncio.sleep(_LOOK_MS / 1000)
