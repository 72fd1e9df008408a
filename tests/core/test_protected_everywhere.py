"""Protected places by their names: at every depth of the workspace, in the home directory, and outside."""

import pytest

from byleave.core.fs_rules import FsTarget
from byleave.core.protected import Protected, Protection, builtin_places, system_places

KEPT = [Protection("bin", "/home/u/tools/bin", final=False), *system_places()]
PLACES = Protected(builtin_places(), ["/home/u/.config/byleave"], KEPT)


def found(path: str, *, root: str = "/home/u/ws", directory: bool = False, subtree: bool = False) -> str | None:
    relative = path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else "" if path == root else None
    protection = PLACES.of(FsTarget(path, relative, directory=directory), subtree=subtree)
    return None if protection is None else f"{protection.path} {'guarded' if protection.final else 'protected'}"


AT_EVERY_DEPTH = [
    ("/home/u/ws/sub/byleave.toml", "sub/byleave.toml guarded"),
    ("/home/u/ws/sub/.byleave", "sub/.byleave guarded"),
    ("/home/u/ws/a/b/.BYLEAVE/config.toml", "a/b/.BYLEAVE guarded"),
    ("/home/u/ws/sub/.claude/settings.json", "sub/.claude/settings.json guarded"),
    ("/home/u/ws/sub/.claude/agents/x.md", "sub/.claude protected"),
    ("/home/u/ws/sub/.git/hooks/pre-commit", "sub/.git/hooks protected"),
    ("/home/u/ws/.git/worktrees/w/commondir", ".git/worktrees/w/commondir protected"),
    ("/home/u/ws/.git/worktrees/w/config.worktree", ".git/worktrees/w/config.worktree protected"),
    ("/home/u/ws/.git/worktrees/w/HEAD", None),
    ("/home/u/ws/.git/modules/m/config", ".git/modules/m/config protected"),
    ("/home/u/ws/.git/modules/a/b/hooks/post-checkout", ".git/modules/a/b/hooks protected"),
    ("/home/u/ws/.git/modules/a/modules/b/config", ".git/modules/a/modules/b/config protected"),
    ("/home/u/ws/.git/info/attributes", ".git/info/attributes protected"),
    ("/home/u/ws/.git/info/exclude", None),
    ("/home/u/ws/.git/refs/heads/config", None),
    ("/home/u/ws/.qwen/settings.json", ".qwen/settings.json guarded"),
    ("/home/u/ws/.vibe/config.toml", ".vibe protected"),
    ("/home/u/ws/.zed/tasks.json", ".zed protected"),
    ("/home/u/ws/opencode.json", "opencode.json protected"),
    ("/home/u/ws/pkg/opencode.jsonc", "pkg/opencode.jsonc protected"),
    ("/home/u/ws/.sl/config", ".sl/config protected"),
    ("/home/u/ws/sub/_darcs/prefs/defaults", "sub/_darcs/prefs protected"),
    ("/home/u/ws/.grok/settings.json", ".grok protected"),
    ("/home/u/ws/gptme.toml", "gptme.toml protected"),
    ("/home/u/ws/my.code-workspace", "my.code-workspace protected"),
    ("/home/u/ws/.venv/lib/python3.11/site-packages/x.pth", ".venv/lib/python3.11/site-packages/x.pth protected"),
    ("/home/u/ws/models/resnet.pth", None),
    ("/home/u/ws/package.json", None),
    ("/home/u/ws/Makefile", None),
    ("/home/u/ws/AGENTS.md", None),
    ("/home/u/ws/.github/workflows/ci.yml", None),
    ("/home/u/ws/.github/hooks/x.json", ".github/hooks guarded"),
    ("/home/u/ws/src/config", None),
    ("/home/u/ws/hooks/x", None),
]
OUTSIDE = [
    ("/home/u/.bashrc", "/home/u/.bashrc protected"),
    ("/home/u/.zshrc", "/home/u/.zshrc protected"),
    ("/home/u/.config/fish/conf.d/x.fish", "/home/u/.config/fish protected"),
    ("/home/u/.claude/settings.json", "/home/u/.claude/settings.json guarded"),
    ("/home/u/.claude.json", "/home/u/.claude.json protected"),
    ("/home/u/.codex/AGENTS.md", "/home/u/.codex protected"),
    ("/home/u/.gemini/x", "/home/u/.gemini protected"),
    ("/home/u/.config/opencode/opencode.json", "/home/u/.config/opencode protected"),
    ("/home/u/.config/opencode/plugins/x.js", "/home/u/.config/opencode/plugins guarded"),
    ("/home/u/.gitconfig", "/home/u/.gitconfig protected"),
    ("/home/u/.config/git/config", "/home/u/.config/git protected"),
    ("/home/u/.ssh/authorized_keys", "/home/u/.ssh protected"),
    ("/home/u/.npmrc", "/home/u/.npmrc protected"),
    ("/home/u/.config/pip/pip.conf", "/home/u/.config/pip protected"),
    ("/home/u/.config/systemd/user/x.service", "/home/u/.config/systemd protected"),
    ("/home/u/.config/autostart/x.desktop", "/home/u/.config/autostart protected"),
    ("/home/u/.local/bin/ls", "/home/u/.local/bin protected"),
    ("/home/u/tools/bin/ls", "/home/u/tools/bin protected"),
    ("/home/v/.profile", "/home/v/.profile protected"),
    ("/var/spool/cron/crontabs/u", "/var/spool/cron protected"),
    ("/etc/profile.d/x.sh", "/etc protected"),
    ("/srv/other/byleave.toml", "/srv/other/byleave.toml guarded"),
    ("/srv/other/.git/hooks/x", "/srv/other/.git/hooks protected"),
    ("/home/u/.config/other", None),
    ("/home/u/notes.txt", None),
    ("/srv/other/file", None),
]


