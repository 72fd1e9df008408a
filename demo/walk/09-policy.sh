# What a policy means: cases, mistakes, differences. Read by ../walk.sh, after the files before it.

say "20. What the policy itself means: its cases, its mistakes, and what an edit lets through"
cd "$scratch/first"
try 0 person byleave policy test -q
try 0 person byleave policy lint
cp byleave.toml before.toml
sed -i 's/^ask = { any = \[{ group = "publishing" }/allow = { any = [{ group = "publishing" }/' byleave.toml
try 1 person byleave policy diff before.toml byleave.toml --fail-on loosened
try 2 person byleave trust --no-input
cp before.toml byleave.toml
try 0 person byleave policy replay
try 0 person byleave audit summary
