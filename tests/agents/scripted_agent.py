"""An agent that speaks the Agent Client Protocol and does what its prompt says: a list of steps as JSON.

Steps: ["write", PATH, TEXT], ["begin", ID, KIND], ["end", ID, STATUS], ["ask", ID], ["raw", TEXT], ["say", TEXT],
["commands", NAMES], ["wait", PATH], ["die", SIGNAL], ["stop", REASON], ["ckpt", WORDS], ["spin", N]. What it reads
goes to the file in $HEARD, byte for byte.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

heard = open(os.environ["HEARD"], "ab", buffering=0) if os.environ.get("HEARD") else None  # noqa: SIM115
answers: dict[str, threading.Event] = {}
lock = threading.Lock()


def raw(data: bytes) -> None:
    with lock:
        while data:
            data = data[os.write(1, data) :]


def send(**message):
    raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def update(session, what, **more):
    send(method="session/update", params={"sessionId": session, "update": {"sessionUpdate": what, **more}})


def do(session, step, kinds):
    what, *given = step
    if what == "write":
        with open(given[0], "w") as f:
            f.write(given[1])
    elif what == "begin":
        kinds[given[0]] = given[1]
        about = {"rawInput": {"command": f"do {given[0]}"}} if given[1] == "execute" else {}
        update(session, "tool_call", toolCallId=given[0], kind=given[1], title=f"{given[1]} {given[0]}",
               status="in_progress", **about)  # fmt: skip
    elif what == "end":
        content = [{"type": "content", "content": {"type": "text", "text": f"{given[0]} done"}}]
        update(session, "tool_call_update", toolCallId=given[0], status=given[1], content=content)
    elif what == "ask":
        name = f"ask-{given[0]}"
        answers[name] = threading.Event()
        call = {"toolCallId": given[0], "kind": "edit", "title": f"edit {given[0]}", "status": "pending"}
        send(id=name, method="session/request_permission",
             params={"sessionId": session, "toolCall": call, "options": []})  # fmt: skip
        answers[name].wait()
    elif what == "raw":
        raw(given[0].encode("utf-8", "surrogateescape"))
    elif what == "say":
        update(session, "agent_message_chunk", content={"type": "text", "text": given[0]})
    elif what == "commands":
        listed = [{"name": n, "description": "its own"} for n in given[0]]
        update(session, "available_commands_update", availableCommands=listed)
    elif what == "wait":
        while not os.path.exists(given[0]):
            time.sleep(0.01)
    elif what == "die":
        os.kill(os.getpid(), given[0])
        signal.pause()
    elif what == "ckpt":
        done = subprocess.run(given[0], capture_output=True, text=True)
        update(session, "agent_message_chunk", content={"type": "text", "text": done.stdout + done.stderr})
    elif what == "spin":
        for n in range(given[0]):
            update(session, "agent_thought_chunk", content={"type": "text", "text": "x" * 1000 + str(n)})


def prompt(message):
    session = message["params"]["sessionId"]
    kinds, stop = {}, "end_turn"
    try:
        steps = json.loads(message["params"]["prompt"][0]["text"].partition("#")[0] or "[]")
    except ValueError:
        steps = []
    for step in steps:
        if step[0] == "stop":
            stop = step[1]
        else:
            do(session, step, kinds)
    send(id=message["id"], result={"stopReason": stop})


def main():
    made = 0
    for line in sys.stdin.buffer:
        if heard:
            heard.write(line)
        try:
            message = json.loads(line)
            method = message.get("method")
        except (ValueError, AttributeError, RecursionError):
            continue
        if method == "initialize":
            send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        elif method == "session/new":
            made += 1
            send(id=message["id"], result={"sessionId": f"s{made}"})
        elif method == "session/load":
            session = message["params"]["sessionId"]
            do(session, ["begin", "old", "edit"], {})
            do(session, ["end", "old", "completed"], {})
            send(id=message["id"], result=None)
        elif method == "session/prompt":
            threading.Thread(target=prompt, args=(message,), daemon=True).start()
        elif method is None and message.get("id") in answers:
            answers[message["id"]].set()
    if os.environ.get("STAYS"):
        signal.pause()
    os._exit(int(os.environ.get("ENDS_WITH", "0")))


main()
