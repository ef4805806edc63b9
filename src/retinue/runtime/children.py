"""Children."""

from retinue.runtime.work import Work
from retinue.schema import inbox


async def report(work: Work, report: inbox.ChildReport, id: str) -> None:
    raise NotImplementedError


async def variables(work: Work, given: inbox.Variables) -> None:
    raise NotImplementedError
