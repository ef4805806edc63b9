"""Lists a caller's tasks, last changed first, page by page."""

from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task, TaskState
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import apply_history_length, validate_history_length, validate_page_size

from retinue.a2a_server.callers import Call
from retinue.a2a_server.tasks import STATUSES
from retinue.a2a_server.watch import current
from retinue.app.retinue import Retinue
from retinue.ports.a2a import TaskFilter
from retinue.schema.errors import UsageError
from retinue.schema.ids import ThreadId
from retinue.web.pages import cursor, position

_PAGE = 50


async def listed(app: Retinue, params: ListTasksRequest, call: Call) -> ListTasksResponse:
    validate_history_length(params)
    if params.HasField("page_size"):
        validate_page_size(params.page_size)
    size = params.page_size or _PAGE
    after = params.status_timestamp_after
    wanted = TaskFilter(
        tenant=call.caller.tenant,
        caller=call.caller.name,
        agent=call.agent.id if call.agent else None,
        context=params.context_id or None,
        statuses=STATUSES.get(params.status, ()) if params.status else (),
        after=after.ToMilliseconds() / 1000 if params.HasField("status_timestamp_after") else None,
    )
    try:
        before = position(params.page_token or None, tuple[float, ThreadId])
    except UsageError:
        raise InvalidParamsError(message="The page token is not one of this server's") from None
    tasks, token = await _page(app, wanted, params.status, before, size)
    for task in tasks:
        if not params.include_artifacts:
            task.ClearField("artifacts")
    tasks.sort(key=lambda task: task.status.timestamp.ToMilliseconds(), reverse=True)
    shown = [apply_history_length(task, params) for task in tasks]
    total = await app.database.a2a.count(wanted)
    return ListTasksResponse(tasks=shown, next_page_token=token, page_size=size, total_size=total)


async def _page(
    app: Retinue, wanted: TaskFilter, state: TaskState, before: tuple[float, ThreadId] | None, size: int
) -> tuple[list[Task], str]:
    found: list[Task] = []
    while rows := await app.database.a2a.page(wanted, before=before, limit=size + 1):
        for row in rows:
            if len(found) == size and before is not None:
                return found, cursor(before)
            before = (row.updated_at, row.thread)
            task = (await current(app.engine, row)).task()
            if not state or task.status.state == state:
                found.append(task)
        if len(rows) <= size:
            break
    return found, ""
