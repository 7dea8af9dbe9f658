"""ckpt put into agents' configurations on real files: what it leaves, what it refuses, what a kill leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pytest
from crash.cutting import at_changes, at_verbs, cut
from ground import CONFIGURATIONS, HOOKED, SHARED, caller, configured, contents, site
from harness.machine import IS_ROOT, NOBODY
from hypothesis import given, settings
from hypothesis import strategies as st
from test_editing import json_texts

from checkpointer.agents.installation import copies, installing, ledger, standing
from checkpointer.agents.recipes.catalogue import named
from checkpointer.agents.recipes.recipe import Caller, Merged, Owned, Recipe, Site
from checkpointer.errors import Unconfigurable, Usage

claude, codex, gemini, hermes, cursor = (named(n) for n in ("claude", "codex", "gemini", "hermes", "cursor"))
names = pytest.mark.parametrize("recipe", HOOKED, ids=lambda r: r.name)


@pytest.fixture(autouse=True)
def _noted_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_HOME", str(tmp_path / "state"))


@names
@pytest.mark.parametrize("before", ["nothing", "something"])
def test_there_and_back_again(tmp_path: Path, recipe: Recipe, before: str) -> None:
    where = site(tmp_path)
    if before == "something":
        configured(recipe, tmp_path)
    was = contents(where.home)
    found = installing.install(recipe, where, caller(tmp_path))
    assert found.changes
    there = contents(where.home)
    stands = standing.examine(recipe, where)
    assert (stands.state, stands.calls, stands.why) == ("installed", [caller(tmp_path).path], "")
    assert installing.install(recipe, where, caller(tmp_path)).changes == []
    assert contents(where.home) == there
    installing.uninstall(recipe, where)
    assert contents(where.home) == was
    assert standing.examine(recipe, where).state == "none"
    assert installing.uninstall(recipe, where).changes == []
    assert ledger.everything() == []


@pytest.mark.parametrize("recipe", SHARED, ids=lambda r: r.name)
def test_a_projects_hooks_call_by_name_and_forgive_its_absence(tmp_path: Path, recipe: Recipe) -> None:
    where = site(tmp_path, project=True)
    assert where.project is not None
    was = contents(where.home)
    installing.install(recipe, where, Caller())
    there = contents(where.home)
    new = [name for name, (_, content) in there.items() if isinstance(content, bytes) and name not in was]
    assert new
    assert all(name.startswith("p/") for name in new)
    told = b"".join(content for _, content in there.values() if isinstance(content, bytes))
    assert str(tmp_path).encode() not in told
    assert standing.examine(recipe, where).state == "installed"
    for part in recipe.parts(recipe, where, Caller()):
        assert not isinstance(part, Merged) or all("command -v ckpt" in json.dumps(e.value) for e in part.entries)
    installing.uninstall(recipe, where)
    assert contents(where.home) == was


def test_the_guard_is_silent_where_there_is_no_ckpt(tmp_path: Path) -> None:
    line = Caller().shell("codex", "Stop")
    (tmp_path / "sh").symlink_to("/bin/sh")
    for environment, wanted in (({"PATH": str(tmp_path)}, b""), ({"PATH": f"{tmp_path / 'bin dir'}"}, b"ckpt 0\n")):
        caller(tmp_path)
        done = subprocess.run(["/bin/sh", "-c", line], env=environment, capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, wanted, b"")


@settings(max_examples=40)
@given(json_texts(), st.sampled_from(["claude", "gemini", "codex", "cursor"]), st.booleans())
def test_any_configuration_comes_back(case: tuple[str, str], name: str, edit_ours: bool) -> None:
    form, text = case
    recipe = named(name)
    with tempfile.TemporaryDirectory() as directory:
        os.environ["CKPT_HOME"] = directory + "/state"
        base = Path(directory)
        where = site(base)
        (part,) = (p for p in recipe.parts(recipe, where, caller(base)) if isinstance(p, Merged))
        part.path.parent.mkdir(parents=True)
        part.path.write_bytes(text.encode())
        was = contents(where.home)
        try:
            installing.install(recipe, where, caller(base))
        except Unconfigurable:
            assert contents(where.home) == was
            assert form == "jsonc"
            assert part.form == "json"
            return
        backup = copies.first(part.path)
        assert backup.read_bytes() == text.encode()
        other = base / "other" / "ckpt"
        if edit_ours:  # another version, another place
            other.parent.mkdir()
            other.write_text("")
            installing.install(recipe, where, Caller(str(other)))
            assert backup.read_bytes() == text.encode()
            assert standing.examine(recipe, where).calls == [str(other)]
        installing.uninstall(recipe, where)
        assert contents(where.home) == was


def test_what_others_wrote_since_stays(tmp_path: Path) -> None:
    where = site(tmp_path)
    configured(claude, tmp_path)
    path = where.home / ".claude" / "settings.json"
    installing.install(claude, where, caller(tmp_path))
    text = path.read_text()
    path.write_text(text.replace('"model": "opus"', '"model":   "haiku"'))
    installing.uninstall(claude, where)
    assert path.read_text() == CONFIGURATIONS["claude"][".claude/settings.json"].replace(
        '"model": "opus"', '"model":   "haiku"'
    )
    assert copies.first(path).read_text() == CONFIGURATIONS["claude"][".claude/settings.json"]


def test_what_others_put_into_a_file_of_ours_stays(tmp_path: Path) -> None:
    where = site(tmp_path)
    installing.install(cursor, where, caller(tmp_path))
    path = where.home / ".cursor" / "hooks.json"
    value = json.loads(path.read_text())
    value["hooks"]["stop"].append({"command": "say done"})
    path.write_text(json.dumps(value))
    own = where.home / ".cursor" / "commands" / "ckpt-undo.md"
    own.write_text("ckpt undo\nand more\n")
    found = installing.uninstall(cursor, where)
    assert json.loads(path.read_text()) == {"version": 1, "hooks": {"stop": [{"command": "say done"}]}}
    assert not own.exists()
    assert found.aside == [own.with_name("ckpt-undo.md.edited")]
    assert found.aside[0].read_text() == "ckpt undo\nand more\n"


def test_no_copy_is_removed_that_is_the_only_one(tmp_path: Path) -> None:
    where = site(tmp_path)
    configured(claude, tmp_path)
    path = where.home / ".claude" / "settings.json"
    was = path.read_bytes()
    installing.install(claude, where, caller(tmp_path))
    path.unlink()
    installing.uninstall(claude, where)
    assert copies.first(path).read_bytes() == was
    path.write_bytes(was)
    installing.uninstall(claude, where)
    assert copies.first(path).read_bytes() == was  # a person's by now


def test_a_copy_stays_where_the_configuration_is_not_what_it_was(tmp_path: Path) -> None:
    where = site(tmp_path)
    configured(claude, tmp_path)
    path = where.home / ".claude" / "settings.json"
    was = path.read_bytes()
    installing.install(claude, where, caller(tmp_path))
    value = json.loads(path.read_bytes())
    path.write_text(json.dumps({"hooks": value["hooks"]}))  # another program dropped the rest
    found = installing.uninstall(claude, where)
    assert "ckpt" not in path.read_text()
    assert list(found.kept) == [copies.first(path)]
    assert copies.first(path).read_bytes() == was


def test_a_copy_is_never_written_again(tmp_path: Path) -> None:
    where = site(tmp_path)
    configured(claude, tmp_path)
    path = where.home / ".claude" / "settings.json"
    was = path.read_bytes()
    installing.install(claude, where, caller(tmp_path))
    path.write_text("{}\n")  # somebody began anew
    found = installing.install(claude, where, caller(tmp_path))
    second = path.with_name("settings.json.before-ckpt.2")
    assert [c.path for c in found.backups] == [second]
    assert (copies.first(path).read_bytes(), second.read_text()) == (was, "{}\n")
    found = installing.uninstall(claude, where)
    assert (path.read_text(), second.exists(), list(found.kept)) == ("{}\n", False, [copies.first(path)])
    assert copies.first(path).read_bytes() == was


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "directory", "same content"])
def test_what_has_the_name_of_a_copy_is_left_alone(tmp_path: Path, kind: str) -> None:
    where = site(tmp_path)
    configured(claude, tmp_path)
    path = where.home / ".claude" / "settings.json"
    taken = copies.first(path)
    if kind in ("file", "same content"):
        taken.write_bytes(path.read_bytes() if kind == "same content" else b"mine")
    elif kind == "directory":
        taken.mkdir()
    else:
        taken.symlink_to("../diary")
    if kind == "link":
        (where.home / "diary").write_text("mine")
    was = contents(where.home)
    found = installing.install(claude, where, caller(tmp_path))
    assert [c.path.name for c in found.backups] == ["settings.json.before-ckpt.2"]
    there = contents(where.home)
    assert {n: there[n] for n in was if n != ".claude/settings.json"} == {
        n: c for n, c in was.items() if n != ".claude/settings.json"
    }
    installing.uninstall(claude, where)
    assert contents(where.home) == was


@pytest.mark.parametrize(
    ("name", "file", "before", "ours", "stays"),
    [
        ("gemini", ".gemini/settings.json", '{\n  "a": 1\n}\n', '"hooks": {', True),
        ("gemini", ".gemini/settings.json", '{\n  "a": 1\n}\n', '"type": "command",', False),
        ("hermes", ".hermes/config.yaml", "model: x\n", "hooks:", False),
        (
            "codex",
            ".codex/config.toml",
            '[[hooks.Stop]]\nhooks=[{type="command",command="date"}]\n',
            "timeout = 60",
            True,
        ),
    ],
)
def test_no_comment_of_a_person_is_lost(
    tmp_path: Path, name: str, file: str, before: str, ours: str, stays: bool
) -> None:
    where, recipe = site(tmp_path), named(name)
    path = where.home / file
    path.parent.mkdir()
    path.write_text(before)
    installing.install(recipe, where, caller(tmp_path))
    note = "// MY NOTE" if file.endswith(".json") else "# MY NOTE"
    indent = "  " if name == "hermes" else ""
    path.write_text(path.read_text().replace(f"{ours}\n", f"{ours}\n{indent}{note}\n", 1))
    was = contents(where.home)
    if stays:
        installing.uninstall(recipe, where)
        assert note in path.read_text()
        assert "ckpt" not in path.read_text()
    else:
        with pytest.raises(Unconfigurable, match=r"line \d+: .* MY NOTE"):
            installing.uninstall(recipe, where)
        assert contents(where.home) == was


def test_a_line_that_calls_ours_among_other_things_stays(tmp_path: Path) -> None:
    where = site(tmp_path)
    installing.install(claude, where, caller(tmp_path))
    path = where.home / ".claude" / "settings.json"
    value = json.loads(path.read_text())
    mine = [{"hooks": [{"type": "command", "command": "/bin/notify done; /opt/ckpt hook claude Stop"}]}]
    value["hooks"]["Stop"] = mine
    path.write_text(json.dumps(value))
    found = installing.uninstall(claude, where)
    assert json.loads(path.read_text()) == {"hooks": {"Stop": mine}}
    assert found.wrapped == [(path, "/bin/notify done; /opt/ckpt hook claude Stop")]


@pytest.mark.parametrize("name", ["cursor", "opencode", "cline"])
def test_without_a_note_what_was_edited_is_moved_aside_and_the_rest_goes(tmp_path: Path, name: str) -> None:
    where, recipe = site(tmp_path), named(name)
    was = set(contents(where.home))
    installing.install(recipe, where, caller(tmp_path))
    own = next(p.path for p in recipe.parts(recipe, where, caller(tmp_path)) if isinstance(p, Owned))
    own.write_bytes(own.read_bytes() + b"MY NOTE\n")
    shutil.rmtree(ledger.place())
    found = installing.uninstall(recipe, where)
    assert found.aside == [own.with_name(f"{own.name}.edited")]
    assert found.aside[0].read_bytes().endswith(b"MY NOTE\n")
    assert [n for n, (_, c) in contents(where.home).items() if n not in was and isinstance(c, bytes)] == [
        str(found.aside[0].relative_to(where.home))
    ]


def test_a_link_that_a_person_made_of_our_file_stays(tmp_path: Path) -> None:
    where = site(tmp_path)
    installing.install(claude, where, caller(tmp_path))
    path, target = where.home / ".claude" / "settings.json", tmp_path / "dotfiles.json"
    path.rename(target)
    path.symlink_to(target)
    installing.uninstall(claude, where)
    assert path.is_symlink()
    assert json.loads(target.read_text()) == {}


def test_a_spoiled_copy_is_not_asked(tmp_path: Path) -> None:
    where = site(tmp_path)
    configured(gemini, tmp_path)
    path = where.home / ".gemini" / "settings.json"
    was = path.read_bytes()
    installing.install(gemini, where, caller(tmp_path))
    copies.first(path).write_bytes(b"\xff{")
    installing.uninstall(gemini, where)
    assert path.read_bytes() == was


def test_what_was_moved_aside_before_stays(tmp_path: Path) -> None:
    where = site(tmp_path)
    own = where.home / ".cursor" / "commands" / "ckpt-undo.md"
    for words in ("one", "two"):
        installing.install(cursor, where, caller(tmp_path))
        own.write_text(f"ckpt undo\n{words}\n")
        installing.uninstall(cursor, where)
    assert own.with_name("ckpt-undo.md.edited").read_text().endswith("one\n")
    assert own.with_name("ckpt-undo.md.edited-2").read_text().endswith("two\n")


def test_a_rewritten_configuration_is_ours_still(tmp_path: Path) -> None:
    where = site(tmp_path)
    configured(claude, tmp_path)
    path = where.home / ".claude" / "settings.json"
    was = json.loads(path.read_text())
    installing.install(claude, where, caller(tmp_path))
    path.write_text(json.dumps(json.loads(path.read_text())))  # as an agent does that saves its settings
    assert installing.install(claude, where, caller(tmp_path)).changes == []
    installing.uninstall(claude, where)
    assert json.loads(path.read_text()) == was


def test_a_link_is_followed_and_stays_one(tmp_path: Path) -> None:
    where = site(tmp_path)
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    target = dotfiles / "claude.json"
    target.write_text('{"a": 1}')
    target.chmod(0o640)
    link = where.home / ".claude" / "settings.json"
    link.parent.mkdir()
    link.symlink_to("../../dotfiles/claude.json")
    installing.install(claude, where, caller(tmp_path))
    assert link.is_symlink()
    assert b"hook" in target.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(dotfiles)) == ["claude.json"]
    installing.uninstall(claude, where)
    assert (link.is_symlink(), target.read_text()) == (True, '{"a": 1}')


@pytest.mark.skipif(not IS_ROOT, reason="needs root: to give a file away")
def test_the_owner_stays(tmp_path: Path) -> None:
    where = site(tmp_path)
    configured(gemini, tmp_path)
    os.chown(where.home / ".gemini", NOBODY, NOBODY)
    path = where.home / ".gemini" / "settings.json"
    os.chown(path, NOBODY, NOBODY)
    installing.install(gemini, where, caller(tmp_path))
    new = where.home / ".gemini" / "commands" / "ckpt-undo.toml"
    assert {(p.stat().st_uid, p.stat().st_gid) for p in (path, new, new.parent)} == {(NOBODY, NOBODY)}


def refused(recipe: Recipe, where: Site, base: Path) -> str:
    was = contents(where.home)
    with pytest.raises(Unconfigurable) as caught:
        installing.install(recipe, where, caller(base))
    assert contents(where.home) == was
    assert ledger.everything() == []
    assert caught.value.kept
    if caught.value.details["path"].endswith(".json"):
        assert "hooks" in json.loads(caught.value.details["snippet"])
    return caught.value.message


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"a": 1', "is not valid JSON"),
        (b"\xff\xfe{}", "is not UTF-8 text"),
        (b"[1]", "something else than an object"),
        (b'{"hooks": []}', "something else than an object at hooks"),
        (b'{"hooks": {"Stop": "x"}}', "something else than a list at hooks.Stop"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    where = site(tmp_path)
    path = where.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(content)
    message = refused(claude, where, tmp_path)
    assert message.startswith(f"{path} ")
    assert why in message


def test_kinds_that_are_refused(tmp_path: Path) -> None:
    where = site(tmp_path)
    path = where.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.mkdir()
    assert "not a regular file" in refused(claude, where, tmp_path)
    path.rmdir()
    os.mkfifo(path)
    assert "not a regular file" in refused(claude, where, tmp_path)
    path.unlink()
    path.symlink_to("nowhere")
    assert "which is not there" in refused(claude, where, tmp_path)
    path.unlink()
    path.write_text("{}")
    path.chmod(0o444)
    assert "read-only" in refused(claude, where, tmp_path)
    path.chmod(0o644)
    os.link(path, where.home / "other name")
    assert "another name" in refused(claude, where, tmp_path)
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("a file")
    assert "is not a directory" in refused(claude, where, tmp_path)


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    where = site(tmp_path, project=True)
    assert where.project is not None
    (where.home / ".claude").mkdir()
    (where.project / ".claude").symlink_to("../.claude")
    assert "leads out of the project" in refused(claude, where, tmp_path)


def test_a_file_in_the_way_is_left(tmp_path: Path) -> None:
    where = site(tmp_path)
    cline = named("cline")
    path = where.home / ".cline" / "hooks" / "PostToolUse"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\nmine\n")
    assert "not a file of ckpt" in refused(cline, where, tmp_path)
    assert standing.examine(cline, where).state == "none"
    assert installing.uninstall(cline, where).changes == []


def test_codex_hooks_go_where_the_person_keeps_theirs(tmp_path: Path) -> None:
    where = site(tmp_path)
    path = where.home / ".codex" / "config.toml"
    path.parent.mkdir()
    text = 'model = "x"\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "say done"\n'
    path.write_text(text)
    installing.install(codex, where, caller(tmp_path))
    assert not (path.parent / "hooks.json").exists()
    assert standing.examine(codex, where).where == [str(path)]
    assert installing.install(codex, where, caller(tmp_path)).changes == []
    installing.uninstall(codex, where)
    assert path.read_text() == text
    path.write_text('[hooks.state.x]\ntrusted_hash = "y"\n')  # Codex's own note, no hook
    installing.install(codex, where, caller(tmp_path))
    assert standing.examine(codex, where).where == [str(path.parent / "hooks.json")]


def test_how_it_stands(tmp_path: Path) -> None:
    where = site(tmp_path)
    called = caller(tmp_path)
    assert not standing.present(claude, where)
    installing.install(claude, where, called)
    assert standing.present(claude, where)
    path = where.home / ".claude" / "settings.json"
    text = path.read_text()
    path.write_text(text.replace('"timeout": 60', '"timeout": 61'))
    assert standing.examine(claude, where).state == "outdated"
    path.write_text(text)
    Path(called.path).unlink()
    stands = standing.examine(claude, where)
    assert (stands.state, called.path in stands.why) == ("broken", True)
    path.write_text("{")
    assert standing.examine(claude, where).state == "unreadable"
    path.write_text('{"disableAllHooks": true}')
    assert standing.switched_off(claude, where) == [f"{path}: disableAllHooks is true: no hook runs"]
    path.write_text('{"disableAllHooks": 1}')
    assert standing.switched_off(claude, where) == []


@pytest.mark.parametrize("recipe", [claude, hermes], ids=lambda r: r.name)
@pytest.mark.parametrize("how", [at_verbs, at_changes])
@pytest.mark.parametrize("act", ["install", "uninstall"])
def test_cut_at_every_point(tmp_path: Path, recipe: Recipe, how: object, act: str) -> None:
    n = 0
    while True:
        n += 1 if how is at_verbs else 3
        base = tmp_path / str(n)
        os.environ["CKPT_HOME"] = str(base / "state")
        where = site(base)
        configured(recipe, base)
        was = contents(where.home)
        called = caller(base)
        if act == "uninstall":
            installing.install(recipe, where, called)
        there = contents(where.home)
        work = partial(installing.install, recipe, where, called)
        if act == "uninstall":
            work = partial(installing.uninstall, recipe, where)
        killed = cut(work, n, how)  # type: ignore[arg-type]
        for part in recipe.parts(recipe, where, called):
            if isinstance(part, Merged):  # the file is one or the other, never less
                now = part.path.read_bytes()
                standing.examine(recipe, where)
                assert now in (was[str(part.path.relative_to(where.home))][1], *(c for _, c in there.values())) or (
                    act == "install" and standing.examine(recipe, where).state in ("installed", "outdated")
                )
            elif part.path.exists():
                assert isinstance(part, Owned)
                assert part.path.read_bytes() == part.content
        if n % 2:
            installing.install(recipe, where, called)
            assert standing.examine(recipe, where).state == "installed"
        installing.uninstall(recipe, where)
        assert contents(where.home) == was
        if not killed:
            break
    assert n > 8


def test_a_failure_in_the_middle_takes_back_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from checkpointer import disk

    where = site(tmp_path)
    configured(claude, tmp_path)
    was = contents(where.home)
    real = disk.rename

    def full(src: object, dst: object, **more: object) -> None:
        if str(dst).endswith("/settings.json"):
            raise OSError(28, "No space left on device", str(dst))
        real(src, dst, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(disk, "rename", full)
    with pytest.raises(Unconfigurable, match="No space left"):
        installing.install(claude, where, caller(tmp_path))
    assert contents(where.home) == was
    assert ledger.everything() == []


def test_a_change_by_somebody_else_in_between_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = site(tmp_path)
    configured(claude, tmp_path)
    path = where.home / ".claude" / "settings.json"
    real = ledger.save

    def meanwhile(installed: ledger.Installed) -> None:
        path.write_text('{"theirs": 1}')
        real(installed)

    monkeypatch.setattr(ledger, "save", meanwhile)
    with pytest.raises(Unconfigurable, match="somebody else"):
        installing.install(claude, where, caller(tmp_path))
    assert path.read_text() == '{"theirs": 1}'


def test_a_project_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    where = site(tmp_path, project=True)
    assert where.project is not None
    installing.install(claude, where, Caller())
    shutil.rmtree(where.project)
    installing.uninstall(claude, where)
    assert ledger.everything() == []
    assert not where.project.exists()


def test_names_and_their_suggestions() -> None:
    assert named("Claude Code") is claude
    assert named("cursor-agent") is cursor
    with pytest.raises(Usage, match="did you mean claude"):
        named("claud")
