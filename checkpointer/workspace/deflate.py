"""The one codec of the store: zlib streams, by the fastest library there is, without effort on what cannot shrink."""

from __future__ import annotations

import zlib
from typing import Any

_fast: Any
try:
    from isal import isal_zlib as _fast
except ImportError:  # not built for every platform; the streams are the same
    _fast = None

ERRORS: tuple[type[Exception], ...] = (zlib.error,) if _fast is None else (zlib.error, _fast.IsalError)
"""What decompressing raises on damaged data."""

_compress: Any = zlib.compress if _fast is None else _fast.compress
_compressobj: Any = zlib.compressobj if _fast is None else _fast.compressobj
decompressor: Any = zlib.decompressobj if _fast is None else _fast.decompressobj
"""A new decompressor, with the interface of `zlib.decompressobj`."""

LEVEL = 1
_PROBE = 16 << 10
_WORTH = 0.97


def shrinks(*samples: bytes) -> bool:
    """Is deflating worth its time, judged from samples?"""
    size = sum(map(len, samples))
    return sum(len(_compress(s, LEVEL)) for s in samples) < _WORTH * size


def compress(data: bytes) -> bytes:
    """A whole zlib stream."""
    size = len(data)
    if size > 4 * _PROBE:
        middle = size // 2
        if not shrinks(data[:_PROBE], data[middle : middle + _PROBE]):
            return zlib.compress(data, 0)
    return _compress(data, LEVEL)  # type: ignore[no-any-return]


def compressor(worth: bool) -> Any:
    """A streaming compressor with `compress` and `flush`; stores only, unless it is `worth` it."""
    return _compressobj(LEVEL) if worth else zlib.compressobj(0)
