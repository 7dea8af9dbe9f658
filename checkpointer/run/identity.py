"""What makes two calls the same action: signatures, keys and digests of arguments.

Everything here is keyed with a secret of the run, because a plain hash of a short argument can be guessed. A key is
made once, when a call is accepted, and stored; it is never made again from a log.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from checkpointer import canon, disk
from checkpointer.errors import Damaged
from checkpointer.state import Place, RunState

SECRET: Final = "secret"
"""The file in a run's directory that holds its secret, for its owner alone."""


def secret(directory: str, state: RunState) -> bytes:
    """The secret of the run in `directory`, made if the run has used none yet.

    Raises `Damaged` where it is gone although calls were made under it: no call could be told from an earlier one.
    """
    path = os.path.join(directory, SECRET)
    try:
        with open(path, "rb") as f:
            found = f.read()
    except FileNotFoundError:
        found = b""
    if len(found) == 32:
        return found
    if state.model_turns or state.trajectory or state.live or len(state.over):
        raise Damaged(
            f"the secret of run {state.run} is gone: {path}",
            kept="its log and its files",
            next=("put the file back, or start another run",),
        )
    made = secrets.token_bytes(32)
    adopt(directory, made)
    return made


def adopt(directory: str, made: bytes) -> None:
    """Make this the secret of a run that has used none yet; its directory is made."""
    with disk.plain_errors(f"the secret of run {os.path.basename(directory)}"):
        missing = [directory]
        while not os.path.isdir(os.path.dirname(missing[-1])):
            missing.append(os.path.dirname(missing[-1]))
        for one in reversed(missing):
            if not os.path.isdir(one):
                disk.make_directory(one)
        disk.replace(os.path.join(directory, SECRET), made)


class Identity:
    """Names actions of one operation. `arguments` are frozen values of `canon` in all that follows."""

    def __init__(self, secret: bytes, tenant: str, operation: str) -> None:
        self._secret = secret
        self._scope = (tenant, operation)

    def _name(self, what: str, *parts: Any) -> str:
        preimage = canon.dumps(canon.freeze(({"canon": 1}, what, *self._scope, *parts)))
        return hmac.new(self._secret, preimage, sha256).hexdigest()

    def arguments(self, arguments: Mapping[str, Any]) -> str:
        """A digest by which arguments can be recognised when they are given again."""
        return self._name("arguments", arguments)

    def signature(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Equal for calls that would do the same."""
        return self._name("signature", tool, arguments)[:32]

    def occurrence(self, tool: str, arguments: Mapping[str, Any], nth: int) -> str:
        """The key of the `nth` action of a signature, from 1."""
        return self._name("occurrence", tool, arguments, nth)[:32]

    def slot(self, tool: str, arguments: Mapping[str, Any], run: str, slot: Place | str) -> str:
        """The key of a call that is an action of its own wherever it stands."""
        return self._name("slot", tool, arguments, run, slot)[:32]