@pytest.mark.parametrize(("path", "expected"), [*AT_EVERY_DEPTH, *OUTSIDE])
def test_a_name_is_protected_wherever_it_stands(path: str, expected: str | None) -> None:
    assert found(path) == expected


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("/home/u/.claude/worktrees/w", "src/x.py", None),
        ("/home/u/.claude/worktrees/w", ".claude/settings.json", ".claude/settings.json guarded"),
        ("/home/u/.config/fish", "config.fish", None),
        ("/home/u/.config", "fish/config.fish", "fish protected"),
        ("/srv/x/.git", "hooks/pre-commit", "hooks protected"),
        ("/usr/src/app", "main.c", None),
        ("/etc/nixos", "configuration.nix", None),
        ("/home/u/.config/byleave", "config.toml", "/home/u/.config/byleave guarded"),
        ("/home/u/tools/bin", "x", None),
        ("/home/u", "tools/bin/x", "/home/u/tools/bin protected"),
    ],
)
def test_only_a_final_place_protects_all_of_a_workspace_inside_it(root: str, path: str, expected: str | None) -> None:
    assert found(f"{root}/{path}", root=root) == expected


@pytest.mark.parametrize(
    ("path", "directory", "subtree", "expected"),
    [
        ("/home/u/ws/sub/.git", False, False, "sub/.git/config protected"),
        ("/home/u/ws/sub/.git", True, False, None),
        ("/home/u/ws/sub/.git", True, True, "sub/.git/config protected"),
        ("/home/u/ws/sub/.claude", True, True, "sub/.claude/settings.json guarded"),
        ("/home/u/ws/.cargo", False, False, ".cargo/bin protected"),  # a link there would decide what is in it
        ("/home/u/ws/.github", False, False, None),
        ("/home/u/ws/.gradle", True, True, None),  # a cache that people remove
        ("/home/u/ws/sub", True, True, None),
        ("/home/u/.config", True, True, "/home/u/.config/byleave guarded"),
    ],
)
def test_a_name_above_a_place_is_protected_by_what_would_become_of_it(
    *, path: str, directory: bool, subtree: bool, expected: str | None
) -> None:
    assert found(path, directory=directory, subtree=subtree) == expected


def test_the_number_of_places_does_not_slow_a_question_down() -> None:
    many = [Protection(f"p{n}", f"/opt/p{n}", final=False) for n in range(10_000)]
    target = FsTarget("/home/u/ws/a/b/c/d/e/f.txt", "a/b/c/d/e/f.txt")

    class Counting(dict[str, Protection]):
        probes = 0

        def get(self, key: str, default: Protection | None = None) -> Protection | None:  # type: ignore[override]
            Counting.probes += 1
            return super().get(key, default)

    places = Protected(builtin_places(), (), many)
    places._outside._at = Counting(places._outside._at)  # noqa: SLF001 -- counts the lookups instead of timing them
    assert places.of(target, subtree=False) is None
    assert Counting.probes == len(target.canonical.split("/"))
