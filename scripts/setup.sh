#!/bin/sh
# Make the virtual environment that `make demo` and `make test` run in. Needs Python 3.11 or newer.
set -eu
: "${PYTHON:=python3}" "${VENV:=.venv}"
"$PYTHON" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "ragkit needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[test]' --group dev
