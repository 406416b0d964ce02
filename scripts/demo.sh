#!/bin/sh
# Index the sample folder, ask questions and search it. Uses the first `ragkit` on PATH.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run() {
    printf '\n$ ragkit'
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./=-]*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\n'
    RAGKIT_KB="$work/kb" ragkit "$@"
}

run index data/sample
run ask "How many turns of the crank close the shutter of the big dome?"
run ask "On which shelf are the fuses for the heater of the rain sensor?"
run ask "At what mean wind speed do the domes have to be closed?"
run ask "What is the salary of the Director?"
run search "opening hours of the visitor centre" -k 2
run index data/sample
run verify
