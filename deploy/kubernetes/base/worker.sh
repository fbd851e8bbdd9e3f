# A worker in shell, to be replaced by your app: it takes a message at a time and says what became of it.
# On SIGTERM it finishes the one that it has.
trap 'stop=1' TERM INT
cd "${TMPDIR:-/tmp}" || exit 1
fetch() { curl -sf --unix-socket "$SOCKET" -X POST "$@"; }
while [ -z "$stop" ]; do
  fetch -D head -o payload "http://agent/v1/capsules/$CAPSULE/next?wait=2s" || { sleep 1; continue; }
  token=$(sed -n 's/^Fairlead-Token: //p' head | tr -d '\r')
  [ -n "$token" ] || continue
  printf 'working on: %s\n' "$(cat payload)"
  fetch "http://agent/v1/messages/$token/ack"
done
