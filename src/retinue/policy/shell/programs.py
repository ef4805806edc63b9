"""What programs do with their arguments, as data: which hide a command, run code, or name files.

A program that is not here does what its rule says and no more is known of it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from retinue.policy.shell.words import names
from retinue.ports.tool import Op

Role = Literal[
    "plain",
    "wrap",
    "guard",
    "opaque",
    "join",
    "shell",
    "source",
    "find",
    "xargs",
    "git",
    "cd",
    "trap",
    "inert",
    "runner",
]


@dataclass(frozen=True, slots=True)
class Program:
    """How one program hides commands and files.

    `wrap` runs the command in its arguments and changes nothing else, `guard`
    runs it with other powers or elsewhere, `opaque` may run any of its
    arguments, `join` runs them joined as a script, `runner` runs what follows one of
    its `subcommands`. A risk is asked unless the rule that allows the command names it.
    """

    role: Role = "plain"
    values: frozenset[str] = frozenset()
    """Options whose next word is their value."""
    risks: frozenset[str] = frozenset()
    """Options that run programs, write, or look elsewhere."""
    subcommands: frozenset[str] = frozenset()
    """First arguments that do so."""
    skip: int = 0
    """Arguments of its own before the command, or before the files."""
    instead: frozenset[str] = frozenset()
    """Options that say what the arguments that `skip` counts would say."""
    files: Op | None = None
    """What it does to the files in its arguments."""
    last: Op | None = None
    """What it does to the last one, when that differs."""
    outputs: frozenset[str] = frozenset()
    """Options whose value is a file that is written."""
    places: frozenset[str] = frozenset()
    """Options whose value is a file or folder that it works on."""
    code: Callable[[str], object] | None = None
    """Whether program text, in its first argument or in the options `instead`, is known to be harmless."""
    assigns: bool = False
    """Variables may be set between its options and the command."""
    stdin: bool = False
    """Runs what it reads when it is given no file."""


def _table(rows: dict[str, Program]) -> dict[str, Program]:
    return {name: program for keys, program in rows.items() for name in keys.split()}


_ADDRESS = r"(?:\d+|\$|/(?:\\.|[^/\n\\])*/)"
_SED = re.compile(
    rf"(?:\s*(?:{_ADDRESS}(?:,[+~]?{_ADDRESS})?!?\s*)?"
    r"(?:[pdq=]|s(?P<d>[/|#,:@])(?:\\.|(?!(?P=d))[^\n\\])*(?P=d)(?:\\.|(?!(?P=d))[^\n\\])*(?P=d)[gpiIM0-9]*)\s*(?:[;\n]|$))+"
)
_AWK_EFFECTS = re.compile(r"system|getline|@|close|(?<!\|)\|(?!\|)")
_AWK_COMPARED = re.compile(r"\((?:[\w$.\s!&=<>]|\|\|)*\)|>=")


def _harmless_awk(code: str) -> bool:
    """It runs nothing and writes nothing: `>` is a comparison in a pattern and in brackets only."""
    if _AWK_EFFECTS.search(code):
        return False
    return ">" not in _AWK_COMPARED.sub("", code.partition("{")[2])


PROGRAMS: dict[str, Program] = _table(
    {
        "nohup setsid builtin busybox toybox": Program("wrap"),
        "time": Program("wrap", assigns=True, values=names("-o --output -f --format"), risks=names("-o --output")),
        "timeout": Program("wrap", values=names("-s --signal -k --kill-after"), skip=1),
        "nice": Program("wrap", values=names("-n --adjustment")),
        "ionice": Program("wrap", values=names("-c -n --class --classdata"), risks=names("-p -P -u --pid")),
        "stdbuf": Program("wrap", values=names("-i -o -e --input --output --error")),
        "chrt taskset": Program("wrap", values=names("-T -P -D"), risks=names("-p --pid"), skip=1),
        "command": Program("wrap"),
        "exec": Program("wrap", values=names("-a"), risks=names("-c")),
        "env": Program(
            "wrap",
            assigns=True,
            values=names("-u --unset -C --chdir -a --argv0"),
            risks=names("-S --split-string -C --chdir -i --ignore-environment -u --unset"),
        ),
        "xargs": Program(
            "xargs",
            values=names(
                "-I -n -P -L -s -d -a -E --max-args --max-procs --max-chars --delimiter --arg-file --process-slot-var"
            ),
            risks=names("-a --arg-file"),
        ),
        "sudo": Program(
            "guard",
            assigns=True,
            values=names("-u -g -h -p -C -r -t -T -D -R -U --user --group --host --prompt --chdir --chroot"),
        ),
        "doas": Program("guard", values=names("-u -C")),
        "chroot": Program("guard", skip=1),
        "coproc": Program("guard", assigns=True),
        "eval": Program("join"),
        "watch": Program("join", values=names("-n --interval -q --equexit")),
        "bash sh zsh dash ksh ash fish mksh rbash": Program("shell"),
        "source .": Program("source"),
        "trap": Program("trap"),
        "cd pushd": Program("cd"),
        "find": Program("find"),
        "git": Program("git"),
        "su runuser ssh docker podman nerdctl kubectl nsenter unshare firejail bwrap systemd-run screen tmux script "
        "expect parallel entr watchexec crontab at batch flock strace ltrace gdb lldb valgrind perf vi vim nvim "
        "view nano emacs ed ex less more man alias bind complete compgen enable mapfile readarray fc hash "
        "fd fdfind rsync scp sftp osascript pkexec setpriv runcon sg newgrp chpst start-stop-daemon".strip(): Program(
            "opaque"
        ),
        "python python2 python3 pypy pypy3": Program(values=names("-m -W -X"), risks=names("-c"), stdin=True),
        "perl ruby lua": Program(risks=names("-e -E"), stdin=True),
        "node nodejs bun": Program(risks=names("-e -p --eval --print -r --require --import"), stdin=True),
        "php": Program(risks=names("-r -B -R -E"), stdin=True),
        "npm pnpm yarn": Program(
            subcommands=names("exec x explore config set publish dlx"),
            risks=names("--script-shell --node-options --userconfig --globalconfig"),
            places=names("--prefix -C --dir --cwd"),
        ),
        "cargo": Program(risks=names("--config"), places=names("--manifest-path --target-dir -C")),
        "make gmake": Program(
            risks=names("--eval -E"),
            places=names("-C --directory -f --file --makefile -I --include-dir"),
        ),
        "go": Program(risks=names("-exec --exec -toolexec --toolexec -overlay --overlay -vettool --vettool")),
        "uv poetry pipenv pdm hatch rye": Program(
            "runner",
            subcommands=names("run"),
            values=names(
                "--with --python -p --extra --group --env-file --directory --project --package -C --config-file"
            ),
            places=names("--directory --project -C"),
        ),
        "bundle": Program("runner", subcommands=names("exec")),
        "tar bsdtar": Program(
            values=names("-f --file"),
            risks=names(
                "--to-command --checkpoint-action -I --use-compress-program --rsh-command --rmt-command -F "
                "--info-script --new-volume-script -P --absolute-names -C --directory"
            ),
        ),
        "zip": Program(risks=names("-T --test --unzip-command")),
        "curl": Program(
            outputs=names("-o --output --dump-header -c"),
            risks=names("-o --output -O --remote-name -K --config -T --upload-file --output-dir -J --dump-header -c"),
        ),
        "awk gawk mawk nawk": Program(
            values=names("-F -v"),
            risks=names("-f --file -i --include -l --load -e --source"),
            code=_harmless_awk,
            files="read",
        ),
        "sed gsed": Program(
            values=names("-e --expression -l --line-length"),
            risks=names("-f --file -i --in-place -s --separate"),
            instead=names("-e --expression"),
            code=_SED.fullmatch,
            files="read",
        ),
        "grep egrep fgrep": Program(
            values=names("-e -f -m -A -B -C --include --exclude --exclude-dir --max-count"),
            risks=names("-f --file"),
            skip=1,
            instead=names("-e --regexp -f --file"),
            files="read",
        ),
        "rg": Program(
            values=names("-e -g -t -T -m -A -B -C --glob --type --max-count"),
            risks=names("--pre --hostname-bin -f --file"),
            skip=1,
            instead=names("-e --regexp -f --file --files --type-list"),
            files="read",
        ),
        "jq": Program(risks=names("-f --from-file -L"), values=names("--arg --argjson"), skip=1, files="read"),
        "sort": Program(
            outputs=names("-o --output"),
            values=names("-k -t -S"),
            risks=names("-o --output --compress-program --files0-from -T --temporary-directory"),
            files="read",
        ),
        "uniq xxd": Program(files="read", skip=0, last="write"),
        "echo printf pwd which": Program("inert"),
        "date": Program(risks=names("-s --set")),
        "tree": Program(outputs=names("-o"), risks=names("-o"), files="read"),
        "head tail": Program(values=names("-n -c --lines --bytes"), files="read"),
        "cut paste": Program(values=names("-b -c -d -f --delimiter --fields --bytes --characters"), files="read"),
        "diff": Program(values=names("-U -C -I -x --unified --context --exclude"), files="read"),
        "stat": Program(values=names("-c --format --printf"), files="read"),
        "du": Program(values=names("-d -t -B --max-depth --threshold --block-size --exclude"), files="read"),
        "cat tac wc nl ls dir od hexdump strings file md5sum sha1sum sha256sum sha512sum cksum cmp comm column fold "
        "expand base64 readlink realpath tsort rev zcat bat": Program(files="read"),
        "tee rmdir": Program(files="write"),
        "touch": Program(values=names("-d -t --date"), files="write"),
        "mkdir mkfifo mknod": Program(values=names("-m --mode"), files="write"),
        "truncate": Program(values=names("-s --size"), files="write"),
        "chmod chown chgrp gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd": Program(files="write"),
        "rm unlink shred": Program(files="delete"),
        "cp ln install link": Program(
            values=names("-m -o -g -S"), outputs=names("-t --target-directory"), files="read", last="write"
        ),
        "mv": Program(values=names("-S"), outputs=names("-t --target-directory"), files="rename", last="write"),
        "dd": Program(files="write"),
    }
)

FREE = names(
    ": true false test [ [[ break continue return exit shift wait cd pushd popd pwd dirs export declare typeset local "
    "readonly unset umask times let getopts set trap exec eval command type jobs"
)
"""Parts of the shell that change nothing outside it; what they hide is judged on its own."""

EVALUATORS = names("test [ printf read unset declare typeset local export readonly let wait getopts")
"""Builtins that evaluate subscripts in their arguments, quoted or not."""

HARMLESS_SET = re.compile(r"[-+][euxv]+o?|-o|\+o|pipefail|errexit|nounset|--")
QUERIES = names("-v -V -l -p --version --help")

GIT_VALUES = names("-C -c --git-dir --work-tree --namespace --exec-path --config-env --super-prefix")
GIT_RISKS = names("-c --config-env --exec-path --git-dir --work-tree --namespace")
GIT_OPTION_VALUES = names(
    "-m --message -F --file --author --date -b -B --grep -S -G -n --since --until --after --before --format"
)
GIT_ANY = names(
    "--ext-diff --output --output-directory --upload-pack --receive-pack --exec --template --separate-git-dir "
    "--no-index --config --open-files-in-pager --prefix --unsafe-paths --contents"
)
"""Options of any subcommand."""
GIT_SUBCOMMANDS: dict[str, frozenset[str]] = {
    "rebase": names("-x -i --interactive"),
    "grep": names("-O"),
    "archive": names("-o --remote"),
    "format-patch": names("-o"),
    "clone": names("-u -c --recurse-submodules --recursive"),
    "bisect": names("run"),
    "remote": names("add set-url"),
    "worktree": names("add move"),
    "bundle": names("create"),
    "bugreport": names("-o"),
    "diagnose": names("-o"),
    "update-index": names("--index-info --stdin"),
    "interpret-trailers": names("--in-place"),
}
GIT_READS_CONFIG = names("--get --get-all --get-regexp --get-urlmatch --list -l get list")
GIT_PLAIN = names(
    "add am apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap "
    "check-ref-format checkout checkout-index cherry cherry-pick clean clone commit commit-graph commit-tree "
    "count-objects describe diagnose diff diff-files diff-index diff-tree fast-export fetch for-each-ref format-patch "
    "fsck gc grep hash-object help init interpret-trailers log ls-files ls-remote ls-tree merge merge-base merge-tree "
    "mktag mktree mv name-rev notes pack-refs patch-id prune pull push range-diff read-tree rebase reflog remote "
    "repack replace request-pull rerere reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref "
    "sparse-checkout stage stash status stripspace switch symbolic-ref tag update-index update-ref var verify-commit "
    "verify-pack verify-tag version whatchanged worktree write-tree"
)
"""Subcommands that run no programs but hooks; any other, also an alias, is asked."""
GIT_PLACES = names("clone init fetch pull push ls-remote")
"""Subcommands whose arguments may be folders elsewhere."""
_VARIABLES = re.compile(
    r"PATH|IFS|CDPATH|(?:LD|DYLD|BASH|PROMPT|npm_config|NPM_CONFIG|LESS(?:OPEN|CLOSE)|FZF|RUSTC|RUBY|PERL5?|_?JAVA)_?\w*"
    r"|NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS|REPL_\w+)"
    r"|ENV|SHELLOPTS|BASHOPTS|PS[0-4]|\w*PAGER|\w*EDITOR|VISUAL|BROWSER|SHELL|HOME|XDG_CONFIG_\w+|\w*_ASKPASS|CLASSPATH"
    r"|GIT_(?!AUTHOR_|COMMITTER_|TERMINAL_PROMPT)\w+"
    r"|PYTHON(?!UNBUFFERED|DONTWRITEBYTECODE|HASHSEED|IOENCODING|UTF8)\w+"
    r"|CARGO_(?!TERM_|INCREMENTAL|NET_)\w+|RUSTFLAGS|DOTNET_(?!CLI_|NOLOGO)\w+|(?:PIP|UV|BUNDLE|GEM|CGO)_\w+|GO(?:ENV|ROOT|PATH)"
    r"|PYTEST_(?:ADDOPTS|PLUGINS)|(?:MAVEN|GRADLE)_OPTS|ZDOTDIR|INPUTRC|RSYNC_RSH|PHPRC|AWK(?:LIB)?PATH|OPENSSL_CONF"
    r"|SSLKEYLOGFILE|TAR_OPTIONS|MAKEFLAGS|MAKEFILES|GREP_OPTIONS|RIPGREP_CONFIG_PATH|\w+_(?:proxy|PROXY)|SSL_CERT_\w+|GCONV_PATH|LOCPATH"
    r"|TERMINFO\w*|CC|CXX|LD|AR|GOFLAGS|DOCKER_\w+|KUBECONFIG|GLOBIGNORE|HISTFILE|TMPDIR|\w*COMMAND"
)


def risky_variable(name: str) -> bool:
    """Return whether a variable runs programs or changes where they are looked for."""
    return _VARIABLES.fullmatch(name.partition("[")[0].rstrip("+")) is not None


def program(name: str) -> Program | None:
    return PROGRAMS.get(name) or PROGRAMS.get(re.sub(r"[\d.]+$", "", name))
