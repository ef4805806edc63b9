"""What tools are called elsewhere, and which of ours each one is.

Names are compared without case, `_` and `-`. Capabilities that we do not have are
listed too, so that a file which names one is told so and not that it misspelled.
"""

import re
from functools import lru_cache

from retinue.definition.values import folded

CANONICAL = frozenset(
    {
        *("read", "write", "edit", "multi_edit", "glob", "grep", "list", "bash", "todo", "task", "question"),
        *("webfetch", "websearch", "diagnostics", "save_memory", "load_memory", "request_user_input"),
        *("call_agent", "complete_agent_execution", "subagent_create", "subagent_message"),
        *("notify_parent", "set_status"),
    }
)

_ALIASES = {
    "read": "read_file read_many_files file_read view NotebookRead read/readFile open read/getNotebookSummary fs_read",
    "write": "write_file write_to_file file_write Create new edit/createFile edit/createDirectory "
    "edit/createJupyterNotebook createFile createDirectory",
    "edit": "multi_edit replace edit_file file_edit editFiles edit/editFiles patch apply_patch NotebookEdit "
    "edit/editNotebook editNotebook str_replace_editor edit/rename insertEditIntoFile insertEdit replaceStringInFile",
    "glob": "find glob_search glob_files glob_tool search/fileSearch file_search",
    "grep": "grep_search search_file_content grep_tool search/textSearch textSearch Search codebase search/codebase "
    "usages search/usages searchResults search/searchResults search/searchSubagent codesearch search/listDirectory "
    "findTestFiles search/changes changes semantic_search listCodeUsages testSearch",
    "list": "ls list_directory list_dir list_files",
    "bash": "run_shell_command Shell Execute runCommands runInTerminal execute/runInTerminal terminal terminalCommand "
    "execute/getTerminalOutput execute/awaitTerminal execute/killTerminal terminalLastCommand terminalSelection "
    "read/terminalLastCommand read/terminalSelection runTasks execute/createAndRunTask execute/runTask "
    "execute/runTests runTests execute/testFailure testFailure runCommands/terminalLastCommand "
    "runCommands/terminalSelection runCommands/runInTerminal runCommands/getTerminalOutput BashOutput KillShell "
    "KillBash PowerShell python_interpreter code_interpreter run_python_code runNotebooks execute/runNotebookCell "
    "execute/getTaskOutput read/getTaskOutput runTasks/runTask runTasks/getTaskOutput runTasks/createAndRunTask "
    "execute/sendToTerminal execute/executionSubagent execute_bash getTerminalOutput createAndRunTask runVsCodeTask",
    "webfetch": "web_fetch FetchUrl fetch web/fetch fetch_content fetch_webpage",
    "websearch": "web_search google_web_search google_search web websearch_web search_web universalsearch web/search",
    "todo": "TodoWrite TodoRead todos write_todos TodoList TaskCreate TaskUpdate TaskList TaskGet manage_todo_list",
    "task": "Agent runSubagent agent/runSubagent custom-agent invoke_agent subagent SendMessage delegate "
    "delegate_to_agent",
    "question": "AskUserQuestion ask_user vscode/askQuestions askQuestions contact_supervisor",
    "diagnostics": "problems read/problems lsp ide getDiagnostics getErrors",
    "save_memory load_memory": "memory save_memory vscode/memory memory_usage",
    "complete_agent_execution": "complete_task",
    "read glob grep list": "read-only",
    "write edit": "fs_write",
    "mcp_*": "mcp",
    "*": "all *",
}
_UNAVAILABLE = {
    "skill": "skill activate_skill",
    "plan": "ExitPlanMode EnterPlanMode plan_enter plan_exit",
    "think": "thinking think sequential-thinking",
    "browser": "openSimpleBrowser browser vscode/openSimpleBrowser simpleBrowser",
    "github": "githubRepo web/githubRepo github search/githubRepo githubTextSearch",
    "ide": "vscodeAPI vscode vscode/vscodeAPI extensions vscode/extensions vscode/installExtension "
    "vscode/getProjectSetupInfo vscode/newWorkspace vscode/runCommand vscode/runVscodeCommand newWorkspace "
    "installExtension runVscodeCommand getProjectSetupInfo vscode/switchAgent",
}

_BY_FOLD: dict[str, tuple[str, ...]] = {
    **{folded(name): (name,) for name in CANONICAL},
    **{folded(name): tuple(ours.split()) for ours, names in _ALIASES.items() for name in names.split()},
}
_CAPABILITY = {folded(name): what for what, names in _UNAVAILABLE.items() for name in names.split()}

_PATTERN = re.compile(r"[A-Za-z0-9_.-]*\*[A-Za-z0-9_.*-]*")
_FOREIGN = re.compile(r"[^A-Za-z0-9_*-]")
_REMOTE = re.compile(r"@?([\w. -]+(?:/[\w.-]+)*)/([\w.*-]+)")


@lru_cache(maxsize=4096)
def canonical(name: str) -> tuple[str, ...] | None:
    """Our names or patterns for `name`; None when it is neither ours, an MCP tool's, nor a pattern."""
    if ours := _BY_FOLD.get(folded(name)):
        return ours
    if folded(name) in _CAPABILITY:
        return None
    if name.startswith("mcp__"):
        server, _, tool = name[5:].partition("__")
        return (f"mcp_{server}_{tool or '*'}",) if server != "*" else ("mcp_*",)
    if name.startswith(("mcp_", "agent_", "handoff_")):
        return (name,)
    if match := _REMOTE.fullmatch(name):
        return (f"mcp_{_FOREIGN.sub('_', match[1])}_{_FOREIGN.sub('_', match[2])}",)
    if name.startswith("@") and _REMOTE.fullmatch(f"{name}/*"):
        return (f"mcp_{_FOREIGN.sub('_', name[1:])}_*",)
    return (name,) if _PATTERN.fullmatch(name) else None


def unavailable(name: str) -> str | None:
    """The capability behind another tool's name that does not exist here."""
    return _CAPABILITY.get(folded(name))
