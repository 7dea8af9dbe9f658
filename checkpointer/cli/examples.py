"""Calls that show what a command is for, and its exit statuses where they say more than done or not; for `--help`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

T = "T is a turn (t3), a step (t3.2) or turns (t3.., t3..t5)."
P = "P is a checkpoint (17), a label, t3 (right after the turn), t3- (right before it), @14:05, @10m, or now."
GONE_BACK = "0 done; 1 nothing to do, or failed; 3 a person must decide: a conflict; 4 somebody else is at work."

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "status": (
            ("", "is it protected, and what would undo do"),
            ("--short", "one line for a shell prompt, no scan"),
        ),
        "log": (
            ("-n 5", "the newest five"),
            ("-p -- src", "with patches, only what touched src"),
            ("--grep cart", "turns that were asked for it, or changed it"),
            ("--html history.html", "all of it on one page"),
        ),
        "show": (("", "what undo would take back"), ("t3 --stat", "one turn, counted"), ("t3.2", "one call of it")),
        "diff": (
            ("", "from before the newest turn to now"),
            ("t3- t3", "what the turn t3 changed"),
            ("17 now --stat -- src", "since checkpoint 17, in src"),
        ),
        "cat": (("t3- src/cart.py", "the file as it was before t3"),),
        "blame": (("src/cart.py", "every line"), ("-L 10,20 --at t3 src/cart.py", "some lines, as of t3")),
        "bisect": (("--good t2- --bad t9 -- pytest -q", "the turn after which the tests fail"),),
        "undo": (
            ("", "the newest turn"),
            ("t3", "one turn, whatever came after it"),
            ("t3..", "everything since before t3"),
            ("-n", "say what it would do"),
            ("--skip -- src", "in src, all but the conflicts"),
        ),
        "redo": (("", "take the newest undo back"), ("t3", "apply t3 again")),
        "restore": (
            ("17", "all files exactly as of checkpoint 17"),
            ("t3- -- src/cart.py", "one file as before t3"),
            ("@10m --to /tmp/then", "the files of ten minutes ago, elsewhere"),
        ),
        "save": (("", "now"), ("-m 'before the experiment'", "with a name, kept for good")),
        "pin": (
            ("17 -m 'last good'", "keep 17 for good, with a name"),
            ("17 --remove", "let it go when its time comes"),
        ),
        "run": (
            ("-- aider", "an agent without hooks"),
            ("--agent demo -- sh agent.sh", "any command, with a name for the log"),
        ),
        "runs": (("", "the newest twenty"), ("--dismiss r7", "r7 is not to be gone on with: list it no more")),
        "resume": (("", "the run that was cut off"), ("r7 --keep", "r7, with the files as they are now")),
        "install": (("", "which agents there are, and their state"), ("claude -n", "show what would be written")),
        "uninstall": (("claude", "out of one"), ("--all", "out of all")),
        "doctor": (("", "everything"), ("codex", "one agent")),
        "events": (
            ("r7 --follow", "as they come"),
            ("--type tool_call_started --json", "one kind, for programs"),
            ("r7 --salvage", "a damaged log, as far as it can be read"),
        ),
        "bench": (
            ("", "the longest driven run, ten seconds"),
            ("r9 --target-ms 500 --seconds 60", "one run, half a second at most, surer"),
            ("--events 1000000 --json", "for runs of a million events, for programs"),
        ),
        "settle": (
            ("u1 --happened result.json", "it took effect, and this came of it"),
            ("u1 --did-not-happen --why 'not in the ledger'", "it may be done again"),
        ),
        "fork": (
            ("r7 ../try", "go on from its end in another direction"),
            ("r7 @t3 ../try", "from right after its turn t3"),
            ("r7 @17 ../try", "from checkpoint 17"),
        ),
        "export": (("r7 r7.ckpt", "for an auditor, a colleague, an archive"),),
        "import": (
            ("r7.ckpt", "look at it with ckpt -C r7 log"),
            ("r7.ckpt /tmp/case-12", "under another name"),
        ),
        "gc": (
            ("-n", "say what would go"),
            ("", "do it"),
            ("--keep-runs 7", "and logs of runs that were over a week ago"),
        ),
        "purge": (("secrets.env", "take its content out of every checkpoint"),),
        "config": (("", "every key"), ("gc.keep_days 90", "set one"), ("gc.keep_days --unset", "back to the default")),
    }
)
"""What may follow `ckpt NAME`, and what it does."""

NOTES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "undo": (T, GONE_BACK),
        "redo": (GONE_BACK,),
        "restore": (P, GONE_BACK),
        "show": (T, P),
        "diff": (P,),
        "cat": (P,),
        "blame": (P,),
        "bisect": (P,),
        "pin": (P,),
        "run": (
            "Ends as the command did, 128+n for signal n; 125 where it could not be protected and was not started.",
        ),
        "resume": ("Ends as the agent does; 3 where a person must decide first, 4 while its owner lives.",),
        "fork": ("0 done; 2 DIR cannot be taken; 3 the outcome of a call must be settled first; 4 RUN is at work.",),
        "import": ("0 done, or the same run stands there already; 2 another store is in the way; 5 FILE is refused.",),
        "verify": ("0 all holds; 5 something is damaged: each finding says what is still there.",),
        "purge": ("Asks first; where nobody can be asked it ends with 3 and names --yes.",),
        "doctor": ("0 all is well; 1 something is broken: each finding says what mends it.",),
    }
)
"""What else `--help` says of a command, a paragraph each."""


def text(name: str) -> str:
    """What stands below the options; empty where there is nothing to add."""
    lines = []
    examples = EXAMPLES.get(name, ())
    if examples:
        calls = [(f"ckpt {name} {words}".rstrip(), about) for words, about in examples]
        width = max(len(call) for call, _ in calls) + 2
        lines += ["Examples:", *(f"  {call:{width}}{about}" for call, about in calls)]
    for note in NOTES.get(name, ()):
        lines += [*([""] if lines else []), note]
    return "\n".join(lines)
