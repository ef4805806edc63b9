"""Judges a shell command: every command in it by rules, every redirection as a file operation.

The strictest verdict wins, and what is not understood is asked.
"""

from retinue.policy.shell.judgement import FileJudge, Judge, Judgement
from retinue.policy.shell.unwrap import unwrap
from retinue.schema.permission import Decision


def judge_command(command: str, *, judge: Judge, files: FileJudge, cwd: str, home: str = "") -> Decision:
    """Return the decision for `command`, with every command that was found in it.

    Args:
        command: What bash would be given.
        judge: Decides on one simple command, its words joined by single blanks;
            a decision without a rule is the default.
        files: Decides on one file operation.
        cwd: The working directory, absolute.
        home: What `~` means.
    """
    state = Judgement(unwrap, judge, files, cwd, home)
    state.script(command)
    return state.decision()
