"""A deny holds for every other name of what it denies: aliases, abbreviations, options in front, plumbing."""

from pathlib import Path
from typing import Any

import pytest

from byleave.policy.load import Workspace

ANYTHING = {"allow": {"any_command": True, "options": "any"}}
FORCED = [
    "git push --force",
    "git push -f",
    "git push origin +main",
    "git push origin +HEAD:main",
    "git push --forc",
    "git push --force-with-lease",
    "git push --mirror",
    "git -C . push --force",
    "git --no-pager push -f",
    "git push -uf origin x",
    "git push -qf",
    "git push origin main -f",
    "git -c a.b=c push -f",
    "git send-pack --force o main",
    "git http-push --force x",
    "git-push --force",
    "/usr/lib/git-core/git-push -f",
    "git --exec-path=/x push -f",
    "git --git-dir=.git push -f",
    "git --work-tree . push -f",
    "git -P push --force",
    "git push --force=x",
    'git push origin "+$b"',
    "git push $x",
    "git $x --force",
    'git push "$@"',
    "git push --no-verify --force",
    "GIT_DIR=x git push -f",
    "git push -- +main",
    "wrap git push -f",
    'git push origin "$x"',
    "git subtree push --force",
    "hub push -f",
]
BY_ARGUMENTS = [
    "npm publish",
    "npm pub",
    "npm publis",
    "npm --silent publish",
    "npm publish --dry-run",
    "npm -w x publish",
    "npm --workspace=x publish",
    "git push --force",
    "git --no-pager push --force",
    "git -C . push --force",
    "git push -q --force",
    "git push -f",
    "git push origin --force",
    "git push --quiet --force o",
    "git -c x.y=z push --force",
    "docker system prune",
    "docker system prune -f",
    "docker --debug system prune",
    "docker -D system prune -a",
    "docker --host x system prune",
    "docker -H tcp://x system prune -af",
    "docker system --help prune",
    "git push origin main --force",
    "corepack npm publish",
    "npx npm publish",
    "node /usr/lib/node_modules/npm/bin/npm-cli.js publish",
    "npm p$x",
    "npm $x",
    "git $x",
    "docker system $x",
    'docker "system" "prune"',
    "git push +main",
    "git push --force-with-lease",
]
PUBLISHED = [
    "npm publish",
    "npm pub",
    "npm publ",
    "npm publi",
    "npm publis",
    "npm pu",
    "npm --foo bar publish",
    "npm --auth-type web publish",
    "npm -w a publish",
    "npm --tag x publish",
    "npm --prefix d publish",
    "npm publish .",
    "npm --registry=x publish",
    "npm --registry x publish",
    "corepack npm publish",
    "npm exec npm publish",
    "npm exec -- npm publish",
    "npx -y npm publish",
    "npx npm@latest publish",
    "yarn npm publish",
    'npm "$x"',
    "npm --$x publish",
    "npm --loglevel silent publish",
    "npm -s publish",
    "npm PUBLISH",
    "n\\pm publish",
    "env npm publish",
    "pnpm exec npm publish",
    "volta run npm publish",
    "fnm exec npm publish",
    "nvm exec 18 npm publish",
    "asdf exec npm publish",
    "nodenv exec npm publish",
    "/usr/local/bin/npm publish",
    "./node_modules/.bin/npm publish",
    "node_modules/npm/bin/npm-cli.js publish",
    "npm.cmd publish",
]
DESTRUCTIVE = [
    "git --no-pager stash drop",
    "git -C . stash drop",
    "git stash -q drop",
    "git stash drop -q",
    "git stash clear",
    "git branch -D x",
    "git branch -df x",
    "git branch -d -f x",
    "git branch -fd x",
    "git branch --delete --force x",
    "git branch -d --force x",
    "git branch --del --forc x",
    "git -C . branch -D x",
    "docker rm x",
    "docker container rm x",
    "docker container remove x",
    "docker image rm x",
    "docker rmi x",
    "docker image remove x",
    "docker --log-level error system prune -f",
    "podman rm x",
    "podman system prune",
    "podman container rm x",
    "kubectl delete pod x",
    "kubectl -n x delete pod y",
    "kubectl --context x delete y",
    "kubectl replace --force -f x",
    "terraform destroy",
    "terraform apply -destroy",
    "terraform apply --destroy",
    "terraform -chdir=x destroy",
    "terraform apply -auto-approve -destroy",
    "tofu destroy",
    "git reset --hard",
    "git reset --har",
    "git -C x reset --hard",
    "git push origin :x",
    "git push origin --delete x",
    "git push -d origin x",
    "git push --prune",
    "git push --mirror",
    "git clean -fd",
    "git push origin +x",
    "git push --force-if-includes",
    "find . -delete",
    "find . -name x -delete",
    "rm -r x",
    "rm -f x",
    "rm -Rf x",
    "shred x",
    "dd if=a of=b",
    "truncate -s 0 x",
    "mkfs.ext4 x",
    "mkfs x",
    "nerdctl rm x",
]
PRIVILEGED = [
    "sudo id",
    "sg root -c id",
    "newgrp x",
    "su",
    "su -c id",
    "doas id",
    "pkexec id",
    "run0 id",
    "capsh --",
    "chmod 1 x",
    "/usr/bin/sudo id",
    "\\sudo id",
    "s$x id",
    "gosu root id",
    "systemctl stop x",
    "sudoedit x",
]
DENIES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "forced": ([{"command": "git", "subcommand": "push", "flags": ["--force"]}], FORCED),
    "by_arguments": (
        [
            {"command": "npm", "args": ["publish", "**"]},
            {"command": "git", "args": ["push", "--force", "**"]},
            {"command": "docker", "args": ["system", "prune", "**"]},
        ],
        BY_ARGUMENTS,
    ),
    "published": ([{"command": "npm", "subcommand": "publish"}], PUBLISHED),
    "destructive": ([{"group": "destructive"}], DESTRUCTIVE),
    "privileged": ([{"group": "privilege"}], PRIVILEGED),
}
CASES = [(kind, command) for kind, (_, commands) in DENIES.items() for command in commands]


