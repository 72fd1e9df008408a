# The resident service. Read by ../walk.sh, after the files before it.

say "19. The same answers in milliseconds: the resident service, which the first hook has started"
try 0 byleave service restart
cd "$scratch/first"
try 0 person python "$demo/agent.py" 'git status --short' 'rm -rf ~'
try 0 byleave service status
try 0 byleave service stop
