"""Opens a database as a user who may not write to its folder, and says what that user is told.

read_only.py DATABASE
"""

import asyncio
import os
import sys
from pathlib import Path

from retinue.schema.errors import StoreUnavailable
from retinue.storage.sqlite import open_database

NOBODY = 65534


async def main(path: Path) -> None:
    if os.getuid() == 0:  # modes mean nothing to root
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        await open_database(path)
    except StoreUnavailable as error:
        print(error.message)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
