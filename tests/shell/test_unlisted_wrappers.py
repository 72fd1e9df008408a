"""A program that is not known to take its words as data may start the command that they spell."""

from pathlib import Path

import pytest

from byleave.policy.load import Workspace

RULES = [{"deny": {"command": "rm", "flags": ["-rf"]}}, {"allow": {"any_command": True, "options": "any"}}]

WRAPPED = [
    "frobnicate rm -rf src",
    "doas2 rm -rf src",
    "wrap 'rm -rf src'",
    "unshare rm -rf src",
    "setpriv --reuid 1 rm -rf src",
    "capsh -- -c 'rm -rf src'",
    "chpst -u x rm -rf src",
    "runuser -u x -- rm -rf src",
    "softlimit rm -rf src",
    "firejail rm -rf src",
    "proot rm -rf src",
    "fakeroot rm -rf src",
    "eatmydata rm -rf src",
    "ltrace rm -rf src",
    "rr record rm -rf src",
    "valgrind rm -rf src",
    "perf stat rm -rf src",
    "hyperfine 'rm -rf src'",
    "entr rm -rf src",
    "watchexec rm -rf src",
    "nodemon --exec 'rm -rf src'",
    "dotenv rm -rf src",
    "direnv exec . rm -rf src",
    "op run -- rm -rf src",
    "aws-vault exec p -- rm -rf src",
    "mise exec -- rm -rf src",
    "asdf exec rm -rf src",
    "rbenv exec rm -rf src",
    "bundle exec rm -rf src",
    "poetry run rm -rf src",
    "pipenv run rm -rf src",
    "uv run rm -rf src",
    "pdm run rm -rf src",
    "hatch run rm -rf src",
    "conda run rm -rf src",
    "nix-shell --run 'rm -rf src'",
    "guix shell -- rm -rf src",
    "distrobox enter -- rm -rf src",
    "toolbox run rm -rf src",
    "tmux new 'rm -rf src'",
    "screen -dm rm -rf src",
    "systemd-run rm -rf src",
    "cgexec -g x rm -rf src",
    "numactl rm -rf src",
    "taskset 1 rm -rf src",
    "chrt 1 rm -rf src",
    "ionice rm -rf src",
    "trickle rm -rf src",
    "proxychains rm -rf src",
    "torsocks rm -rf src",
    "unbuffer rm -rf src",
    "script -c 'rm -rf src'",
    "expect -c 'spawn rm -rf src'",
    "socat - EXEC:'rm -rf src'",
    "nc -e 'rm -rf src' h 1",
    "python3 -c \"import os; os.system('rm -rf src')\"",
    'python3 -c \'import subprocess as s; s.run(["rm","-rf","src"])\'',
    "perl -e 'system(\"rm -rf src\")'",
    "ruby -e '`rm -rf src`'",
    'node -e \'require("child_process").execSync("rm -rf src")\'',
    "make X='rm -rf src'",
    "vim -c ':!rm -rf src'",
    "git bisect run rm -rf src",
    "git submodule foreach rm -rf src",
    "npm exec -- rm -rf src",
    "npx rm -rf src",
    "yarn exec rm -rf src",
    "docker exec c rm -rf src",
    "kubectl exec p -- rm -rf src",
    "ssh h rm -rf src",
    'wrap "cd $x && rm -rf src"',
    "ld.so /bin/rm -rf src",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm -rf src",
    "start-stop-daemon --start --exec /bin/rm -- -rf src",
    "setarch x86_64 rm -rf src",
    "linux64 rm -rf src",
    "i386 rm -rf src",
    "catchsegv rm -rf src",
    "daemonize rm -rf src",
    "dtach -n x rm -rf src",
    "abduco -n x rm -rf src",
    "zellij run -- rm -rf src",
    "at now <<< 'rm -rf src'",
    "wrap --cmd=rm --args=-rf,src",
    "forever start -c 'rm -rf src' x",
    "pm2 start 'rm -rf src'",
    "concurrently 'rm -rf src'",
    "npm-run-all x 'rm -rf src'",
    "foreman run rm -rf src",
    "heroku local:run rm -rf src",
    "chamber exec x -- rm -rf src",
    "vault exec rm -rf src",
    "sops exec-env f 'rm -rf src'",
    "infisical run -- rm -rf src",
    "teller run -- rm -rf src",
    "envdir d rm -rf src",
    "envchain x rm -rf src",
    "s6-setuidgid u rm -rf src",
    "setuidgid u rm -rf src",
    "multilog rm -rf src",
    "execlineb -c 'rm -rf src'",
    "pixi run rm -rf src",
    "rye run rm -rf src",
    "moon run rm -rf src",
    "turbo run rm -rf src",
    "nx exec -- rm -rf src",
    "lerna exec -- rm -rf src",
    "pnpm exec rm -rf src",
    "pnpm -r exec rm -rf src",
    "pnpm dlx rm -rf src",
    "bunx rm -rf src",
    "deno task rm -rf src",
    "composer exec rm -rf src",
    "rake sh['rm -rf src']",
    "ansible localhost -m shell -a 'rm -rf src'",
    "salt-call cmd.run 'rm -rf src'",
    "fab x -- rm -rf src",
    "invoke x 'rm -rf src'",
    "just x 'rm -rf src'",
    "task x 'rm -rf src'",
    "gcloud compute ssh v --command 'rm -rf src'",
    "aws ssm start-session --parameters 'command=rm -rf src'",
    "fly ssh console -C 'rm -rf src'",
    "minikube ssh 'rm -rf src'",
    "multipass exec v -- rm -rf src",
    "lxc exec c -- rm -rf src",
    "incus exec c -- rm -rf src",
    "nerdctl exec c rm -rf src",
    "ctr run x y rm -rf src",
    "crictl exec c rm -rf src",
    "adb shell rm -rf src",
    "wsl rm -rf src",
    "cmd.exe /c rm -rf src",
    "osascript -e 'do shell script \"rm -rf src\"'",
    "open -a Terminal rm -rf src",
    "xterm -e rm -rf src",
    "gnome-terminal -- rm -rf src",
    "emacs --batch --eval '(shell-command \"rm -rf src\")'",
    "sqlite3 :memory: '.shell rm -rf src'",
    "psql -c '\\! rm -rf src'",
    "mysql -e '\\! rm -rf src'",
    "gdb -ex '!rm -rf src'",
    "less '+!rm -rf src' f",
    "man -P 'rm -rf src' ls",
    "flock x rm -rf src",
    "flock x -c 'rm -rf src'",
    "watch rm -rf src",
    "parallel rm -rf ::: src",
    "exec 3<<< 'rm -rf src'; sh <&3",
]


