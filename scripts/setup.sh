#!/bin/sh
# Make the virtual environment that `make demo` and `make test` run in, with all that the tests start for real.
# Needs Python 3.11 or newer; system packages are installed where that is allowed.
set -eu
: "${PYTHON:=python3}" "${VENV:=.venv}" "${WHAT:=test}"
"$PYTHON" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "ragkit needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ...")'
if [ ! -x "$VENV/bin/python" ]; then
    "$PYTHON" -m venv "$VENV" 2>/dev/null || {
        rm -rf "$VENV"
        echo "this Python cannot make virtual environments: install its venv package (Debian: apt-get install python3-venv)" >&2
        exit 1
    }
fi
pip() { "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
pip --upgrade 'pip>=25.1'

if [ "$WHAT" = demo ]; then
    pip --editable .
    exit 0
fi

# The response cache is tested on a real Redis server.
if ! command -v redis-server >/dev/null 2>&1; then
    root=''
    [ "$(id -u)" = 0 ] || root='sudo -n'
    if command -v apt-get >/dev/null 2>&1 && $root true 2>/dev/null; then
        $root apt-get update -qq
        DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends redis-server >/dev/null
    else
        echo "the tests start a redis-server: install it (Debian: apt-get install redis-server)" >&2
        exit 1
    fi
fi
pip --editable '.[test]' --group dev
