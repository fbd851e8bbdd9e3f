#!/usr/bin/env python3
"""A Fairlead worker. Copy it, write your own handle(), run it as: worker.py [CAPSULE]"""
import base64, http.client, json, os, signal, socket, sys, threading, time

SOCKET = os.environ.get("FAIRLEAD_SOCKET", "/run/fairlead/agent.sock").removeprefix("unix://")
CAPSULE = sys.argv[1] if len(sys.argv) > 1 else "default"
MAX, WAIT, LEASE = 8, 30, float(os.environ.get("WORKER_LEASE", 60))  # messages a pull, seconds, seconds


# ---- Your work: return when it is done, raise to have it tried again later. ----
def handle(message, payload):
    print(f"{message['queue']} p{message['priority']} {message['key'] or '-'}: {payload.decode()}", flush=True)
# --------------------------------------------------------------------------------


class Agent(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)

    def call(self, method, path, body=None):
        self.request(method, path, json.dumps(body) if body else None)
        answer = self.getresponse()
        if answer.status >= 300:
            raise OSError(f"{answer.status} {answer.read().decode().strip()}")
        return answer


def extend(tokens, finished):  # beside the work: a job that outlasts its lease is still ours
    while not finished.wait(LEASE / 3):
        try:
            Agent("agent").call("POST", "/v1/settle", [{"token": t, "result": "extend"} for t in tokens]).read()
        except (OSError, http.client.HTTPException) as problem:
            print("extend:", problem, file=sys.stderr)


def work(message):
    try:
        handle(message, message["data"].encode() if "data" in message else base64.b64decode(message["data_base64"]))
        return {"token": message["token"], "result": "ack"}
    except Exception as problem:  # no delay given: the queue's backoff says when it comes again
        return {"token": message["token"], "result": "nack", "reason": str(problem)[:200]}


def stop(*_):  # a handler that runs is finished first; a pull that only waits is given up
    global stopping
    stopping = True
    if waiting:
        raise KeyboardInterrupt


stopping, waiting, settled, pause = False, False, [], 0.1
signal.signal(signal.SIGTERM, stop), signal.signal(signal.SIGINT, stop)
threading.excepthook = lambda broken: None  # a session that breaks is noticed by the next pull
while not stopping:
    try:
        events, agent = Agent("agent").call("GET", "/v1/session"), Agent("agent")
        session = json.loads(events.readline())["session"]  # when this connection ends, our messages go to others
        threading.Thread(target=events.read, daemon=True).start()
        while waiting := not stopping:
            path = f"/v1/capsules/{CAPSULE}/pull?max={MAX}&wait={WAIT}s&lease={LEASE:g}s&session={session}"
            lines = [json.loads(line) for line in agent.call("POST", path, settled).read().splitlines()]
            failed = lines.pop(0)["settle_failed"] if lines and "settle_failed" in lines[0] else []
            [print("not settled:", f, file=sys.stderr) for f in failed]
            again = [f["token"] for f in failed if f["status"] == "unavailable"]
            waiting, pause, finished = False, 0.1, threading.Event()
            settled = [s for s in settled if s["token"] in again]  # not known to be done: said again
            threading.Thread(target=extend, args=([m["token"] for m in lines], finished), daemon=True).start()
            settled += [work(message) for message in lines]
            finished.set()
    except KeyboardInterrupt:
        break
    except (OSError, http.client.HTTPException) as problem:  # the agent restarts and gives the work out again
        waiting = False
        print("agent:", problem, file=sys.stderr)
        time.sleep(pause)
        pause = min(pause * 2, 5)
if settled:
    Agent("agent").call("POST", "/v1/settle", settled).read()
