# Between an editor and its agent, and in an agent's hook. Read by ../walk.sh, after the files before it.

say "16. Between an editor and its agent: what a rule decides needs no question"
cat > agent.toml <<'TOML'
[[rules]]
allow = { group = "read_only_git" }

[[rules]]
deny = { command = "rm", flags = ["-rf"] }
TOML
cat > agent.sh <<'SH'
read -r new
printf '%s\n' '{"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}'
for command in 'git status' 'rm -fr .git'; do
  printf '{"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": {"sessionId": "s", '
  printf '"toolCall": {"toolCallId": "%s", "kind": "execute", "rawInput": {"command": "%s"}}, ' "$command" "$command"
  printf '"options": [{"optionId": "y", "name": "Allow", "kind": "allow_once"}, '
  printf '{"optionId": "n", "name": "Reject", "kind": "reject_once"}]}}\n'
  read -r answer
  echo "the agent wanted to run $command and heard: $answer" >&2
done
SH
printf '{"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "%s", "mcpServers": []}}\n' "$PWD" > editor
mkfifo open
{ cat editor; exec sleep 30; } > open &
editor=$!
try 0 byleave acp --policy agent.toml -- sh agent.sh < open
kill $editor
try 0 byleave audit list --door acp

say "17. In an agent's own hook: the same policy, in the agent's own words"
printf '{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "%s", "tool_name": "Bash", ' "$PWD" > event
printf '"tool_input": {"command": "git status && rm -rf ."}}' >> event
try 0 byleave hook claude-code --policy agent.toml < event
