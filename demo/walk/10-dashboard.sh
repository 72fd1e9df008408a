# Questions answered in the dashboard. Read by ../walk.sh, after the files before it.

say "21. Answering where you are: the dashboard, with a program in the browser's place"
try 0 person python "$demo/browser.py" 'once: git push' 'deny: npm publish'
try 0 person byleave approvals list
