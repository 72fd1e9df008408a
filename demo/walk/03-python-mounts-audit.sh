# The SDK, mounts, the guard in Python, and the audit log. Read by ../walk.sh, after the files before it.

say "9. The same rules inside a tool, through the SDK"
try 0 python - <<'PYTHON'
from byleave.sdk import Context, FsAccessError

access = {"fs": [{"path": "src", "read": True}]}
context = Context.from_tree({"root": ".", "action": "run", "access": access})
print("may read", context.check_read("src/main.rs").rsplit("/", 2)[-2:])
try:
    context.check_update("src/main.rs")
except FsAccessError as error:
    print(error)
PYTHON

say "10. A way out of the workspace: link, grant and approval, together or not at all"
try 10 byleave mount --no-input fork=../elsewhere
try 0 byleave mount --yes editor:fork=../elsewhere:rw
try 0 byleave check update fork/notes.txt --tool editor
try 20 byleave check update fork/notes.txt --tool reader
mkdir "$scratch/evil" && ln -sfn "$scratch/evil" fork
try 20 byleave check update fork/notes.txt --tool editor
try 0 byleave approvals list
ln -sfn "$scratch/elsewhere" fork
try 0 byleave unmount --yes fork

say "11. A program of yours asks the guard; every answer is recorded before it leaves"
try 0 python - <<'PYTHON'
import byleave
from byleave.workspace.file_effects import read_file

with byleave.open_guard(door="demo") as guard:
    bot = byleave.Who("bot", "verified")
    answer = guard.check({"kind": "read", "path": "src/main.rs", "tool": "reader"}, bot)
    print(answer.verdict.decision, guard.perform(answer, read_file))
    answer = guard.check({"kind": "read", "path": ".env", "tool": "reader"}, bot)
    print(answer.verdict.decision, answer.verdict.reason)
    answer = guard.check({"kind": "command", "command": "curl -H 'Authorization: Bearer s3cr3t' example.org"}, bot)
    print(answer.verdict.decision, answer.verdict.reason)
PYTHON
try 0 byleave audit list
try 0 byleave audit list --decision deny --agent bot --json
try 0 byleave audit verify

say "12. A record of the audit log is changed"
try 0 python - <<'PYTHON'
import glob, os, sqlite3

(table,) = glob.glob(f"{os.environ['BYLEAVE_HOME']}/workspaces/*/audit.db")
connection = sqlite3.connect(table)
connection.execute("UPDATE records SET record = replace(record, '\"deny\"', '\"allow\"')")
connection.commit()
PYTHON
try 1 byleave audit verify
