"""A loop in whose words a text leaks: in an argument, a short and a long result, an approval."""

from checkpointer import open_run, tool

SECRET = "4711-secret-0815"


@tool(effect="read")
def read(path: str) -> str:
    return open(path).read() + ("x" * 70_000 + SECRET if path == "b" else "")


with open_run(".", run_id="leaky", tools=[read]) as run:
    run.user_message("read both")
    for path in ("notes.txt", "b"):
        turn = run.model_turn(f"reading {path}", [{"name": "read", "arguments": {"path": path}}])
        run.call(turn.tool_calls[0])
    run.model_turn(f"the code is {SECRET}")
    run.finish("done")
