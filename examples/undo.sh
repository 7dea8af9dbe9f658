#!/bin/sh
# The main job in half a minute: an agent damages a project, and everything it did is taken back, nothing else.
# Runs in a temporary directory with a store of its own; needs only `ckpt` on the PATH.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export CKPT_HOME="$place/store"
mkdir "$place/shop" && cd "$place/shop"

say() { printf '\n$ %s\n' "$*"; "$@"; }

mkdir src data
cat > src/cart.py <<'PY'
"""The cart."""

CURRENCY = "EUR"


def total(cart):
    return sum(item.price for item in cart)
PY
printf 'def ship(order):\n    return order.id\n' > src/ship.py
head -c 20000 /dev/urandom > data/prices.db
chmod 600 data/prices.db
tar cf "$place/before.tar" .

# A stand-in for an agent: one command that edits, deletes, renames and makes files.
cat > "$place/agent.sh" <<'AGENT'
sed -i.bak 's/in cart/in basket/; s/(cart)/(basket)/' src/cart.py && rm src/cart.py.bak
rm data/prices.db
mv src/ship.py src/deliver.py
mkdir -p src/new && echo 'TODO' > src/new/notes.md
AGENT
say ckpt run --agent demo -- sh "$place/agent.sh"

# Meanwhile a person goes on in the same project: in a file of their own, and in one that the agent changed.
echo 'buy milk' > todo.txt
sed -i.bak 's/EUR/CHF/' src/cart.py && rm src/cart.py.bak

say ckpt
say ckpt undo
say ckpt log

# What was there is back to the byte, mode included; what the person did since is there too.
mkdir "$place/then" && tar xf "$place/before.tar" -C "$place/then"
cmp data/prices.db "$place/then/data/prices.db"
cmp src/ship.py "$place/then/src/ship.py"
test ! -e src/deliver.py
test ! -e src/new
grep -q 'for item in cart' src/cart.py
grep -q 'CHF' src/cart.py
grep -q milk todo.txt

say ckpt redo
test -e src/deliver.py
say ckpt undo
say ckpt verify
printf '\nundone to the byte, and the edits of the person are still there\n'
