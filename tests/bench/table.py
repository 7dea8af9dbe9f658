"""README's table of what things cost, written from the rows of one run of the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.stage import Row

BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->\n"


def written(rows: Sequence[Row]) -> str:
    """The table in markdown."""
    lines = ["| what | ours | beside it | ratio |", "|---|---|---|---|"]
    for row in rows:
        base = "" if row.base is None else f"{row.base:.3g} {row.unit}"
        ratio = "" if row.base is None else f"{row.ratio:.2f}"
        lines.append(f"| {row.name} | {row.ours:.3g} {row.unit} | {base} | {ratio} |")
    return "\n".join(lines) + "\n"


def write(readme: Path, rows: Sequence[Row]) -> None:
    """Put the table between the two marks in README."""
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{readme} has no place for the figures")
    readme.write_text(before + BEGIN + "\n" + written(rows) + "\n" + END + after, encoding="utf-8")
