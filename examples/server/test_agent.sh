#!/bin/sh
# Try /v1/chat/completions of a running server in a session, then its traces.
set -eu
. "$(dirname "$0")/client.sh"

session=$(request POST /session/start '{}' | value "['session_id']")
body='{"model": "ragkit", "session_id": "'$session'", "messages": [{"role": "user", "content": "What is this about?"}]}'
answer=$(request POST /v1/chat/completions "$body")
check "the answer is in the session" "$(printf %s "$answer" | value "['session_id']")" "$session"
trace=$(printf %s "$answer" | value "['trace_id']")
check "the trace is in the answer" "$(printf %s "$answer" | value "['trace']['trace_id']")" "$trace"
check "the trace is listed" "$(request GET "/traces?session_id=$session" | value "['traces'][0]['trace_id']")" "$trace"
check "the trace has the question" "$(request GET "/traces/$trace" | value "['turns'][0]['content']")" "What is this about?"
check "the session has the trace" "$(request GET "/session/$session" | value "['traces'][0]")" "$trace"
body='{"session_id": "'$session'"}'
check "the session ends" "$(request POST /session/end "$body" | value "['message_count']")" 2
check "the session is completed" "$(request GET "/session/$session" | value "['status']")" completed
