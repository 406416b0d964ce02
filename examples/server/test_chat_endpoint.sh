#!/bin/sh
# Try /chat of a running server: a new session, its history, a system message, tool calls and the trace.
set -eu
. "$(dirname "$0")/client.sh"

first=$(request POST /chat '{"messages": [{"role": "user", "content": "What is this about?"}]}')
session=$(printf %s "$first" | value "['session_id']")
check "a session is created" "$(request GET "/session/$session" | value "['message_count']")" 2
body='{"session_id": "'$session'", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "And?"}]}'
check "the session is kept" "$(request POST /chat "$body" | value "['session_id']")" "$session"
check "the system message is no message" "$(request GET "/session/$session" | value "['message_count']")" 4
history='[{"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"}, {"role": "user", "content": "Three"}]'
whole=$(request POST /chat '{"messages": '"$history"'}' | value "['session_id']")
check "the whole history is stored" "$(request GET "/session/$whole" | value "['history'][1]['content']")" Two
check "tools are called" "$(printf %s "$first" | value "['trace']['tool_calls'][0]['name']")" search_knowledge_base
for key in trace_id started_at completed_at turns tool_calls config total_tokens; do
    check "the trace has $key" "$(printf %s "$first" | value "['trace'].keys() >= {'$key'}")" True
done
