#!/usr/bin/env bash
# A Fairlead worker. Copy it, write your own handle(), run it as: worker.sh [CAPSULE]
set -u
socket=${FAIRLEAD_SOCKET:-/run/fairlead/agent.sock}
capsule=${1:-default}
lease=${WORKER_LEASE:-60} # seconds, at least 3

# ---- Your work: the payload is on stdin; exit 0 when it is done, else it is tried again later. ----
handle() {
  echo "$queue p$priority ${key:--}: $(cat)"
}
# ---------------------------------------------------------------------------------------------------

post=(curl --silent --show-error --fail-with-body --unix-socket "${socket#unix://}" --request POST)
folder=$(mktemp -d)
stopping='' pull='' pause=1

field() { # one header of the message at hand
  sed -n "s/^Fairlead-$1: *//Ip" "$folder/headers" | tr -d '\r'
}

# Beside the work, for as long as this worker lives: a job that outlasts its lease is still ours.
extend() {
  trap - TERM INT EXIT
  while sleep $((lease / 3)) >/dev/null 2>&1; do
    token=$(<"$folder/token")
    [ -z "$token" ] || "${post[@]}" "http://agent/v1/messages/$token/extend?lease=${lease}s"
  done
}

stop() { # a handler that runs is finished first; a pull that only waits is given up
  stopping=yes
  [ -z "$pull" ] || kill "$pull" 2>/dev/null
}

: >"$folder/token"
extend &
beat=$!
trap 'kill "$beat" 2>/dev/null; rm -rf "$folder"' EXIT
trap stop TERM INT

while [ -z "$stopping" ]; do
  : >"$folder/headers" >"$folder/payload"
  "${post[@]}" "http://agent/v1/capsules/$capsule/next?wait=30s&lease=${lease}s" \
    --dump-header "$folder/headers" --output "$folder/payload" &
  pull=$!
  [ -z "$stopping" ] || stop
  wait "$pull"
  result=$?
  [ -z "$stopping" ] || { wait "$pull"; result=$?; } # a signal ends the first wait; curl may have a message already
  pull=''
  if [ "$result" -ne 0 ]; then # the agent restarts and gives the work out again
    [ -n "$stopping" ] || { sleep "$pause"; pause=$((pause < 4 ? pause * 2 : 5)); }
    continue
  fi
  pause=1
  token=$(field Token) queue=$(field Queue) priority=$(field Priority) key=$(field Key)
  [ -n "$token" ] || continue # nothing came
  echo "$token" >"$folder/token"
  if (trap '' TERM INT; handle <"$folder/payload"); then verb=ack; else verb="nack?reason=exit+$?"; fi
  : >"$folder/token"
  until answer=$("${post[@]}" --retry 5 "http://agent/v1/messages/$token/$verb" 2>&1) || [[ $answer != *'"unavailable"'* ]]; do
    sleep 1 # not known to be done: it is said again
  done
  [ -z "$answer" ] || echo "$verb: $answer" >&2
done
