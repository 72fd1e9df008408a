# Tools that byleave runs. Read by ../walk.sh, after the files before it.

say "15. A tool that can touch nothing by itself: every effect is a request"
cat > tools.toml <<'TOML'
[tools.fs_modify_file]
source = "local"
runtime = "vfs"
command = ["byleave-tool", "fs_modify_file"]

[[tools.fs_modify_file.access.fs]]
path = "src"
read = true
write = true

[tools.count]
source = "local"
runtime = "vfs"
command = ["sh", "count.sh"]

[tools.stage]
source = "local"
runtime = "vfs"
stateful = true
command = ["sh", "stage.sh"]
TOML
cat > count.sh <<'SH'
read -r init
printf '%s\n' '{"jsonrpc": "2.0", "id": 1, "method": "fs.grep", "params": {"pattern": "fn "}}'
read -r found
printf '%s\n' '{"jsonrpc": "2.0", "id": 2, "method": "fs.write", "params": {"path": "out", "content": "x"}}'
read -r refused
cat src/main.rs >&2 || printf '%s\n' '{"jsonrpc": "2.0", "method": "result", "params": {"content": "nothing to see but by request"}}'
SH
cat > stage.sh <<'SH'
read -r init
printf '%s\n' '{"jsonrpc": "2.0", "method": "state", "params": {"type": "waiting", "question": {"id": "q", "text": "Stage it?"}}}'
read -r answer
printf '%s\n' '{"jsonrpc": "2.0", "method": "state", "params": {"type": "stopped", "result": "staged"}}'
SH
try 0 byleave call fs_modify_file '{"path": "src/main.rs", "patterns": [{"old": "main", "new": "start"}]}' --policy tools.toml
try 1 byleave call fs_modify_file '{"path": "tools.toml", "patterns": [{"old": "src", "new": "."}]}' --policy tools.toml
try 0 byleave call count --policy tools.toml
try 0 byleave audit list --tool count
printf '%s\n' '{"action": "spawn", "id": "h", "args": {}}' '{"action": "apply", "id": "h", "input": "y"}' > asks
try 0 byleave call stage --keep --policy tools.toml < asks
