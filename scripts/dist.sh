#!/bin/sh
# Build wheel and sdist, check them, and run the main commands from the wheel in an empty environment.
set -eu
: "${PYTHON:=python3}" "${BIN:=.venv/bin}"
cd "$(dirname "$0")/.."
rm -rf dist
"$BIN/ragkit" pipeline schema >pipelines/ragkit.schema.json
"$BIN/python" -m build --outdir dist . >/dev/null
"$BIN/python" -m twine check --strict dist/*
ls -l dist

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$PYTHON" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check dist/*.whl
du -sh "$work/venv" | cut -f1
cd "$work"
PATH="$work/venv/bin:$PATH"
ragkit --version
ragkit init --sample
ragkit index sample
ragkit ask "How many turns of the crank close the shutter of the big dome?"
ragkit verify
ragkit doctor
