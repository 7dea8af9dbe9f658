"""A graph of three nodes, each of which appends a line to a file; `DIES` names the one that is killed in the middle."""

import itertools
import operator
import os
import signal
import sys
from typing import Annotated, TypedDict

from langgraph.graph import StateGraph

from checkpointer.langgraph import Saver


class State(TypedDict):
    done: Annotated[list[str], operator.add]


def node(name: str):
    def work(state: State) -> dict[str, list[str]]:
        with open("ran", "a") as f:
            f.write(name + "\n")
        if os.environ.get("DIES") == name:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"done": [name]}

    return work


def build(saver: Saver):
    builder = StateGraph(State)
    names = ["one", "two", "three"]
    for name in names:
        builder.add_node(name, node(name))
    for a, b in itertools.pairwise(names):
        builder.add_edge(a, b)
    builder.set_entry_point("one")
    return builder.compile(checkpointer=saver)


def main() -> None:
    config = {"configurable": {"thread_id": sys.argv[1]}}
    with Saver(".") as saver:
        graph = build(saver)
        begun = saver.get_tuple(config) is not None
        print(graph.invoke(None if begun else {"done": ["begun"]}, config, durability="sync")["done"])


if __name__ == "__main__":
    main()
