#!/bin/sh
# Create the virtual environment of `make demo` and `make test`, and install the programs that the tests need.
# Needs Python 3.11 or newer; installs system packages if it has the permission.
set -eu
: "${PYTHON:=python3}" "${VENV:=.venv}" "${WHAT:=test}"
"$PYTHON" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "ragkit needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...")'
if [ ! -x "$VENV/bin/python" ]; then
    "$PYTHON" -m venv "$VENV" 2>/dev/null || {
        rm -rf "$VENV"
        echo "this Python cannot create virtual environments: install its venv package (Debian: apt-get install python3-venv)" >&2
        exit 1
    }
fi
pip() { "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
pip --upgrade 'pip>=25.1'

write_schema() { "$VENV/bin/ragkit" pipeline schema >pipelines/ragkit.schema.json; } # for editors

if [ "$WHAT" = demo ]; then
    pip --editable .
    write_schema
    exit 0
fi

# The tests use a real Redis server, a real pgbouncer and a real Chromium. The torture test injects system call failures with strace, and
# simulates power loss on separate file systems (FUSE, XFS). Networks break with ip.
missing=''
command -v redis-server >/dev/null 2>&1 || missing="$missing redis-server"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
[ -x /usr/sbin/pgbouncer ] || command -v pgbouncer >/dev/null 2>&1 || missing="$missing pgbouncer"
command -v strace >/dev/null 2>&1 || missing="$missing strace"
command -v fusermount3 >/dev/null 2>&1 || missing="$missing fuse3 libfuse3-3"
command -v mkfs.xfs >/dev/null 2>&1 || missing="$missing xfsprogs"
command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
if [ -n "$missing" ]; then
    root=''
    [ "$(id -u)" = 0 ] || root='sudo -n'
    if command -v apt-get >/dev/null 2>&1 && $root true 2>/dev/null; then
        $root apt-get update -qq
        # shellcheck disable=SC2086 # a list of packages
        DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
    else
        echo "the tests need programs that are missing; install them (Debian: apt-get install$missing)" >&2
        exit 1
    fi
fi
# CI installs exactly the files of requirements-ci.txt by their hashes (`make lock` writes it); everybody else,
# and CI on another system, the newest versions that pyproject.toml allows.
if [ -n "${CI:-}" ] && "$VENV/bin/python" scripts/lock.py --fits; then
    pip --require-hashes --requirement requirements-ci.txt
    pip --no-deps --no-build-isolation --editable .
else
    pip --editable '.[test]' --group dev
fi
write_schema
