"""The one codec of the store: zlib streams, by the fastest library there is, without effort on what cannot shrink."""

from __future__ import annotations

import zlib
from collections.abc import Callable
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
crc32: Callable[..., int] = zlib.crc32 if _fast is None else _fast.crc32
"""As `zlib.crc32`."""

decompressor: Any = zlib.decompressobj if _fast is None else _fast.decompressobj
"""A new decompressor, with the interface of `zlib.decompressobj`."""

LEVEL = 1
SAMPLE = 16 << 10
_WORTH = 0.97


def worth_it(size: int, sample: Callable[[int], bytes]) -> bool:
    """Does deflating make content of this size smaller, judged from samples (`SAMPLE` bytes from an offset on)?

    Always said of the fast library, which passes over noise as quickly as the other stores it.
    """
    if _fast is not None or size <= 4 * SAMPLE:
        return True
    samples = [sample(size * n // 4) for n in range(4)]
    return sum(len(_compress(s, LEVEL)) for s in samples) < _WORTH * sum(map(len, samples))


def _sampled(data: bytes) -> bytes:
    if worth_it(len(data), lambda at: data[at : at + SAMPLE]):
        return _compress(data, LEVEL)  # type: ignore[no-any-return]
    return zlib.compress(data, 0)


def _all(data: bytes) -> bytes:
    return _fast.compress(data, LEVEL)  # type: ignore[no-any-return]


compress: Callable[[bytes], bytes] = _sampled if _fast is None else _all
"""A whole zlib stream of the data."""


def compressor(worth: bool) -> Any:
    """A streaming compressor with `compress` and `flush`; stores only, unless it is `worth` it."""
    return _compressobj(LEVEL) if worth else zlib.compressobj(0)
