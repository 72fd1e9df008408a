#!/usr/bin/env bash
# Count the lines of a file: a mediated tool in bash, without any other program. See ../protocol.md.
set -u

say() { printf '%s\n' "$1"; } # a message is one line
result() { say '{"jsonrpc":"2.0","method":"result","params":{"content":"'"$1"'"}}'; exit 0; }
fail() { say '{"jsonrpc":"2.0","method":"error","params":{"message":"'"$1"'"}}'; exit 1; }
text_of() { # NAME LINE: the JSON text of that name, still escaped
  local pattern='"'$1'"[[:space:]]*:[[:space:]]*"(([^"\\]|\\.)*)"'
  [[ $2 =~ $pattern ]] && printf '%s' "${BASH_REMATCH[1]}"
}

IFS= read -r init || exit 1
path=$(text_of path "${init#*\"arguments\"}") || fail "the argument path is missing"

# The path is passed on as it came, with its escapes.
say '{"jsonrpc":"2.0","id":1,"method":"fs.read","params":{"path":"'"$path"'"}}'

# Inside of a JSON text every quote is escaped, so these marks are only found where they are meant.
while IFS= read -r line; do
  case $line in
    *'"method":"cancel"'*) exit 0 ;;       # the user has changed their mind
    *'"method":"pending"'*) continue ;;    # somebody is being asked; the answer will come
    *'"error":'*) fail "$(text_of message "$line")" ;;
    *'"encoding":'*) fail "this is not a text" ;;
    *'"result":'*) break ;;
  esac
done

line=${line//'\\'/}  # a backslash of the text: what follows it is no escape
line=${line//'\"'/q} # a quote of the text
content=${line#*'"content":"'}
content=${content%%'"'*}
newlines=${content//'\n'/}
count=$(((${#content} - ${#newlines}) / 2))
if [[ -n $content && $content != *'\n' ]]; then count=$((count + 1)); fi
result "$count lines"
