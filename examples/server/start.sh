#!/bin/sh
# Index the documents and serve them. Reads .env beside this file; options are those of `ragkit serve`.
set -eu
cd "$(dirname "$0")"
if [ -f .env ]; then
    set -a
    . ./.env
    set +a
fi
export RAGKIT_KB="${RAGKIT_KB:-.ragkit}"
ragkit index "${RAGKIT_DOCS:-docs}"
exec ragkit serve --host "${RAGKIT_HOST:-127.0.0.1}" --port "${RAGKIT_PORT:-8321}" --accept-unknown-models \
    ${RAGKIT_MODEL:+--model "$RAGKIT_MODEL"} "$@"
