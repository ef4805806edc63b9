"""What tools share that look at the file or folder in their argument `path`."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from retinue.ports.tool import Inspection, ToolContext
from retinue.schema.tool import ToolSpec
from retinue.tools.attempt import Failed
from retinue.tools.paths import found, own


class ReadingTool:
    spec: ClassVar[ToolSpec]

    def resource(self, arguments: Mapping[str, object]) -> str:
        return str(arguments.get("path") or ".")

    async def inspect(self, arguments: Mapping[str, object], context: ToolContext) -> Inspection:
        """What is touched; the thread's own files are nobody's question."""

        def look() -> Inspection:
            try:
                with found(str(arguments.get("path") or "."), "read", context) as place:
                    return Inspection(targets=() if own(place.target, context) else (place.target,))
            except Failed as failed:
                return Inspection(failure=failed.result)

        return await asyncio.to_thread(look)
