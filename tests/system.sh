#!/bin/sh
# Installs what the tests need of the system when run as root on Debian; elsewhere those tests skip and say why.
set -eu
missing=""
need() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"; }
need git git
need sshd openssh-server
need bwrap bubblewrap
need rg ripgrep
need tmux tmux
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing"
    apt-get update -qq >/dev/null
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
else
    echo "not installed, some tests will skip:$missing"
fi
