"""The ignore rules are git's: the same line of the same file decides about every path."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ignoretree import (
    Tree,
    a_path,
    check_ignore,
    content,
    git,
    grow,
    line,
    make_git,
    place,
    put,
    trees,
    walk,
    write_rules,
)

from checkpointer.workspace.rules.ignore import Rules

ANY_NAME = b"\x7f" * 9
Decision = tuple[bytes, int, bytes] | None


def _decisions(rules: Rules, root: bytes, paths: list[bytes]) -> dict[bytes, Decision]:
    found: dict[bytes, Decision] = {}
    for path in paths:
        origin = rules.explain(path, os.path.isdir(os.path.join(root, path)))
        found[path] = None if origin is None else (origin.source, origin.line, origin.pattern)
        ignored = origin is not None and not origin.negative
        assert rules.ignored(path, os.path.isdir(os.path.join(root, path))) == ignored, path
    return found


def _walked(rules: Rules, root: bytes, *, by_descriptor: bool) -> list[bytes]:
    """What a scan would find: every file and link that is not ignored."""
    found = []
    waiting = [b""]
    while waiting:
        directory = waiting.pop()
        fd = os.open(os.path.join(root, directory), os.O_RDONLY)
        try:
            names = [os.fsencode(n) for n in os.listdir(fd)]
            here = rules.at(directory, fd=fd, names=names) if by_descriptor else rules.at(directory)
        finally:
            os.close(fd)
        for name in names:
            path = os.path.join(directory, name)
            is_dir = os.path.isdir(os.path.join(root, path))
            if name != b".git" and not here.ignored(name, is_dir):
                (waiting if is_dir else found).append(path)
    return sorted(found)


@given(trees())
@settings(max_examples=120)
def test_the_same_line_decides_as_for_git(tree: Tree) -> None:
    with place() as (base, environment):
        root = base + b"/w"
        make_git(root + b"/.git")
        grow(root, tree.files)
        write_rules(root, tree.rules)
        paths = walk(root)
        decided = check_ignore(root, environment, paths)
        assert _decisions(Rules(root, environment=environment), root, paths) == decided


@given(st.lists(line, min_size=40, max_size=40), st.lists(a_path, min_size=12, max_size=25))
@settings(max_examples=25)
def test_each_pattern_matches_what_it_matches_for_git(patterns: list[bytes], paths: list[bytes]) -> None:
    with place() as (base, environment):
        root = base + b"/w"
        make_git(root + b"/.git")
        for i, pattern in enumerate(patterns):
            put(root + b"/%d/.gitignore" % i, pattern)
        asked = sorted({b"%d/%s" % (i, p) for i in range(len(patterns)) for p in paths})
        decided = check_ignore(root, environment, asked)
        assert _decisions(Rules(root, environment=environment), root, asked) == decided


@given(trees(), content, content)
@settings(max_examples=50)
def test_a_walk_finds_what_git_lists(tree: Tree, exclude: bytes, excludes_file: bytes) -> None:
    with place() as (base, environment):
        root = base + b"/w"
        make_git(root + b"/.git")
        grow(root, tree.files)
        write_rules(root, tree.rules)
        put(root + b"/.git/info/exclude", exclude)
        put(base + b"/home/.config/git/ignore", excludes_file)
        listed = git(root, environment, "ls-files", "-o", "-z", "--exclude-standard").split(b"\0")[:-1]
        for by_descriptor in (True, False):
            assert _walked(Rules(root, environment=environment), root, by_descriptor=by_descriptor) == sorted(listed)


@given(trees(), content)
@settings(max_examples=40)
def test_rules_of_a_checkpoint_answer_like_the_same_files(tree: Tree, own: bytes) -> None:
    with place() as (base, environment):
        root = base + b"/w"
        grow(root, tree.files)
        write_rules(root, tree.rules)
        put(root + b"/.ckptignore", own)
        paths = walk(root)
        files = {p: Path(os.fsdecode(root), os.fsdecode(p)).read_bytes() for p in paths if p.endswith(b"ignore")}
        elsewhere = base + b"/empty"
        os.mkdir(elsewhere)
        kept = Rules(elsewhere, read=files.get, environment=environment)
        assert _decisions(kept, root, paths) == _decisions(Rules(root, environment=environment), root, paths)


@given(trees(), content)
@settings(max_examples=40)
def test_a_workspace_inside_a_work_tree_obeys_the_files_above_it(tree: Tree, above: bytes) -> None:
    """As git does, as long as these do not ignore the whole workspace."""
    with place() as (base, environment):
        top = base + b"/w"
        root = top + b"/in/side"
        make_git(top + b"/.git")
        put(top + b"/.gitignore", above)
        put(top + b"/in/.gitignore", above)
        for is_dir in (True, False):
            put(root + b"/" + (ANY_NAME + b"/x" if is_dir else ANY_NAME), b"")
            whole = check_ignore(top, environment, [b"in", b"in/side", b"in/side/" + ANY_NAME])
            if any(line is not None and not line[2].startswith(b"!") for line in whole.values()):
                return
            shutil.rmtree(root)
        os.mkdir(root)
        grow(root, tree.files)
        write_rules(root, tree.rules)
        rules = Rules(root, environment=environment)
        decided = check_ignore(top, environment, [b"in/side/" + p for p in walk(root)])
        for path in walk(root):
            origin = rules.explain(path, os.path.isdir(os.path.join(root, path)))
            line = decided[b"in/side/" + path]
            assert (None if origin is None else origin.pattern) == (None if line is None else line[2]), path


@pytest.mark.parametrize(
    "ignoring",
    [
        *(b"*", b"/in/", b"in", b"side", b"/in/side/", b"in/*", b"*\n!.gitignore", b"**/side", b"*\n!in\n!*/side"),
        *(b"/in/side/*\n!/in/side/.gitkeep", b"/in/**", b"/in/side/**", b"*/\n!/in/\n!side"),
    ],
)
def test_a_workspace_is_never_ignored_itself(ignoring: bytes) -> None:
    with place() as (base, environment):
        make_git(base + b"/w/.git")
        put(base + b"/w/.gitignore", ignoring + b"\n*.log\n")
        root = base + b"/w/in/side"
        put(root + b"/.gitignore", b"*.tmp\n")
        rules = Rules(root, environment=environment)
        assert not rules.ignored(b"x.py")
        assert not rules.ignored(b"d", True)
        assert rules.ignored(b"x.log")
        assert rules.ignored(b"d/x.tmp")


def test_without_git_the_files_are_honoured_all_the_same() -> None:
    with place() as (base, environment):
        put(base + b"/w/.gitignore", b"*.o\n")
        put(base + b"/w/d/.gitignore", b"!a.o\n")
        put(base + b"/home/.config/git/ignore", b"*~\n")
        rules = Rules(base + b"/w", environment=environment)
        answers = [rules.ignored(p) for p in (b"a.o", b"d/a.o", b"d/b.o", b"d/x~", b"x")]
        assert answers == [True, False, True, True, False]


def test_a_file_above_without_git_does_not_count() -> None:
    with place() as (base, environment):
        put(base + b"/.gitignore", b"*\n")
        os.mkdir(base + b"/w")
        assert not Rules(base + b"/w", environment=environment).ignored(b"x")


class TestCkptignore:
    def test_it_wins_over_every_rule_of_git_at_any_depth(self) -> None:
        with place() as (base, environment):
            root = base + b"/w"
            make_git(root + b"/.git")
            put(root + b"/.git/info/exclude", b"*.key\n")
            put(root + b"/.gitignore", b".env\n/data/\n")
            put(root + b"/d/.gitignore", b".env\nout\n")
            put(root + b"/.ckptignore", b"!.env\n!*.key\nbig\n")
            put(root + b"/d/e/.ckptignore", b"!big\n.env\n")
            rules = Rules(root, environment=environment)
            ours = [b".env", b"d/.env", b"a.key", b"d/a.key", b"d/e/big"]
            others = [b"big", b"d/big", b"d/out", b"d/e/.env", b"data/x"]
            assert [p for p in ours + others if not rules.ignored(p)] == ours
            origin = rules.explain(b"d/.env")
            assert origin is not None
            assert origin == (b".ckptignore", 1, b"!.env", True)

    def test_below_an_ignored_directory_only_the_directory_itself_can_be_brought_back(self) -> None:
        with place() as (base, environment):
            put(base + b"/w/.gitignore", b"secrets/\nmore/\n")
            put(base + b"/w/.ckptignore", b"!secrets/x\n!more\n")
            rules = Rules(base + b"/w", environment=environment)
            assert rules.ignored(b"secrets/x")
            assert not rules.ignored(b"more/x")

    @given(trees(), content)
    @settings(max_examples=40)
    def test_it_is_read_as_git_reads_a_gitignore(self, tree: Tree, above: bytes) -> None:
        """A tree ruled by `.ckptignore` alone is one ruled by `.gitignore` alone."""
        with place() as (base, environment):
            root = base + b"/w"
            grow(root, tree.files)
            write_rules(root, tree.rules)
            paths = [p for p in walk(root) if not p.endswith(b".gitignore")]
            before = [Rules(root, environment=environment).ignored(p, os.path.isdir(root + b"/" + p)) for p in paths]
            for directory in tree.rules:
                name = os.path.join(root, directory, b".gitignore")
                if os.path.exists(name):
                    os.rename(name, os.path.join(root, directory, b".ckptignore"))
            rules = Rules(root, environment=environment)
            assert [rules.ignored(p, os.path.isdir(root + b"/" + p)) for p in paths] == before


class TestNested:
    @given(trees(), content, content, content)
    @settings(max_examples=40)
    def test_a_nested_repository_has_its_own_rules(
        self, tree: Tree, outer: bytes, exclude: bytes, excludes_file: bytes
    ) -> None:
        """In it all is as git there says; whether it is ignored as a whole is for the rules around it."""
        with place() as (base, environment):
            root = base + b"/w"
            inner = root + b"/sub/nest"
            make_git(root + b"/.git")
            make_git(inner + b"/.git")
            grow(inner, tree.files)
            write_rules(inner, tree.rules)
            put(root + b"/.gitignore", outer)
            put(root + b"/.git/info/exclude", b"*.o\n")
            put(inner + b"/.git/info/exclude", exclude)
            put(base + b"/home/.config/git/ignore", excludes_file)
            rules = Rules(root, environment=environment)
            decided = check_ignore(root, environment, [b"sub", b"sub/nest"])
            assert _decisions(rules, root, [b"sub", b"sub/nest"]) == decided
            whole = rules.ignored(b"sub/nest", True)
            paths = walk(inner)
            for path, line in check_ignore(inner, environment, paths).items():
                ignored = whole or (line is not None and not line[2].startswith(b"!"))
                assert rules.ignored(b"sub/nest/" + path, os.path.isdir(inner + b"/" + path)) == ignored, path

    def test_our_own_rules_go_on_into_it(self) -> None:
        with place() as (base, environment):
            make_git(base + b"/w/nest/.git")
            put(base + b"/w/nest/.gitignore", b".env\n")
            put(base + b"/w/.ckptignore", b"!.env\n/nest/big\n")
            rules = Rules(base + b"/w", environment=environment)
            assert not rules.ignored(b"nest/.env")
            assert rules.ignored(b"nest/big")

    def test_submodules_and_worktrees_keep_their_excludes_elsewhere(self) -> None:
        with place() as (base, environment):
            who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"]
            for name in (b"/origin", b"/w"):
                os.mkdir(base + name)
                git(base + name, environment, "init", "-q")
                git(base + name, environment, *who, "commit", "-q", "--allow-empty", "-m", "first")
            root = base + b"/w"
            git(root, environment, *who, "submodule", "--quiet", "add", base + b"/origin", "module")
            git(root, environment, *who, "worktree", "add", "-q", "tree")
            put(root + b"/.git/info/exclude", b"*.outer\n")
            put(root + b"/.git/modules/module/info/exclude", b"*.module\n")
            paths = [b"x.outer", b"x.module"]
            for where, ignored in ((b"", [True, False]), (b"module/", [False, True]), (b"tree/", [True, False])):
                rules = Rules(root, environment=environment)
                assert [rules.ignored(where + p) for p in paths] == ignored
                assert [Rules(root + b"/" + where, environment=environment).ignored(p) for p in paths] == ignored
                decided = check_ignore(root + b"/" + where, environment, paths)
                assert [decided[p] is not None for p in paths] == ignored

    def test_what_only_looks_like_a_repository_is_none(self) -> None:
        with place() as (base, environment):
            put(base + b"/w/.gitignore", b"*.o\n")
            os.makedirs(base + b"/w/a/.git/objects")
            put(base + b"/w/b/.git", b"gitdir: ../nowhere\n")
            put(base + b"/w/c/.git", b"some text\n")
            rules = Rules(base + b"/w", environment=environment)
            assert all(rules.ignored(d + b"/x.o") for d in (b"a", b"b", b"c"))


class TestIdentity:
    @given(st.dictionaries(st.sampled_from([b"", b"a", b"a/b", b"c"]), content), st.data())
    @settings(max_examples=40)
    def test_equal_identity_means_equal_answers(self, files: dict[bytes, bytes], data: st.DataObject) -> None:
        places = st.sampled_from([b".gitignore", b"a/.gitignore", b"a/.ckptignore", b".ckptignore", b"c/.gitignore"])
        changed = data.draw(st.dictionaries(places, st.one_of(st.none(), content)))
        with place() as (base, environment):
            root = base + b"/w"
            os.makedirs(root)
            first: dict[bytes, bytes] = {os.path.join(d, b".gitignore"): text for d, text in files.items()}
            second = {p: text for p, text in (first | changed).items() if text is not None}
            before = Rules(root, read=first.get, environment=environment)
            after = Rules(root, read=second.get, environment=environment)
            for directory in (b"", b"a", b"a/b", b"a/b/c", b"c"):
                one, two = before.at(directory), after.at(directory)
                above = {os.path.join(d, n) for d in (b"", b"a", b"a/b", b"c") for n in (b".gitignore", b".ckptignore")}
                above = {p for p in above if (directory + b"/").startswith(os.path.dirname(p) + b"/") or b"/" not in p}
                same = all(first.get(p) == second.get(p) for p in above)
                assert (one.identity == two.identity) == same
                names = [b"a", b"b", b"a.o", b"build", b"c"]
                if one.identity == two.identity:
                    assert [one.ignored(n, True) for n in names] == [two.ignored(n, True) for n in names]

    def test_every_source_counts(self) -> None:
        with place() as (base, environment):
            root = base + b"/w/sub"
            nest = root + b"/nest"
            make_git(base + b"/w/.git")
            make_git(nest + b"/.git")

            def identities() -> tuple[bytes, bytes]:
                rules = Rules(root, environment=environment)
                return rules.at(b"").identity, rules.at(b"nest").identity

            before = identities()
            assert identities() == before
            both, inner = (True, True), (False, True)
            for file, change in (
                (base + b"/w/.gitignore", both),
                (base + b"/w/.git/info/exclude", both),
                (base + b"/home/.config/git/ignore", both),
                (root + b"/.gitignore", both),
                (root + b"/.ckptignore", both),
                (nest + b"/.gitignore", inner),
                (nest + b"/.ckptignore", inner),
                (nest + b"/.git/info/exclude", inner),
            ):
                put(file, b"x")
                after = identities()
                assert (before[0] != after[0], before[1] != after[1]) == change, file
                before = after


def test_a_pattern_made_to_be_slow_is_not() -> None:
    with place() as (base, environment):
        lines = [b"*a" * 30 + b"b", b"a*" * 40 + b"/" + b"*a" * 40 + b"c", b"**/a/" * 20 + b"x", b"[a-z]*" * 40 + b"!"]
        put(base + b"/w/.gitignore", b"\n".join(lines))
        started = time.process_time()
        rules = Rules(base + b"/w", environment=environment)
        assert not rules.ignored(b"a" * 250)
        assert not rules.ignored(b"/".join([b"a" * 250, b"a" * 250]))
        assert not rules.ignored(b"/".join([b"a"] * 500))
        assert time.process_time() - started < 3


def test_a_tree_deeper_than_any_path_name() -> None:
    with place() as (base, environment):
        root = base + b"/w"
        put(root + b"/.gitignore", b"*.o\n/" + b"d" * 100 + b"/**/x\n")
        fd = os.open(root, os.O_RDONLY)
        for _ in range(60):
            os.mkdir(b"d" * 100, dir_fd=fd)
            below = os.open(b"d" * 100, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        written = os.open(b".gitignore", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
        os.write(written, b"!a.o\n")
        os.close(written)
        os.close(fd)
        deep = b"/".join([b"d" * 100] * 60)
        rules = Rules(root, environment=environment)
        answers = [rules.ignored(deep + b"/" + name) for name in (b"a.o", b"b.o", b"x", b"y")]
        assert answers == [False, True, True, False]
