"""git: the options that neither run a program nor write beside the repository."""

from __future__ import annotations

# ruff: noqa: E501 -- a line of options is easier to compare with the help text of the program than a broken one

DIFF = """
-# -p,-u,--patch -s,--no-patch -U,--unified[=] -W,--function-context --no-function-context --raw --patch-with-raw
--patch-with-stat --numstat --shortstat -X,--dirstat[=] --cumulative --dirstat-by-file[=] --check --summary --name-only
--name-status --stat[=] --no-stat --stat-width= --stat-name-width= --stat-graph-width= --stat-count= --compact-summary --binary
--full-index --color[=] --no-color --ws-error-highlight= -z --abbrev[=] --no-abbrev --src-prefix= --dst-prefix= --line-prefix=
--no-prefix --default-prefix --inter-hunk-context= --output-indicator-new= --output-indicator-old= --output-indicator-context=
-B,--break-rewrites[=] -M,--find-renames[=] -D,--irreversible-delete -C,--find-copies[=] --find-copies-harder --no-renames
--rename-empty --no-rename-empty --follow -l= --minimal -w,--ignore-all-space -b,--ignore-space-change --ignore-space-at-eol
--ignore-cr-at-eol --ignore-blank-lines -I,--ignore-matching-lines= --indent-heuristic --no-indent-heuristic --patience
--histogram --diff-algorithm= --anchored= --word-diff[=] --word-diff-regex= --color-words[=] --color-moved[=] --no-color-moved
--color-moved-ws= --relative[=] --no-relative -a,--text -R --exit-code --quiet --no-ext-diff --no-textconv
--ignore-submodules[=] --submodule[=] --ita-invisible-in-index --ita-visible-in-index -S= -G= --pickaxe-all --pickaxe-regex
-O=< --rotate-to= --skip-to= --find-object= --diff-filter= -c --cc --combined-all-paths -m -r -t --no-diff-merges
--diff-merges= --dd --remerge-diff !--output=> !--ext-diff !--textconv
"""
REVISIONS = """
-n,--max-count= --skip= --since= --after= --until= --before= --since-as-filter= --author= --committer= --grep= --all-match
--invert-grep -i,--regexp-ignore-case --basic-regexp -E,--extended-regexp -F,--fixed-strings -P,--perl-regexp --remove-empty
--merges --no-merges --min-parents= --max-parents= --no-min-parents --no-max-parents --first-parent --exclude-first-parent-only
--not --all --branches[=] --tags[=] --remotes[=] --glob= --exclude= --exclude-hidden= --reflog --alternate-refs --single-worktree
--ignore-missing --bisect --stdin --cherry-mark --cherry-pick --left-only --right-only --cherry -g,--walk-reflogs --merge
--boundary --simplify-by-decoration --show-pulls --full-history --dense --sparse --simplify-merges --ancestry-path[=] --date-order
--author-date-order --topo-order --reverse --no-walk[=] --do-walk --objects --objects-edge --unpacked --parents --children
--left-right --graph --no-graph --show-linear-break[=] --count --max-age= --min-age= --end-of-options --in-commit-order
"""
FORMAT = """
--pretty[=] --format= --abbrev-commit --no-abbrev-commit --oneline --encoding= --expand-tabs[=] --no-expand-tabs --notes[=]
--no-notes --show-notes[=] --standard-notes --no-standard-notes --relative-date --date= --decorate[=] --no-decorate
--decorate-refs= --decorate-refs-exclude= --clear-decorations --source --use-mailmap --no-use-mailmap --mailmap --no-mailmap
--log-size -L= -q --no-show-signature
"""
REFS = """
--contains= --no-contains= --merged= --no-merged= --sort= --points-at= --format= --color[=] --no-color -i,--ignore-case
"""
PATHS = "--pathspec-from-file=< --pathspec-file-nul"
MERGE = """
-n --stat --no-stat --summary --log[=] --no-log --squash --no-squash --commit --no-commit -e,--edit --no-edit --cleanup= --ff
--no-ff --ff-only --rerere-autoupdate --verify-signatures --no-verify-signatures -s,--strategy= -X,--strategy-option=
-m,--message= -F,--file=< -v,--verbose -q,--quiet --abort --quit --continue --allow-unrelated-histories --progress --no-progress
-S,--gpg-sign[=] --no-gpg-sign --autostash --no-autostash --overwrite-ignore --signoff --no-signoff --no-verify --verify --compact-summary
--into-name=
"""
FETCH = """
-v,--verbose -q,--quiet --all --no-all --set-upstream -a,--append --atomic -f,--force --no-force --multiple -t,--tags --no-tags
-j,--jobs[=] --prefetch -p,--prune --no-prune -P,--prune-tags --recurse-submodules[=] --no-recurse-submodules --dry-run
--write-fetch-head --no-write-fetch-head -k,--keep -u,--update-head-ok --progress --no-progress --depth= --shallow-since=
--shallow-exclude= --deepen= --unshallow --refetch --update-shallow --refmap= -o,--server-option= -4,--ipv4 -6,--ipv6
--negotiation-tip= --negotiate-only --filter= --auto-maintenance --no-auto-maintenance --auto-gc --no-auto-gc
--show-forced-updates --no-show-forced-updates --write-commit-graph --stdin --porcelain !--upload-pack=!
"""
STATUS = """
-s,--short -b,--branch --no-branch --show-stash --ahead-behind --no-ahead-behind --porcelain[=] --long -v,--verbose
-u,--untracked-files[=] --no-untracked-files --ignored[=] --ignore-submodules[=] -z,--null --column[=] --no-column --no-renames --renames
--find-renames[=]
"""
PICK = """
-e,--edit --no-edit -x -n,--no-commit --commit --ff -m,--mainline= -s,--signoff -S,--gpg-sign[=] --no-gpg-sign --strategy=
-X,--strategy-option= --continue --abort --quit --skip --allow-empty --allow-empty-message --keep-redundant-commits --cleanup=
--rerere-autoupdate --no-rerere-autoupdate --empty= --reference
"""
CHECKOUT = """
-q,--quiet --progress --no-progress -m,--merge --conflict= -d,--detach -t,--track[=] --no-track -f,--force --orphan= --guess
--no-guess --overwrite-ignore --no-overwrite-ignore --ignore-other-worktrees --recurse-submodules[=] --no-recurse-submodules
"""

