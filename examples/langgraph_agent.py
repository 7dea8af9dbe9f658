"""An agent as a graph, with a scripted model, that may be killed at any moment and goes on where it was.

    python langgraph_agent.py [DIRECTORY]        needs the extra langgraph

Each node's result is on disk before the next one begins. What the tool did to the files is a step: `ckpt undo` in
DIRECTORY takes it back, and `ckpt log` has it.
"""

from __future__ import annotations

import operator
import os
import sys
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, StateGraph

from checkpointer.langgraph import Saver

SCRIPT = [
    {"write": ("plan.md", "1. say hello\n2. say goodbye\n")},
    {"write": ("hello.txt", "hello, and goodbye\n")},
    {"say": "Both are written."},
]
"""What the model answers, in this order; a real one would be asked with the messages so far."""


class State(TypedDict):
    messages: Annotated[list[Any], operator.add]


def model(state: State) -> dict[str, Any]:
    answered = sum("model" in message for message in state["messages"])
    return {"messages": [{"model": SCRIPT[answered]}]}


def write(state: State) -> dict[str, Any]:
    name, text = state["messages"][-1]["model"]["write"]
    with open(name, "w") as f:
        f.write(text)
    print(f"wrote {name}")
    return {"messages": [{"tool": f"wrote {len(text)} characters"}]}


def wants_a_tool(state: State) -> str:
    return "write" if "write" in state["messages"][-1]["model"] else END


def main() -> None:
    if sys.argv[1:]:
        os.makedirs(sys.argv[1], exist_ok=True)
        os.chdir(sys.argv[1])
    builder = StateGraph(State)
    builder.add_node("model", model)
    builder.add_node("write", write)
    builder.set_entry_point("model")
    builder.add_conditional_edges("model", wants_a_tool, ["write", END])
    builder.add_edge("write", "model")
    thread: Any = {"configurable": {"thread_id": "greeting"}}
    with Saver(".") as saver:
        graph = builder.compile(checkpointer=saver)
        begun = graph.get_state(thread).created_at is not None
        done = graph.invoke(None if begun else {"messages": ["greet everybody"]}, thread, durability="sync")
        print(done["messages"][-1]["model"]["say"])


if __name__ == "__main__":
    main()
