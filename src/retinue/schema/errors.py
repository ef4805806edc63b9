"""Every exception Retinue raises on purpose.

    RetinueError                what a caller may catch; `str()` is fit for a person
    ├── UsageError              the request itself is wrong (CLI exit 2, HTTP 400)
    ├── DefinitionError         a file can't be an agent; carries its problems
    ├── SettingsError           the configuration is wrong; names file and key
    ├── NotFound                carries what was looked for, where, and near names
    │   ├── AgentNotFound
    │   └── ThreadNotFound
    ├── AmbiguousAgent          a name fits two agents of one source
    ├── SourceUnavailable       a source that may own the name failed
    ├── Untrusted               an agent of a folder nobody trusted yet
    ├── Conflict                the state does not admit it (HTTP 409)
    │   └── Fenced              another owner holds the thread; stop at once
    ├── Gone                    it was there, and its time is over (HTTP 410)
    ├── BudgetExceeded          a reservation did not fit
    ├── ModelError              a provider failed; says whether a retry can help
    │   └── ContextOverflow
    ├── Denied                  a rule forbids it
    ├── StoreUnavailable        the database can't be read or written
    └── GitError                git said no; never holds a secret

A failure of a tool is not here: it is an outcome that the model sees.
"""

from collections.abc import Sequence

from retinue.schema.problem import Problem


class RetinueError(Exception):
    """The base of all expected failures."""

    code: str = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(RetinueError):
    code = "usage"


class DefinitionError(RetinueError):
    code = "bad_definition"

    def __init__(self, message: str, problems: Sequence[Problem] = (), *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class SettingsError(RetinueError):
    code = "bad_settings"


class NotFound(RetinueError):
    code = "not_found"


class AgentNotFound(NotFound):
    code = "agent_not_found"

    def __init__(self, message: str, *, tried: Sequence[str] = (), near: Sequence[str] = ()) -> None:
        super().__init__(message, hint=f"did you mean {' or '.join(near)}?" if near else None)
        self.tried = tuple(tried)
        self.near = tuple(near)


class ThreadNotFound(NotFound):
    code = "thread_not_found"


class AmbiguousAgent(RetinueError):
    code = "ambiguous_agent"


class SourceUnavailable(RetinueError):
    code = "source_unavailable"


class Untrusted(RetinueError):
    code = "untrusted"


class Conflict(RetinueError):
    code = "conflict"


class Fenced(Conflict):
    code = "fenced"


class Gone(RetinueError):
    code = "gone"


class BudgetExceeded(RetinueError):
    """`later` says that it fits once the requests that others have under way are settled."""

    code = "budget"

    def __init__(self, message: str, *, hint: str | None = None, later: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.later = later


class ModelError(RetinueError):
    """A provider's failure.

    `retry_after` is in seconds. `transient` failures are tried again, then the
    next provider is; others go to the next provider at once.
    """

    code = "model_error"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        transient: bool = False,
        retry_after: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.transient = transient
        self.retry_after = retry_after


class ContextOverflow(ModelError):
    code = "context_overflow"


class Denied(RetinueError):
    code = "denied"


class StoreUnavailable(RetinueError):
    code = "store_unavailable"


class GitError(RetinueError):
    code = "git_error"