GIT: dict[str, str] = {
    "": """:subs :at
-p,--paginate -P,--no-pager -c=~config -C= --no-replace-objects --literal-pathspecs --glob-pathspecs --noglob-pathspecs
--icase-pathspecs --no-optional-locks --no-lazy-fetch --version -v --help -h --html-path --man-path --info-path --bare
--attr-source= --namespace= !--shallow-file=< !--super-prefix=
""",
    "add": f"""
-n,--dry-run -v,--verbose -i,--interactive -p,--patch -e,--edit -f,--force -u,--update --renormalize -N,--intent-to-add
-A,--all,--no-ignore-removal --no-all --ignore-removal --refresh --ignore-errors --ignore-missing --sparse --chmod= {PATHS}
""",
    "am": """
-3,--3way --no-3way -q,--quiet -s,--signoff -u,--utf8 -k,--keep --keep-non-patch -m,--message-id --keep-cr --no-keep-cr
-c,--scissors --no-scissors --whitespace= --ignore-space-change --ignore-whitespace --directory= --exclude= --include= -C= -p=
--patch-format= --reject --continue -r,--resolved --skip --abort --quit --show-current-patch[=] --allow-empty --empty=
--committer-date-is-author-date --ignore-date -S,--gpg-sign[=] --no-gpg-sign -i,--interactive
""",
    "apply": """
--exclude= --include= -p= --no-add --stat --numstat --summary --check --index -N,--intent-to-add --cached --apply -3,--3way -z
-C= --whitespace= --ignore-space-change --ignore-whitespace -R,--reverse --unidiff-zero --reject --allow-overlap -v,--verbose
-q,--quiet --inaccurate-eof --recount --allow-empty --binary !--unsafe-paths !--directory=>/ !--build-fake-ancestor=>
""",
    "archive": """
--format= --prefix= --add-file=< --add-virtual-file= -o,--output=> --worktree-attributes -v,--verbose -# -l,--list --mtime=
!--remote=! !--exec=!
""",
    "bisect": "--term-good --term-bad --term-old --term-new --no-checkout --first-parent",
    "blame": """
--incremental --root -b --show-stats --progress --no-progress --score-debug -f,--show-name -n,--show-number -p,--porcelain
--line-porcelain -c -t -l -s -e,--show-email -w --ignore-rev= --ignore-revs-file=< --color-lines --color-by-age --minimal -S=<
--contents=< -C[=] -M[=] -L= --abbrev[=] --date= --since= --until= --reverse --first-parent --diff-algorithm= --not --all
""",
    "branch": f"""
-v,-vv,--verbose -q,--quiet -t,--track[=] --no-track -u,--set-upstream-to= --unset-upstream -r,--remotes --abbrev[=] --no-abbrev
-a,--all -d,--delete -D -m,--move -M -c,--copy -C -l,--list --show-current --create-reflog -f,--force --column[=]
--no-column --omit-empty {REFS} --edit-description --recurse-submodules
""",
    "bundle": "--quiet --progress -q --all",
    "cat-file": """
-t -s -e -p --allow-unknown-type --batch[=] --batch-check[=] --batch-command[=] --batch-all-objects --buffer --unordered
--follow-symlinks -z -Z --use-mailmap --no-use-mailmap --path= --filter= !--filters !--textconv
""",
    "check-attr": "-a,--all --cached --stdin -z --source=",
    "check-ignore": "-q,--quiet -v,--verbose --stdin -z -n,--non-matching --no-index",
    "check-ref-format": "--branch --normalize --allow-onelevel --no-allow-onelevel --refspec-pattern --print",
    "checkout": f"""
{CHECKOUT} -p,--patch --overlay --no-overlay --ignore-skip-worktree-bits -b= -B= -l -2,--ours -3,--theirs {PATHS}
""",
    "cherry": "--abbrev[=] -v,--verbose",
    "cherry-pick": PICK,
    "clean": "-q,--quiet -n,--dry-run -f,--force -i,--interactive -d -e,--exclude= -x -X",
    "clone": """
-v,--verbose -q,--quiet --progress --reject-shallow --no-reject-shallow -n,--no-checkout --checkout --bare --mirror -l,--local --no-local
--no-hardlinks -s,--shared --recurse-submodules[=] --recursive[=] -j,--jobs= --reference=</ --reference-if-able=</ --dissociate
-o,--origin= -b,--branch= --depth= --shallow-since= --shallow-exclude= --single-branch --no-single-branch --no-tags --tags
--shallow-submodules --no-shallow-submodules --server-option= -4,--ipv4 -6,--ipv6 --filter= --also-filter-submodules
--remote-submodules --sparse --revision= !-u,--upload-pack=! !-c,--config= !--template=</ !--separate-git-dir=>/ !--bundle-uri=
""",
    "commit": f"""
-q,--quiet -v,--verbose -F,--file=< --author= --date= -m,--message= -c,--reedit-message= -C,--reuse-message= --fixup= --squash=
--reset-author --trailer= -s,--signoff --no-signoff -t,--template=< -e,--edit --no-edit --cleanup= --status --no-status
-S,--gpg-sign[=] --no-gpg-sign -a,--all -i,--include --interactive -p,--patch -o,--only -n,--no-verify --verify --dry-run --short --branch
--ahead-behind --no-ahead-behind --porcelain --long -z,--null --amend --no-post-rewrite -u,--untracked-files[=] --allow-empty
--allow-empty-message {PATHS}
""",
    "config": """
--global --system --local --worktree -f,--file=< --blob= --get --get-all --get-regexp --get-urlmatch -l,--list --fixed-value
--get-color --get-colorbool -t,--type= --no-type --bool --int --bool-or-int --bool-or-str --path --expiry-date -z,--null
--name-only --includes --no-includes --show-origin --show-scope --default= --show-names --no-show-names --all --regexp --url= --value=
""",
    "count-objects": "-v,--verbose -H,--human-readable",
    "describe": """
--contains --debug --all --tags --long --first-parent --abbrev[=] --exact-match --candidates= --match= --exclude= --always
--dirty[=] --broken[=] --no-tags
""",
    "diff": f"{DIFF} --cached --staged --merge-base --no-index -1,--base -2,--ours -3,--theirs -0 --end-of-options",
    "diff-files": f"{DIFF} -1,--base -2,--ours -3,--theirs -0 -q",
    "diff-index": f"{DIFF} --cached --merge-base",
    "diff-tree": f"{DIFF} --stdin -v --no-commit-id --pretty[=] --root --merge-base --always --format= --oneline",
    "fetch": FETCH,
    "for-each-ref": f"-s,--shell -p,--perl --python --tcl --count= --stdin --exclude= --include-root-refs --omit-empty {REFS}",
    "format-patch": f"""
{DIFF} -n,--numbered -N,--no-numbered -s,--signoff --stdout --cover-letter --no-cover-letter --numbered-files --suffix= --start-number=
-v,--reroll-count= --filename-max-length= --rfc --subject-prefix= -o,--output-directory=>/ -k,--keep-subject --no-binary
--zero-commit --ignore-if-in-upstream --to= --from[=] --in-reply-to= --attach[=] --inline[=] --thread[=] --no-thread
--signature= --no-signature --base= -q,--quiet --progress --interdiff= --range-diff= --creation-factor= --root
""",
    "fsck": """
-v,--verbose --unreachable --dangling --no-dangling --tags --root --cache --reflogs --no-reflogs --full --connectivity-only
--strict --progress --no-progress --name-objects
""",
    "gc": "-q,--quiet --prune[=] --no-prune --aggressive --auto --force --keep-largest-pack",
    "grep": """
--cached --no-index --untracked --exclude-standard --no-exclude-standard --recurse-submodules -v,--invert-match -i,--ignore-case
-w,--word-regexp -a,--text -I --no-textconv -r,--recursive --no-recursive --max-depth= -E,--extended-regexp -G,--basic-regexp
-F,--fixed-strings -P,--perl-regexp -n,--line-number --column -h -H --full-name -l,--files-with-matches,--name-only
-L,--files-without-match -z,--null -o,--only-matching -c,--count --color[=] --no-color --break --heading -C,--context=
-B,--before-context= -A,--after-context= --threads= -# -p,--show-function -W,--function-context -f=< -e= --and --or --not
-q,--quiet --all-match -m,--max-count=
""",
    "hash-object": "-t= --stdin --stdin-paths --no-filters --literally --path= -w",
    "help": "-a,--all -g,--guides -c,--config --verbose --no-verbose --user-interfaces --developer-interfaces --aliases --no-aliases",
    "init": "-q,--quiet --bare -b,--initial-branch= --object-format= !--template=</ !--separate-git-dir=>/ !--shared[=]",
    "log": f"{DIFF} {REVISIONS} {FORMAT}",
    "ls-files": """
-z -t -v -f -c,--cached -d,--deleted -m,--modified -o,--others -i,--ignored -s,--stage -k,--killed --directory
--no-empty-directory --empty-directory --eol -u,--unmerged --resolve-undo -x,--exclude= -X,--exclude-from=< --exclude-per-directory=
--exclude-standard --full-name --recurse-submodules --error-unmatch --with-tree= --abbrev[=] --debug --deduplicate --sparse
--format=
""",
    "ls-remote": """
-q,--quiet -t,--tags -h,--heads --branches --refs --get-url --sort= --exit-code --symref -o,--server-option= !--upload-pack=!
!--exec=!
""",
    "ls-tree": "-d -r -t -z -l,--long --name-only --name-status --object-only --full-name --full-tree --format= --abbrev[=]",
    "merge": MERGE,
    "merge-base": "-a,--all --octopus --independent --is-ancestor --fork-point",
    "merge-tree": "--write-tree --trivial-merge --messages --no-messages -z --name-only --allow-unrelated-histories --stdin --merge-base=",
    "mv": "-v,--verbose -n,--dry-run -f,--force -k --sparse",
    "name-rev": "--name-only --tags --refs= --exclude= --all --stdin --annotate-stdin --undefined --no-undefined --always",
    "notes": "--ref= -m,--message= -f,--force -C,--reuse-message= --allow-empty -n -v,--verbose -q,--quiet -F,--file=<",
    "pull": f"{FETCH} {MERGE} -r,--rebase[=] --no-rebase",
    "push": """
-v,--verbose -q,--quiet --repo= --all --branches --mirror -d,--delete --tags -n,--dry-run --porcelain -f,--force --no-force
--force-with-lease[=] --no-force-with-lease --force-if-includes --no-force-if-includes --recurse-submodules= --thin --no-thin
-u,--set-upstream --progress --no-progress --prune --no-verify --verify --follow-tags --no-follow-tags --signed[=] --no-signed --atomic --no-atomic
-o,--push-option= -4,--ipv4 -6,--ipv6 !--receive-pack=! !--exec=!
""",
    "range-diff": f"{DIFF} --creation-factor= --no-dual-color --notes[=] --left-only --right-only",
    "rebase": """
-i,--interactive --onto= --keep-base -v,--verbose -q,--quiet -n,--no-stat --stat --signoff --committer-date-is-author-date
--reset-author-date -C= --ignore-whitespace --whitespace= -f,--force-rebase --no-ff --continue --skip --abort --quit --edit-todo
--show-current-patch --apply -m,--merge --empty= -k,--keep-empty --no-keep-empty --autosquash --no-autosquash --update-refs
--no-update-refs -S,--gpg-sign[=] --no-gpg-sign --autostash --no-autostash --allow-empty-message -r,--rebase-merges[=]
--no-rebase-merges --fork-point --no-fork-point -s,--strategy= -X,--strategy-option= --root --reschedule-failed-exec
--no-reschedule-failed-exec --reapply-cherry-picks --no-reapply-cherry-picks --no-verify --verify --rerere-autoupdate !-x,--exec=
""",
    "reflog": f"{DIFF} {REVISIONS} {FORMAT} --dry-run -n --rewrite --updateref --stale-fix --expire= --expire-unreachable= --verbose",
    "remote": "-v,--verbose -f --tags --no-tags -t= -m= --mirror[=] -n,--dry-run -a,--auto -d,--delete --push --all --add --prune -p",
    "reset": f"-q,--quiet --no-quiet --no-refresh --refresh --mixed --soft --hard --merge --keep --recurse-submodules[=] -p,--patch -N,--intent-to-add {PATHS}",
    "restore": f"""
-s,--source= -S,--staged -W,--worktree --ignore-unmerged --overlay --no-overlay -q,--quiet --recurse-submodules[=] --progress
--no-progress -m,--merge --conflict= -2,--ours -3,--theirs -p,--patch --ignore-skip-worktree-bits {PATHS}
""",
    "rev-list": f"""
{REVISIONS} {FORMAT} -# --header --timestamp --quiet --disk-usage[=] --object-names --no-object-names --abbrev[=] --no-abbrev
--bisect-vars --bisect-all --filter= --missing= --use-bitmap-index --progress= --no-commit-header --commit-header --color[=] --no-color
--objects-edge-aggressive --indexed-objects --unsorted-input
""",
    "rev-parse": """
--show-toplevel --git-dir --abbrev-ref[=] --verify -q,--quiet --short[=] --symbolic --symbolic-full-name --is-inside-work-tree
--is-inside-git-dir --is-bare-repository --is-shallow-repository --show-prefix --show-cdup --show-superproject-working-tree
--git-common-dir --absolute-git-dir --git-path= --all --branches[=] --tags[=] --remotes[=] --glob= --exclude= --not --flags
--no-flags --revs-only --no-revs --default= --prefix= --since= --until= --after= --before= --sq --sq-quote --parseopt
--local-env-vars --path-format= --show-object-format[=] --disambiguate= --resolve-git-dir= --shared-index-path --end-of-options
--keep-dashdash --stop-at-non-option --stuck-long --show-ref-format --bisect
""",
    "revert": PICK,
    "rm": f"-n,--dry-run -q,--quiet --cached -f,--force -r --ignore-unmatch --sparse {PATHS}",
    "shortlog": f"{REVISIONS.replace('-n,--max-count=', '--max-count=')} -s,--summary -n,--numbered -e,--email -c,--committer -w[=] --group= --format= --date=",
    "show": f"{DIFF} {REVISIONS} {FORMAT}",
    "show-branch": """
-a,--all -r,--remotes --color[=] --no-color --more[=] --list --no-name --current --sha1-name --merge-base --independent
--topo-order --topics --sparse --date-order -g,--reflog[=]
""",
    "show-ref": """
--tags --heads --branches --verify --head -d,--dereference -s,--hash[=] --abbrev[=] -q,--quiet --exclude-existing[=] --exists
""",
    "sparse-checkout": "--cone --no-cone --sparse-index --no-sparse-index --stdin --skip-checks",
    "stash": f"""
{DIFF} -k,--keep-index --no-keep-index -S,--staged -p,--patch -q,--quiet -a,--all -u,--include-untracked --no-include-untracked
--only-untracked -m,--message= --index --oneline --stat[=] --format= {PATHS}
""",
    "status": STATUS,
    "submodule": """
-q,--quiet --cached --init --no-init --checkout --merge --rebase -N,--no-fetch -f,--force --recursive --remote --depth= --recommend-shallow
--no-recommend-shallow --single-branch --no-single-branch -j,--jobs= --filter= -b,--branch= --all -n,--summary-limit= --files --progress --dissociate --name=
""",
    "switch": f"{CHECKOUT} -c,--create= -C,--force-create= --discard-changes",
    "symbolic-ref": "-q,--quiet -d,--delete --short --recurse --no-recurse -m=",
    "tag": f"""
-l,--list -n[=] -d,--delete -a,--annotate -m,--message= -F,--file=< -e,--edit --no-edit -s,--sign --no-sign --cleanup= -u,--local-user=
-f,--force --create-reflog --column[=] --no-column --omit-empty --trailer= {REFS} !-v,--verify
""",
    "update-index": """
-q --ignore-submodules --add --replace --remove --unmerged --refresh --really-refresh --cacheinfo= --chmod= --assume-unchanged
--no-assume-unchanged --skip-worktree --no-skip-worktree --info-only --force-remove -z --stdin --again --ignore-missing --verbose
""",
    "var": "-l",
    "version": "--build-options",
    "whatchanged": f"{DIFF} {REVISIONS} {FORMAT}",
    "worktree": """
-f,--force -b= -B= -d,--detach --checkout --no-checkout --lock --reason= -v,--verbose --porcelain -z -n,--dry-run --expire= --track
--no-track --guess-remote --no-guess-remote --orphan -q,--quiet
""",
}
OPTIONS = {"git": GIT}
