"""A folder in memory: a killed process loses nothing of it, and hundreds of lives need not wait for a disk."""

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture
def memory_folder(tmp_path: Path) -> Generator[Path]:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="retinue-", dir=shared))
    yield folder
    shutil.rmtree(folder)
