"""The codec: the same streams with and without the fast library."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib

from hypothesis import given
from hypothesis import strategies as st

from checkpointer.workspace.odb import deflate

WITHOUT = """
import sys, zlib, random
sys.modules["isal"] = None
from checkpointer.workspace.odb import deflate
assert deflate._fast is None
noise, text = random.Random(1).randbytes(1 << 20), b"the same line again\\n" * 50_000
assert zlib.decompress(deflate.compress(noise)) == noise
assert len(deflate.compress(noise)) == len(zlib.compress(noise, 0)), "stored, not deflated"
assert len(deflate.compress(text)) < len(text) // 20
mixed = noise[:400_000] + text
assert len(deflate.compress(mixed)) < 500_000, "noise at the beginning says nothing about the rest"
for worth in (True, False):
    packer = deflate.compressor(worth)
    assert zlib.decompress(packer.compress(text) + packer.flush()) == text
try:
    deflate.decompressor().decompress(b"garbage")
except deflate.ERRORS:
    pass
else:
    raise AssertionError
"""


def test_without_the_fast_library() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)


@given(st.binary(max_size=10_000), st.integers(0, 60))
def test_the_streams_are_zlibs(data: bytes, times: int) -> None:
    whole = data * times
    assert zlib.decompress(deflate.compress(whole)) == whole
    packer = deflate.compressor(worth=True)
    assert zlib.decompress(packer.compress(whole) + packer.flush()) == whole
    unpacker = deflate.decompressor()
    assert unpacker.decompress(zlib.compress(whole, 9)) == whole


def test_noise_grows_by_next_to_nothing() -> None:
    noise = random.Random(1).randbytes(3 << 20)
    assert len(deflate.compress(noise)) < len(noise) + 2000
