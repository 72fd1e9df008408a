#!/bin/sh
# Asks byleave before every tool call. Written by `byleave hook --install cline`; `byleave hook --uninstall cline` removes it.
# A call goes on only if byleave answers, in time, that it is allowed: for Cline every other outcome would be a yes.
answer=$(@COMMAND@) || answer='{"cancel": true, "errorMessage": "byleave blocks this call: its hook did not answer"}'
printf '%s\n' "${answer:-{\"cancel\": true, \"errorMessage\": \"byleave blocks this call: its hook said nothing\"\}}"
