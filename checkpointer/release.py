"""Which version of this package this is: written into every log that it owns."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
