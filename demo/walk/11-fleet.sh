# Two gateways on one database. Read by ../walk.sh, after the files before it.

say "22. Several gateways on one database: a yes at one counts at the others"
cd "$scratch/project" # the server of step 18 is there
quietly 0 env PYTHONPATH="$demo/../tests" python "$demo/fleet.py"
