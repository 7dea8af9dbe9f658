"""The first half of the demonstration: an agent's turn is taken back, and a person's edits stay."""

from __future__ import annotations

from pathlib import Path

from checkpointer.demo.stage import Stage

CART = "def total(cart):\n    return sum(item.price for item in cart)\n"
PRICES = b"".join(b"%d,%d\n" % (n, n * n) for n in range(500))
AGENT = """\
sed 's/cart/basket/g' cart.py > new && mv new cart.py
rm prices.csv
mv ship.py deliver.py
"""


def undoing(stage: Stage) -> None:
    """Run an agent, edit beside it, undo, redo; and look at the files after each."""
    shop = stage.base / "shop"
    shop.mkdir()
    (shop / "cart.py").write_text('"""The cart."""\n\nCURRENCY = "EUR"\n\n\n' + CART)
    (shop / "ship.py").write_text("def ship(order):\n    return order.id\n")
    (shop / "prices.csv").write_bytes(PRICES)
    (stage.base / "agent.sh").write_text(AGENT)
    stage.say("A stand-in for an agent renames things, and deletes a file that nobody had committed.")
    _type(stage, shop, "ckpt", "run", "--agent", "demo", "--", "sh", "../agent.sh")
    stage.say("A person goes on in the same place: a new file, and another line of a file that the agent changed.")
    (shop / "todo.txt").write_text("buy milk\n")
    _edit(shop / "cart.py", "EUR", "CHF")
    _type(stage, shop, "ckpt", "undo")
    stage.claim("what the agent deleted is back to the byte", _reads(shop / "prices.csv") == PRICES)
    stage.claim(
        "what it renamed has its name again", (shop / "ship.py").exists() and not (shop / "deliver.py").exists()
    )
    cart = _reads(shop / "cart.py").decode()
    stage.claim("what it wrote into cart.py is gone", CART in cart and "basket" not in cart)
    stage.claim("the person's edit of cart.py is there", "CHF" in cart)
    stage.claim("the person's file is there", _reads(shop / "todo.txt") == b"buy milk\n")
    _type(stage, shop, "ckpt", "redo")
    cart = _reads(shop / "cart.py").decode()
    stage.claim("the agent's work is back, and the person's edit is still there", "basket" in cart and "CHF" in cart)
    _type(stage, shop, "ckpt", "undo")
    stage.claim("and taken back again", _reads(shop / "prices.csv") == PRICES)


def _type(stage: Stage, shop: Path, *words: str) -> None:
    status = stage.type(words, shop)
    if status != 0:
        stage.claim(" ".join(words[:2]), False, f"exit status {status}")


def _reads(path: Path) -> bytes:
    """A file's bytes; none where there is no file."""
    return path.read_bytes() if path.exists() else b""


def _edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))