@pytest.mark.parametrize(("kind", "command"), CASES)
def test_another_spelling_of_what_is_denied_is_not_allowed(kind: str, command: str, tmp_path: Path) -> None:
    denies = [{"deny": deny} for deny in DENIES[kind][0]]
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [*denies, ANYTHING]})
    assert policy.decide({"kind": "command", "command": command}).decision.word in ("ask", "deny")


HARMLESS = {
    "forced": ["git push", "git push -u origin x", "git push origin main:main", 'git commit -m "git push --force"'],
    "by_arguments": [
        "npm pack",
        "npm run publish",
        "git push origin main",
        "git pull",
        "docker system df",
        "docker ps",
    ],
    "published": ["npm pack", "npm view x", "npm i", "npm ping", "npm run publish:dry", "npm install p"],
    "destructive": [
        *("git stash", "git stash pop", "git branch -d x", "git branch x", "docker ps", "docker container ls"),
        *("git push", "terraform apply", "kubectl apply -f x", "git reset HEAD~1", "rm x", "docker image ls"),
    ],
    "privileged": ["id", "ls", "docker ps", "git status"],
}


@pytest.mark.parametrize(("kind", "command"), [(kind, each) for kind, some in HARMLESS.items() for each in some])
def test_what_only_looks_alike_is_allowed(kind: str, command: str, tmp_path: Path) -> None:
    denies = [{"deny": deny} for deny in DENIES[kind][0]]
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [*denies, ANYTHING]})
    assert policy.decide({"kind": "command", "command": command}).decision.word == "allow"


def test_an_abbreviation_does_not_make_an_allow_wider(tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{"allow": {"command": "npm", "subcommand": "publish"}}]})
    assert policy.decide({"kind": "command", "command": "npm pub"}).decision.word == "ask"


def test_an_argument_list_that_allows_is_taken_as_it_stands(tmp_path: Path) -> None:
    rules = [{"allow": {"command": "git", "args": ["push", "--dry-run", "**"]}}]
    policy = Workspace(str(tmp_path)).compile_tree({"rules": rules})
    assert policy.decide({"kind": "command", "command": "git push origin --dry-run"}).decision.word == "ask"
