# A guarded agent in one command, and what it then runs. Read by ../walk.sh, after the files before it.

say "From nothing to a guarded agent: one command"
mkdir -p "$scratch/first/src" "$scratch/person/.ssh"
echo 'PRIVATE KEY' > "$scratch/person/.ssh/id_ed25519"
cd "$scratch/first"
git init -q .
printf 'test:\n\t@echo 1 test passed\n' > Makefile
echo 'API_KEY=hunter2' > .env
try 0 person byleave setup --yes --agent claude-code

say "What the agent then runs, through its hook: confined, asked about, or refused with a reason"
try 0 person python "$demo/agent.py" 'cd src && pwd' 'make test' 'cat .env' \
  'echo "d=.; cat \${d}env; ls ~/\${d}s*/; touch ~/made" > look.sh; sh look.sh' 'curl -sS http://example.org/' \
  'git push' 'byleave outside -- npm install left-pad' 'rm -rf ~'
try 0 person ls -A "$scratch/person"
try 0 person byleave audit list
cd "$scratch/project"
