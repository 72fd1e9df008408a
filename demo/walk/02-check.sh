# A policy for a project: trust, checks, what holds. Read by ../walk.sh, after the files before it.

say "1. Write a policy that fits the project"
try 0 byleave init

say "2. A project file is code that others wrote: until you trust it, it cannot grant anything"
try 2 byleave check read src/main.rs --tool reader
try 0 byleave trust --yes

say "3. Check, and see why (exit code: 0 allow, 10 ask, 20 deny)"
try 0 byleave check read src/main.rs --tool reader
try 20 byleave check read .env --tool reader
try 0 byleave check update src/main.rs --tool editor
try 20 byleave check update package.json --tool editor

say "4. Links, protected places and byleave's own files are not a way round"
try 20 byleave check read leak/secret --tool reader
try 20 byleave check create .git/hooks/pre-commit --tool builder
try 20 byleave check update byleave.toml --tool editor

say "5. Programs, hosts and variables"
try 0 byleave check spawn --tool builder -- npm test
try 20 byleave check spawn --tool builder -- npm publish
try 20 byleave check url https://api.example.com/repos --tool builder
try 20 byleave check env AWS_SECRET_ACCESS_KEY --tool builder

say "6. Shell commands, read as bash reads them"
cat > rules.toml <<'TOML'
[[rules]]
allow = { group = "read_only_git" }

[[rules]]
deny = { command = "git", subcommand = "push", flags = ["--force"] }
why = "force-push rewrites history"
TOML
try 0 byleave check --policy rules.toml command 'git log --oneline 2>/dev/null || git status'
try 20 byleave check --policy rules.toml command 'git status && env CI=1 git -C . push origin main -f'
try 10 byleave check --policy rules.toml command 'git log $(cat secrets)'
cat > files.toml <<'TOML'
[[rules]]
deny = { path = "**/.env" }
why = "it holds keys"

[[rules]]
allow = { any_command = true }
TOML
try 20 byleave check --policy files.toml command 'X=.env; cp "$PWD/$X" /tmp/x'
try 10 byleave check --policy files.toml command 'grep -r KEY .'
try 0 byleave check --policy files.toml command 'grep -r KEY src'

say "7. Many questions at once, for programs"
try 0 byleave check --batch <<'LINES'
{"id": 1, "action": {"kind": "read", "path": "src/main.rs", "tool": "reader"}}
{"id": 2, "action": {"kind": "delete", "path": "../elsewhere", "tool": "editor"}}
LINES

say "8. What holds, and where each rule was written"
try 0 byleave policy show
try 0 byleave doctor
