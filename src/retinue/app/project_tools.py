"""The files with tools of the project that a workspace belongs to, and whether a person trusted each."""

from collections.abc import Sequence
from pathlib import Path

from retinue.app.settings_file import project_folder
from retinue.app.trust import read_trust
from retinue.tools.discovery import FOLDER, ToolFile, tool_files


def project_tool_files(home: Path, workspace: Path) -> Sequence[ToolFile]:
    """Read at every call, because a file or the trust in it may change meanwhile."""
    folder = project_folder(workspace.absolute()) / FOLDER
    if not folder.is_dir():
        return ()
    return tuple(tool_files(folder, read_trust(home).get(str(folder), {})))
