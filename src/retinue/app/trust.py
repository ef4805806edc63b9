"""Which agents, files with tools and settings of projects a person has trusted.

Trust names content: a folder, an id and the hash of what was read then. A file that
changes afterwards is untrusted again. The file lives in the user's folder, never in the project.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from retinue.app.files import write_whole
from retinue.schema.errors import SettingsError

Trusted = Mapping[str, Mapping[str, str]]
"""Folder → agent id, or the name of a file → hash."""


def read_trust(home: Path) -> Trusted:
    path = home / "trust.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, str]])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as e:
        raise SettingsError(f"{path}: can't be read: {e}", hint="delete it to trust nothing, then trust again") from e


def trust(home: Path, folder: Path, hashes: Mapping[str, str]) -> None:
    """Remember that a person has read these."""
    _write(home, folder, {**read_trust(home).get(str(folder.absolute()), {}), **hashes})


def distrust(home: Path, folder: Path, ids: Iterable[str]) -> None:
    gone = set(ids)
    _write(home, folder, {i: h for i, h in read_trust(home).get(str(folder.absolute()), {}).items() if i not in gone})


def _write(home: Path, folder: Path, hashes: Mapping[str, str]) -> None:
    trusted = {**read_trust(home), str(folder.absolute()): hashes}
    text = msgspec.json.format(msgspec.json.encode({f: h for f, h in trusted.items() if h}), indent=2).decode()
    write_whole(home / "trust.json", text + "\n", private=True)
