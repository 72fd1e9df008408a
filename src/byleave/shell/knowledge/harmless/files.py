"""Programs that read, list, search and copy files."""

from __future__ import annotations

# ruff: noqa: E501 -- a line of options is easier to compare with the help text of the program than a broken one

USUAL = "--help --version"
SUMS = f":safe :at -b,--binary -c,--check --tag -t,--text -z,--zero --ignore-missing --quiet --status --strict -w,--warn -a,--algorithm= {USUAL}"

OPTIONS: dict[str, dict[str, str]] = {
    "ls": {
        "": f""":safe
-a,--all -A,--almost-all --author -b,--escape --block-size= -B,--ignore-backups -c -C --color[=] -d,--directory -D,--dired -f
-F,--classify[=] --file-type --format= --full-time -g --group-directories-first -G,--no-group -h,--human-readable --si
-H,--dereference-command-line --dereference-command-line-symlink-to-dir --hide= --hyperlink[=] --indicator-style= -i,--inode
-I,--ignore= -k,--kibibytes -l -L,--dereference -m -n,--numeric-uid-gid -N,--literal -o -p -q,--hide-control-chars
--show-control-chars -Q,--quote-name --quoting-style= -r,--reverse -R,--recursive -s,--size -S --sort= --time= --time-style= -t
-T,--tabsize= -u -U -v -w,--width= -x -X -Z,--context --zero -1 -@ -e -O {USUAL}
"""
    },
    "cat": {
        "": f":safe -A,--show-all -b,--number-nonblank -e -E,--show-ends -n,--number -s,--squeeze-blank -t -T,--show-tabs -u -v,--show-nonprinting {USUAL}"
    },
    "head": {"": f":safe -# -c,--bytes= -n,--lines= -q,--quiet,--silent -v,--verbose -z,--zero-terminated {USUAL}"},
    "tail": {
        "": f""":safe
-# -c,--bytes= -f,--follow[=] -F -n,--lines= --max-unchanged-stats= --pid= -q,--quiet,--silent --retry -s,--sleep-interval=
-v,--verbose -z,--zero-terminated -r {USUAL}
"""
    },
    "wc": {
        "": f":safe -c,--bytes -m,--chars -l,--lines --files0-from=< -L,--max-line-length -w,--words --total= {USUAL}"
    },
    "cut": {
        "": f""":safe
-b,--bytes= -c,--characters= -d,--delimiter= -f,--fields= -n --complement -s,--only-delimited --output-delimiter=
-z,--zero-terminated {USUAL}
"""
    },
    "tr": {"": f":safe -c,-C,--complement -d,--delete -s,--squeeze-repeats -t,--truncate-set1 {USUAL}"},
    "sort": {
        "": f"""
-b,--ignore-leading-blanks -d,--dictionary-order -f,--ignore-case -g,--general-numeric-sort -i,--ignore-nonprinting
-M,--month-sort -h,--human-numeric-sort -n,--numeric-sort -R,--random-sort --random-source=< -r,--reverse --sort= -V,--version-sort
--batch-size= -c -C --check[=] --debug --files0-from=< -k,--key= -m,--merge -s,--stable -S,--buffer-size= -t,--field-separator=
-T,--temporary-directory=>/ --parallel= -u,--unique -z,--zero-terminated {USUAL} !-o,--output=> !--compress-program=!
"""
    },
    "uniq": {
        "": f"""
-c,--count -d,--repeated -D --all-repeated[=] -f,--skip-fields= --group[=] -i,--ignore-case -s,--skip-chars= -u,--unique
-z,--zero-terminated -w,--check-chars= {USUAL}
"""
    },
    "diff": {
        "": """
-# --normal -q,--brief -s,--report-identical-files -c -C= --context[=] -u -U= --unified[=] -e,--ed -n,--rcs -y,--side-by-side -W,--width=
--left-column --suppress-common-lines -p,--show-c-function -F,--show-function-line= -L,--label= -t,--expand-tabs -T,--initial-tab
--tabsize= --suppress-blank-empty -r,--recursive --no-dereference -N,--new-file --unidirectional-new-file
--ignore-file-name-case --no-ignore-file-name-case -x,--exclude= -X,--exclude-from=< -S,--starting-file= --from-file=<
--to-file=< -i,--ignore-case -E,--ignore-tab-expansion -Z,--ignore-trailing-space -b,--ignore-space-change -w,--ignore-all-space
-B,--ignore-blank-lines -I,--ignore-matching-lines= -a,--text --strip-trailing-cr -D,--ifdef= --line-format= -d,--minimal
--horizon-lines= --speed-large-files --color[=] --palette= --help -v,--version !-l,--paginate
"""
    },
    "cmp": {
        "": ":safe -b,--print-bytes -i,--ignore-initial= -l,--verbose -n,--bytes= -s,--quiet,--silent --help -v,--version"
    },
    "comm": {
        "": f":safe -1 -2 -3 --check-order --nocheck-order --output-delimiter= --total -z,--zero-terminated {USUAL}"
    },
    "paste": {"": f":safe -d,--delimiters= -s,--serial -z,--zero-terminated {USUAL}"},
    "join": {
        "": f":safe -a= -e= -i,--ignore-case -j= -o= -t= -v= -1= -2= --check-order --nocheck-order --header -z,--zero-terminated {USUAL}"
    },
    "fold": {"": f":safe -b,--bytes -s,--spaces -w,--width= {USUAL}"},
    "fmt": {
        "": f":safe -c,--crown-margin -p,--prefix= -s,--split-only -t,--tagged-paragraph -u,--uniform-spacing -w,--width= -g,--goal= {USUAL}"
    },
    "expand": {"": f":safe -i,--initial -t,--tabs= {USUAL}"},
    "du": {
        "": f""":safe
-0,--null -a,--all --apparent-size -B,--block-size= -b,--bytes -c,--total -D,--dereference-args -d,--max-depth= --files0-from=<
-H -h,--human-readable --inodes -k -L,--dereference -l,--count-links -m -P,--no-dereference -S,--separate-dirs --si -s,--summarize
-t,--threshold= --time[=] --time-style= -X,--exclude-from=< --exclude= -x,--one-file-system {USUAL}
"""
    },
    "df": {
        "": f""":safe
-a,--all -B,--block-size= -h,--human-readable -H,--si -i,--inodes -k -m -l,--local --no-sync --output[=] -P,--portability --sync
--total -t,--type= -T,--print-type -x,--exclude-type= -v {USUAL}
"""
    },
    "stat": {"": f":safe -L,--dereference -f,--file-system --cached= -c,--format= --printf= -t,--terse -x -s {USUAL}"},
    "file": {
        "": """
--help -v,--version -b,--brief -c,--checking-printout -e,--exclude= --exclude-quiet= -f,--files-from=< -F,--separator= -i,--mime
--apple --extension --mime-type --mime-encoding -k,--keep-going -l,--list -L,--dereference -h,--no-dereference -n,--no-buffer
-N,--no-pad -0,--print0 -r,--raw -s,--special-files -d,--debug -I !-m,--magic-file=< !-C,--compile !-z,--uncompress
!-Z,--uncompress-noreport !-S,--no-sandbox !-P,--parameter= !-p,--preserve-date
"""
    },
    "which": {"": ":safe -a,--all -s --skip-alias --skip-functions --help --version -v -V"},
    "whereis": {"": ":safe -b -m -s -u -l -f -B= -M= -S= -h -V"},
    "whoami": {"": f":safe {USUAL}"},
    "pwd": {"": f":safe -L,--logical -P,--physical {USUAL}"},
    "basename": {"": f":safe -a,--multiple -s,--suffix= -z,--zero {USUAL}"},
    "dirname": {"": f":safe -z,--zero {USUAL}"},
    "realpath": {
        "": f":safe -e,--canonicalize-existing -m,--canonicalize-missing -L,--logical -P,--physical -q,--quiet --relative-to= --relative-base= -s,--strip,--no-symlinks -z,--zero {USUAL}"
    },
    "readlink": {
        "": f":safe -f,--canonicalize -e,--canonicalize-existing -m,--canonicalize-missing -n,--no-newline -q,--quiet -s,--silent -v,--verbose -z,--zero {USUAL}"
    },
    "tree": {
        "": """:inorder
-a -d -l -f -x -L= -P= -I= --gitignore --gitfile=< --ignore-case --matchdirs --metafirst --prune --info --infofile=< --noreport
--charset= --filelimit= -q -N -Q -p -u -g -s -h --si --du -D --timefmt= -F --inodes --device -v -t -c -U -r --dirsfirst
--filesfirst --sort= -i -A -S -n -C -X -J --nolinks --fromfile --fflinks --version --help !-o=> !-R !-H= !-T= !--hintro=< !--houtro=<
"""
    },
    "md5sum": {"": SUMS},
    "sha1sum": {"": SUMS},
    "sha256sum": {"": SUMS},
    "sha512sum": {"": SUMS},
    "shasum": {"": SUMS},
    "cksum": {"": SUMS},
    "nl": {
        "": f""":safe
-b,--body-numbering= -d,--section-delimiter= -f,--footer-numbering= -h,--header-numbering= -i,--line-increment=
-l,--join-blank-lines= -n,--number-format= -p,--no-renumber -s,--number-separator= -v,--starting-line-number= -w,--number-width= {USUAL}
"""
    },
    "rev": {"": ":safe -h,--help -V,--version"},
    "tac": {"": f":safe -b,--before -r,--regex -s,--separator= {USUAL}"},
    "column": {
        "": """:safe
-t,--table -n,--table-name= -O,--table-order= -N,--table-columns= -l,--table-columns-limit= -E,--table-noextreme=
-d,--table-noheadings -e,--table-header-repeat -H,--table-hide= -R,--table-right= -T,--table-truncate= -W,--table-wrap=
-L,--keep-empty-lines -J,--json -r,--tree= -i,--tree-id= -p,--tree-parent= -c,--output-width= -o,--output-separator=
-s,--separator= -x,--fillrows -h,--help -V,--version
"""
    },
    "echo": {"": ":safe :open -n -e -E"},
    "printf": {"": ":safe :open -v="},
    "test": {
        "": ":open :word :exact :safe -a -b -c -d -e -f -g -h -k -L -n -N -o -O -p -r -s -S -t -u -w -x -z -G -l -eq -ne -lt -le -gt -ge -nt -ot -ef -v -R"
    },
    "true": {"": f":safe {USUAL}"},
    "false": {"": f":safe {USUAL}"},
    "uname": {
        "": f":safe -a,--all -s,--kernel-name -n,--nodename -r,--kernel-release -v,--kernel-version -m,--machine -p,--processor -i,--hardware-platform -o,--operating-system {USUAL}"
    },
    "id": {"": f":safe -a -Z,--context -g,--group -G,--groups -n,--name -r,--real -u,--user -z,--zero {USUAL}"},
    "seq": {"": f":safe -f,--format= -s,--separator= -w,--equal-width -# {USUAL}"},
    "sleep": {"": f":safe {USUAL}"},
    "nproc": {"": f":safe --all --ignore= {USUAL}"},
    "free": {
        "": ":safe -b,--bytes --kilo --mega --giga --tera -k,--kibi -m,--mebi -g,--gibi --tebi -h,--human --si -l,--lohi -t,--total -v,--committed -s,--seconds= -c,--count= -w,--wide --help -V,--version"
    },
    "printenv": {"": f":safe -0,--null {USUAL}"},
    "hostname": {
        "": "-a,--alias -A,--all-fqdns -d,--domain -f,--fqdn,--long -i,--ip-address -I,--all-ip-addresses -s,--short -y,--yp,--nis -V,--version -h,--help !-b,--boot !-F,--file=<"
    },
    "date": {
        "": f"-d,--date= --debug -f,--file=< -I,--iso-8601[=] --resolution -R,--rfc-email --rfc-3339= -r,--reference=< -u,--utc,--universal -j -v= {USUAL} !-s,--set="
    },
    "base64": {"": f"-d,-D,--decode -i,--ignore-garbage -w,--wrap= {USUAL} !-o,--output=>"},
    "hexdump": {
        "": ":safe -b,--one-byte-octal -c,--one-byte-char -C,--canonical -d,--two-bytes-decimal -o,--two-bytes-octal -x,--two-bytes-hex -L,--color[=] -e,--format= -f,--format-file=< -n,--length= -s,--skip= -v,--no-squeezing -h,--help -V,--version"
    },
    "od": {
        "": f":safe -A,--address-radix= -j,--skip-bytes= -N,--read-bytes= -S,--strings[=] -t,--format= -v,--output-duplicates -w,--width[=] -a -b -c -d -f -i -l -o -s -x --endian= {USUAL}"
    },
    "xxd": {
        "": ":word -a -b -C -c+ -E -e -g+ -h -i -l+ -n+ -o+ -p -ps -plain -r -d -s+ -seek= -len= -cols= -u -v -version -R="
    },
    "strings": {
        "": ":safe -a,--all -d,--data -f,--print-file-name -n,--bytes= -# -t,--radix= -w,--include-all-whitespace -o -T,--target= -e,--encoding= -U,--unicode= -s,--output-separator= -h,--help -v,-V,--version"
    },
    "nm": {
        "": """
-a,--debug-syms -A,-o,--print-file-name -B -C,--demangle[=] --no-demangle --recurse-limit --no-recurse-limit -D,--dynamic
-f,--format= -g,--extern-only --ifunc-chars= -j,--just-symbols -l,--line-numbers -n,-v,--numeric-sort -p,--no-sort -P,--portability
-r,--reverse-sort -S,--print-size -s,--print-armap --quiet --size-sort --special-syms --synthetic -t,--radix= --target=
-u,--undefined-only -U,--defined-only --unicode= -W,--no-weak --with-symbol-versions -h,--help -V,--version !--plugin=!
"""
    },
    "ldd": {"": "--help --version -d,--data-relocs -r,--function-relocs -u,--unused -v,--verbose"},
    "objdump": {
        "": """
-a,--archive-headers -f,--file-headers -p,--private-headers -P,--private= -h,--section-headers,--headers -x,--all-headers
-d,--disassemble[=] -D,--disassemble-all -S,--source --source-comment[=] -s,--full-contents -g,--debugging -e,--debugging-tags
-G,--stabs -W,--dwarf[=] -t,--syms -T,--dynamic-syms -r,--reloc -R,--dynamic-reloc -v,-V,--version -i,--info -H,--help
-b,--target= -m,--architecture= -j,--section= -M,--disassembler-options= --file-start-context -I,--include=</ -l,--line-numbers
-F,--file-offsets -C,--demangle[=] -w,--wide -z,--disassemble-zeroes --start-address= --stop-address= --no-addresses
--prefix-addresses --no-show-raw-insn --show-raw-insn --insn-width= --adjust-vma= --show-all-symbols --special-syms --inlines
--prefix= --prefix-strip= --visualize-jumps[=] --disassembler-color=
"""
    },
    "readelf": {
        "": ":safe -a,--all -h,--file-header -l,--program-headers,--segments -S,--section-headers,--sections -g,--section-groups -t,--section-details -e,--headers -s,--syms,--symbols --dyn-syms -C,--demangle[=] -n,--notes -r,--relocs -u,--unwind -d,--dynamic -V,--version-info -A,--arch-specific -c,--archive-index -D,--use-dynamic -x,--hex-dump= -p,--string-dump= -R,--relocated-dump= -z,--decompress -w,--debug-dump[=] -I,--histogram -W,--wide -H,--help -v,--version"
    },
    "zcat": {
        "": ":safe -f,--force -l,--list -q,--quiet -t,--test -v,--verbose -h,--help -V,--version -c,--stdout -d,--decompress -k"
    },
    "bc": {"": "-h,--help -i,--interactive -l,--mathlib -q,--quiet -s,--standard -w,--warn -v,--version"},
    "grep": {
        "": """:safe
-# -E,--extended-regexp -F,--fixed-strings -G,--basic-regexp -P,--perl-regexp -e,--regexp= -f,--file=< -i,-y,--ignore-case
--no-ignore-case -w,--word-regexp -x,--line-regexp -z,--null-data -s,--no-messages -v,--invert-match -V,--version --help
-m,--max-count= -b,--byte-offset -n,--line-number --line-buffered -H,--with-filename -h,--no-filename --label= -o,--only-matching
-q,--quiet,--silent --binary-files= -a,--text -I -d,--directories= -D,--devices= -r,--recursive -R,--dereference-recursive
--include= --exclude= --exclude-from=< --exclude-dir= --include-dir= -L,--files-without-match -l,--files-with-matches -c,--count
-T,--initial-tab -Z,--null -B,--before-context= -A,--after-context= -C,--context= --group-separator= --no-group-separator
--color[=] --colour[=] -U,--binary -u,--unix-byte-offsets
"""
    },
    "rg": {
        "": """:exact
-A,--after-context= -B,--before-context= -C,--context= --auto-hybrid-regex --no-auto-hybrid-regex -b,--byte-offset --no-byte-offset --binary --no-binary --block-buffered
--no-block-buffered -s,--case-sensitive --color= --colors= --column --no-column --context-separator= --no-context-separator -c,--count --count-matches
--crlf --no-crlf --debug --dfa-size-limit= -E,--encoding= --no-encoding --engine= --field-context-separator= --field-match-separator= -f,--file=<
--files -l,--files-with-matches --files-without-match -F,--fixed-strings --no-fixed-strings -L,--follow --no-follow --generate= -g,--glob=
--glob-case-insensitive --no-glob-case-insensitive --heading --no-heading -h --help -.,--hidden --no-hidden --hyperlink-format= --iglob= -i,--ignore-case
--ignore-file=< --ignore-file-case-insensitive --include-zero --no-include-zero -v,--invert-match --no-invert-match --json --no-json --line-buffered --no-line-buffered
-n,--line-number -N,--no-line-number -x,--line-regexp -M,--max-columns= --max-columns-preview --no-max-columns-preview -m,--max-count= -d,--max-depth,--maxdepth=
--max-filesize= --mmap --no-mmap -U,--multiline --no-multiline --multiline-dotall --no-multiline-dotall --no-config --no-ignore --ignore --no-ignore-dot --no-ignore-exclude
--no-ignore-files --no-ignore-global --no-ignore-messages --no-ignore-parent --no-ignore-vcs --no-messages --messages --no-require-git --require-git
--no-unicode --unicode -0,--null --null-data --one-file-system --no-one-file-system -o,--only-matching --passthru,--passthrough --path-separator=
-P,--pcre2 --no-pcre2 --pcre2-version --no-pcre2-unicode --no-pre -p,--pretty -q,--quiet --regex-size-limit= -e,--regexp= -r,--replace=
-S,--smart-case --sort= --sortr= --sort-files --stats --no-stats --stop-on-nonmatch -a,--text --no-text -j,--threads= --trace --trim --no-trim -t,--type=
--type-add= --type-clear= -T,--type-not= --type-list -u,--unrestricted -V,--version --vimgrep -H,--with-filename -I,--no-filename
-w,--word-regexp !--pre=! --pre-glob= !--hostname-bin=! !-z,--search-zip
"""
    },
    "find": {
        "": """:word :exact
-H -L -P -D= -O* -amin= -anewer= -atime= -cmin= -cnewer= -ctime= -daystart -depth -d -empty -executable -false -files0-from=<
-follow -fstype= -gid= -group= -help -ignore_readdir_race -ilname= -iname= -inum= -ipath= -iregex= -iwholename= -links= -lname=
-ls -maxdepth= -mindepth= -mmin= -mount -mtime= -name= -newer= -newermt= -newerct= -newerat= -newerBt= -newermm= -newerma= -newercm=
-nogroup -noignore_readdir_race -noleaf -nouser -path= -perm= -print -print0 -printf= -prune -quit -readable -regex= -regextype=
-samefile= -size= -true -type= -uid= -used= -user= -version --version --help -wholename= -warn -nowarn -writable -xautofs -xdev
-xtype= -a -and -o -or -not -context= -exec -execdir -ok -okdir !-delete !-fprint=> !-fprint0=> !-fls=> !-fprintf=>
"""
    },
    "fd": {
        "": """
-H,--hidden --no-hidden -I,--no-ignore --ignore -u,--unrestricted --no-ignore-vcs --no-ignore-parent --no-require-git -s,--case-sensitive -i,--ignore-case
-g,--glob --regex -F,--fixed-strings -a,--absolute-path --relative-path -L,--follow --no-follow -p,--full-path -0,--print0 -d,--max-depth,--maxdepth=
--min-depth= --exact-depth= -E,--exclude= --prune -t,--type= -e,--extension= -S,--size= --changed-within= --changed-before=
--change-newer-than= --change-older-than= --newer= --older= -o,--owner= -c,--color= --hyperlink[=] -j,--threads= --max-results= -1 -q,--quiet
--show-errors --search-path= --strip-cwd-prefix[=] --one-file-system --mount --xdev -h,--help -V,--version --path-separator= --format= --and=
--no-global-ignore-file --ignore-file=< -x,--exec -X,--exec-batch --batch-size=
"""
    },
    "jq": {
        "": """:safe
-r,--raw-output -c,--compact-output -n,--null-input -s,--slurp -e,--exit-status -f,--from-file -S,--sort-keys -C,--color-output
-M,--monochrome-output -R,--raw-input -j,--join-output -a,--ascii-output -L,--library-path= --arg= --argjson= --slurpfile=
--rawfile= --args --jsonargs --tab --indent= --stream --stream-errors --seq --raw-output0 --unbuffered -h,--help -V,--version --build-configuration
"""
    },
    "tee": {"": f"-a,--append -i,--ignore-interrupts -p --output-error[=] {USUAL}"},
    "cp": {
        "": f"""
-a,--archive --attributes-only --backup[=] -b --copy-contents -d -f,--force -i,--interactive -H -l,--link -L,--dereference
-n,--no-clobber -P,--no-dereference -p --preserve[=] --no-preserve= --parents -R,-r,--recursive --reflink[=] --remove-destination
--sparse= --strip-trailing-slashes -s,--symbolic-link -S,--suffix= -t,--target-directory=>/ -T,--no-target-directory -u
--update[=] -v,--verbose -x,--one-file-system -Z --context[=] {USUAL}
"""
    },
    "mv": {
        "": f"""
--backup[=] -b -f,--force -i,--interactive -n,--no-clobber --strip-trailing-slashes -S,--suffix= -t,--target-directory=>/
-T,--no-target-directory -u --update[=] -v,--verbose -Z,--context {USUAL}
"""
    },
    "ln": {
        "": f"""
--backup[=] -b -f,--force -i,--interactive -L,--logical -n,--no-dereference -P,--physical -r,--relative -s,--symbolic -S,--suffix=
-t,--target-directory=>/ -T,--no-target-directory -v,--verbose {USUAL}
"""
    },
    "mkdir": {"": f"-m,--mode= -p,--parents -v,--verbose -Z --context[=] {USUAL}"},
    "rmdir": {"": f"-p,--parents -v,--verbose --ignore-fail-on-non-empty {USUAL}"},
    "touch": {"": f"-a -c,--no-create -d,--date= -f -h,--no-dereference -m -r,--reference=< -t= --time= {USUAL}"},
    "rm": {
        "": f"-f,--force -i -I --interactive[=] --one-file-system --no-preserve-root --preserve-root[=] -r,-R,--recursive -d,--dir -v,--verbose {USUAL}"
    },
    "chmod": {
        "": f"-c,--changes -f,--silent,--quiet -v,--verbose --no-preserve-root --preserve-root --reference=< -R,--recursive {USUAL}"
    },
    "tar": {
        "": """
-c,--create -x,--extract,--get -t,--list -r,--append -u,--update -d,--diff,--compare -f,--file=~archive -C,--directory= -v,--verbose
-z,--gzip,--gunzip -j,--bzip2 -J,--xz -Z,--compress --zstd --lzma --lzip -a,--auto-compress -O,--to-stdout -p,--preserve-permissions
-k,--keep-old-files --keep-newer-files --exclude= -X,--exclude-from=< --exclude-vcs --exclude-vcs-ignores --exclude-caches
--strip-components= -T,--files-from=< --no-recursion --recursion -h,--dereference --wildcards --no-wildcards --anchored --ignore-case
-S,--sparse --totals[=] -w,--interactive --full-time -R,--block-number --sort= --owner= --group= --numeric-owner --mode= --mtime= -m,--touch
--no-same-owner --same-owner -o --no-same-permissions --one-file-system --overwrite --skip-old-files --warning= --help --version --usage
--format= -H= --null -l,--check-links --show-transformed-names --checkpoint[=~number] !-P,--absolute-names !-U,--unlink-first
!--remove-files !--delete
"""
    },
    "unzip": {"": "-l -t -v -Z -p -c -q -o -n -j -a -aa -L -C -1 -z -d=>/ -x= -h"},
    "zip": {
        "": "-r,--recurse-paths -q,--quiet -v,--verbose -x,--exclude= -i,--include= -j,--junk-paths -u,--update -f,--freshen -# -y,--symlinks -@ -h,--help -d,--delete"
    },
}
for _name in ("egrep", "fgrep", "zgrep", "bzgrep", "xzgrep"):
    OPTIONS[_name] = OPTIONS["grep"]
for _name in ("gzcat", "bzcat", "xzcat"):
    OPTIONS[_name] = OPTIONS["zcat"]
OPTIONS["["] = OPTIONS["test"]
OPTIONS["fdfind"], OPTIONS["gfind"] = OPTIONS["fd"], OPTIONS["find"]
