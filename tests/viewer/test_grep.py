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
