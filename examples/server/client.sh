# Functions of test_agent.sh and test_chat_endpoint.sh. RAGKIT_URL is the address of the server.
url="${RAGKIT_URL:-http://127.0.0.1:8321}"

# request METHOD PATH [JSON]: the answer of the server; an error ends the script
request() {
    curl --silent --show-error --fail-with-body --request "$1" "$url$2" \
        --header "authorization: Bearer ${RAGKIT_SERVER_TOKEN:-none}" \
        --header "content-type: application/json" ${3:+--data "$3"}
}

# value EXPRESSION: a value of the JSON on standard input, such as ['session_id']
value() {
    python3 -c "import json, sys; print(json.load(sys.stdin)$1)"
}

# check NAME GOT WANTED
check() {
    if [ "$2" != "$3" ]; then
        echo "FAILED  $1: got $2, wanted $3" >&2
        exit 1
    fi
    echo "ok      $1"
}