@pytest.mark.parametrize("command", WRAPPED)
def test_a_denied_command_behind_any_program_is_not_allowed(command: str, tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": RULES})
    assert policy.decide({"kind": "command", "command": command}).decision.word in ("ask", "deny")


DATA = [
    "echo rm -rf src",
    'printf "rm -rf"',
    'grep "rm -rf src" x',
    'rg "rm -rf" .',
    'git commit -m "rm -rf src"',
    'git log --grep="rm -rf"',
    'gh pr create --title "stop using rm -rf" --body "rm -rf src is gone"',
    "which rm",
    "man rm",
    "ls rm",
    "pytest -k rm",
    "mytool rm src",
    "npm run build",
    "make test",
]


@pytest.mark.parametrize("command", DATA)
def test_words_that_are_data_or_spell_no_denied_command_are_allowed(command: str, tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": RULES})
    assert policy.decide({"kind": "command", "command": command}).decision.word == "allow"


def test_a_rule_before_the_deny_still_allows_the_wrapper(tmp_path: Path) -> None:
    rules = [{"allow": {"command": "frobnicate"}}, *RULES]
    policy = Workspace(str(tmp_path)).compile_tree({"rules": rules})
    assert policy.decide({"kind": "command", "command": "frobnicate rm -rf src"}).decision.word == "allow"


def test_a_rule_that_mentions_files_too_holds_behind_a_wrapper(tmp_path: Path) -> None:
    either = {"any": [{"command": "rm", "flags": ["-rf"]}, {"path": "secrets/**"}]}
    policy = Workspace(str(tmp_path)).compile_tree({"rules": [{"ask": either}, RULES[1]]})
    assert policy.decide({"kind": "command", "command": "frobnicate rm -rf src"}).decision.word == "ask"


def test_a_name_repeated_too_often_to_be_followed_asks(tmp_path: Path) -> None:
    policy = Workspace(str(tmp_path)).compile_tree({"rules": RULES})
    command = "frobnicate " + "rm " * 5000 + "-x " * 100
    assert policy.decide({"kind": "command", "command": command}).decision.word == "ask"
