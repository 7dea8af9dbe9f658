"""The loop of the tour: it looks six orders up, pays the open one, and gives money back if it may.

`DIE=pay` kills it in the middle of paying, before anybody knows; with the word `refund` it gives money back instead.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from typing import Any

from checkpointer import Ask, NeedsPerson, open_run, tool


@tool(effect="read", fresh_for=timedelta(days=1))
def order(number: int) -> str:
    return f"order {number}: 42 euro, open"


@tool(effect="external", risk="high", policy="person")
def pay(order: int, cents: int) -> str:
    if os.environ.get("DIE") == "pay":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid order {order}"


@tool(effect="external", policy="person")
def refund(order: int, cents: int) -> str:
    return f"gave back {cents} cents for order {order}"


def policy(call: Any, tool: Any) -> Ask | None:
    return Ask(f"give {call.arguments['cents'] / 100:.2f} euro back?") if call.name == "refund" else None


def ask(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


SCRIPTS = {
    "pay": [[ask("order", number=n) for n in range(876, 882)], [ask("pay", order=881, cents=4200)]],
    "refund": [[ask("refund", order=881, cents=4200)]],
}


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "pay"
    script = SCRIPTS[what]
    with open_run(".", run_id=what, tools=[order, pay, refund], policy=policy) as run:
        run.user_message("see to order 881", slot="task")
        while not run.state.outcome:
            for call in run.state.accepted:
                print(run.call(call).result)
            said = sum(message["role"] == "assistant" for message in run.context())
            turn = run.last_turn() or run.model_turn(f"answer {said}", script[said] if said < len(script) else [])
            if not turn.tool_calls:
                run.finish("done")
    for line in run.notices:
        print(f"note: {line}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except NeedsPerson as e:
        sys.exit(e.told())
