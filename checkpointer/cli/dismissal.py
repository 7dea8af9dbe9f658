"""`ckpt runs --dismiss RUN`: a run that was cut off is not to be gone on with, and is listed no more."""

from __future__ import annotations

from checkpointer.cli.call import Call
from checkpointer.cli.events import log_of
from checkpointer.errors import CheckpointerError


def dismiss(call: Call, names: tuple[str, ...]) -> int:
    """Dismiss each; the first that cannot be ends it, and says so."""
    from checkpointer.run import dismissing

    call.person_only("ckpt runs --dismiss")
    workspace = call.acting()
    done = []
    try:
        for name in dict.fromkeys(names):
            log = log_of(workspace, name)
            try:
                done.append(dismissing.dismiss(workspace, log))
            finally:
                log.close()
    except CheckpointerError as e:
        if done:
            e.kept = f"dismissed before: {' '.join(one.handle for one in done)}"
        raise
    call.notices(workspace)
    if call.out.json:
        found = [{"run": one.handle, "id": one.run, "uncertain": one.questions} for one in done]
        call.out.document({"schema": 1, "dismissed": found})
        return 0
    for one in done:
        call.out.line(f"dismissed {one.handle}: it is listed as cut off no more")
        for question in one.questions:
            call.out.line(f"  {question} is uncertain all the same: ckpt uncertain {question}")
    call.out.hint(f"next: ckpt resume {done[0].handle} (goes on with it all the same)")
    return 0
