"""`ckpt log --grep` finds turns by what was asked, by labels, by calls and by the files they changed."""

from __future__ import annotations

from harness.world import World


def test_what_is_searched(world: World) -> None:
    world.write("cart.py", "a\n")
    world.ckpt("save", "-m", "before the sale")
    world.ckpt("run", "--agent", "claude", "--", "sh", "-c", "echo 1 > cart.py")
    world.ckpt("run", "--agent", "codex", "--", "sh", "-c", "echo 2 > tax.py")

    def found(text: str, *more: str) -> list[object]:
        return [d["turn"] or d["checkpoint"] for d in world.ckpt("log", "--json", "--grep", text, *more).lines]

    assert found("SALE") == [1]
    assert found("tax") == ["t2"]
    assert found(r"cart\.py$") == ["t1"]
    assert found("claude|codex") == ["t2", "t1"]
    assert found("py", "-n", "1") == ["t2"]
    assert found("no such") == []
    assert world.ckpt("log", "--grep", "no such").err == "nothing that fits\n"
    refused = world.ckpt("log", "--grep", "f(x", ok=2).err
    assert refused.splitlines()[-1] == r"next: ckpt log --grep 'f\(x'"


def test_a_turn_that_was_taken_back_in_part_is_marked(world: World) -> None:
    world.write("a", "1\n")
    world.write("b", "1\n")
    world.ckpt("save")
    world.ckpt("run", "--", "sh", "-c", "echo 2 > a; echo 2 > b")

    def marks() -> list[tuple[object, object]]:
        return [(d["undone"], d["partly_undone"]) for d in world.ckpt("log", "--json").lines if d["turn"] == "t1"]

    assert marks() == [(False, False)]
    world.ckpt("undo", "--", "a")
    assert marks() == [(False, True)]
    assert world.ckpt("log", "-n", "1").out.rstrip().endswith("partly undone")
    assert "partly undone" in world.ckpt("show", "t1").out.splitlines()[0]
    world.ckpt("undo")
    assert marks() == [(True, False)]
    world.ckpt("redo")
    assert marks() == [(False, True)]
