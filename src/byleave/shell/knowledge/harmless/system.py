"""Programs of the system and of the network, containers, clusters, other languages."""

from __future__ import annotations

# ruff: noqa: E501 -- a line of options is easier to compare with the help text of the program than a broken one

_COMPOSE = "--tail,-n= -f,--follow -t,--timestamps --since= --until= --no-color --no-log-prefix --index="
_DOCKER_LOGS = "--details -f,--follow --since= -n,--tail= -t,--timestamps --until="
_DOCKER_PS = "-a,--all -f,--filter= --format= -n,--last= -l,--latest --no-trunc -q,--quiet -s,--size"
_DOCKER_IMAGES = "-a,--all --digests -f,--filter= --format= --no-trunc -q,--quiet --tree"
_GH_LIST = "-L,--limit= -s,--state= --json= -q,--jq= -t,--template= -S,--search= -l,--label= -a,--assignee= -A,--author= -B,--base= -H,--head= -d,--draft --app= --mention= -m,--milestone= -R,--repo="
_GH_VIEW = "-c,--comments --json= -q,--jq= -t,--template= -R,--repo="
_GH_TEXT = "-b,--body= -F,--body-file=< -t,--title= -l,--label= -a,--assignee= -m,--milestone= -p,--project= -R,--repo="
_KUBE_GET = """
-A,--all-namespaces --allow-missing-template-keys[=] --chunk-size= --field-selector= -f,--filename=< --ignore-not-found[=] -L,--label-columns= --no-headers[=]
-o,--output= --output-watch-events[=] --raw= -R,--recursive[=] -l,--selector= --server-print[=] --show-kind[=] --show-labels[=] --show-managed-fields[=] --sort-by= --subresource=
--template= -w,--watch[=] --watch-only[=] --show-events[=] !-k,--kustomize=
"""
_SQL = """:word :exact :twodash
-readonly -json -csv -header -noheader -headers -column -line -list -table -box -markdown -html -quote -tabs -ascii -separator= -nullvalue= -newline= -batch -bail
-echo -version -help -stats -safe -nofollow !-cmd= !-init=! !-A* !-interactive !-append !-deserialize !-vfs= !-zip
"""

OPTIONS: dict[str, dict[str, str]] = {
    "ps": {
        "": """:safe
-A -a -d -e -f -F -j -l -L -m -M -N -T -y -w -x -H -c -r -S -v -V -Z -X -h -o= -O= -p= -u= -U= -C= -g= -G= -t= -s= -q= --sort= --no-headers --headers --forest --pid= --ppid=
--user= --User= --format= --cols= --columns= --width= --rows= --lines= --help --info --version --deselect --cumulative --context --group= --Group= --sid= --tty= --quick-pid=
"""
    },
    "pgrep": {
        "": ":safe -d= -l -a -v -w -c -f -g= -G= -n -o -P= -s= -t= -u= -U= -x -F=< -i -r= --list-name --list-full --full --count --newest --oldest --parent= --exact --help --version"
    },
    "kill": {
        "": ":word :safe -# -s= -n= -l -L -p -q= -HUP -INT -QUIT -KILL -TERM -USR1 -USR2 -STOP -CONT -ABRT -SIG*~word --signal= --list --table --help --version"
    },
    "lsof": {
        "": "-i[=] -n -P -t -p= -u= -c= -a -d= -F[=] -l -R -s[=] -T[=] -U -w -b -h -v -V -g[=] -o -O -N -L[=] -x[=] -Q -K !-D= !-k= !-m= !-r[=]"
    },
    "ss": {
        "": """
-h,--help -V,--version -n,--numeric -r,--resolve -a,--all -l,--listening -o,--options -e,--extended -m,--memory -p,--processes -T,--threads -i,--info --tipcinfo
-s,--summary --tos --cgroup -b,--bpf -E,--events -Z,--context -z,--contexts -4,--ipv4 -6,--ipv6 -0,--packet -t,--tcp -M,--mptcp -S,--sctp -u,--udp -d,--dccp -w,--raw
-x,--unix --tipc --vsock --xdp -f,--family= -H,--no-header -O,--oneline --inet-sockopt -A,--query,--socket= !-K,--kill !-D,--diag=> !-F,--filter=< !-N,--net=
"""
    },
    "netstat": {
        "": """:safe
-r,--route -i,--interfaces -g,--groups -s,--statistics -M,--masquerade -v,--verbose -W,--wide -n,--numeric --numeric-hosts --numeric-ports --numeric-users -N,--symbolic
-e,--extend -p,--programs -o,--timers -c,--continuous -l,--listening -a,--all -F,--fib -C,--cache -Z,--context -t,--tcp -u,--udp -U,--udplite -S,--sctp -w,--raw -x,--unix
-4,--inet -6,--inet6 -V,--version -h,--help -f=
"""
    },
    "ip": {
        "": ":word :exact -4 -6 -0 -B -M -s -stats -statistics -d -details -r -resolve -o -oneline -br -brief -j -json -p -pretty -c -color -color=always|never|auto -h -human -human-readable -iec -V -Version -f= -family= -a -all -t -timestamp -ts -tshort -N -Numeric -echo !-b,-batch=< !-force !-n,-netns= !-rc= !-l="
    },
    "uptime": {"": ":safe -p,--pretty -s,--since -h,--help -V,--version"},
    "curl": {
        "": """
--anyauth -a,--append --basic --cacert=< --cert-status --ciphers= --compressed --connect-timeout= --connect-to= -C,--continue-at= -b,--cookie= --create-file-mode= --crlf
--curves= -d,--data,--data-ascii= --data-binary= --data-raw= --data-urlencode= --digest -q,--disable --disallow-username-in-url -D,--dump-header=> --expect100-timeout=
-f,--fail --fail-early --fail-with-body -F,--form= --form-escape --form-string= -G,--get -g,--globoff --happy-eyeballs-timeout-ms= -I,--head -H,--header= -h,--help[=]
--http0.9 -0,--http1.0 --http1.1 --http2 --http2-prior-knowledge --http3 --http3-only --ignore-content-length -i,--include,--show-headers -k,--insecure -4,--ipv4 -6,--ipv6 --json=
-j,--junk-session-cookies --keepalive-time= --limit-rate= -l,--list-only -L,--location --location-trusted --max-filesize= --max-redirs= -m,--max-time= --next
--no-alpn -N,--no-buffer --no-keepalive --no-progress-meter --no-sessionid --noproxy= --oauth2-bearer= -o,--output=> -Z,--parallel --parallel-immediate --parallel-max=
--path-as-is --pinnedpubkey= --post301 --post302 --post303 -#,--progress-bar --proto= --proto-default= --proto-redir= -r,--range= --rate= --raw -e,--referer=
-R,--remote-time --remove-on-error -X,--request= --request-target= --resolve= --retry= --retry-all-errors --retry-connrefused --retry-delay= --retry-max-time= -S,--show-error
-s,--silent -Y,--speed-limit= -y,--speed-time= --ssl --ssl-reqd --stderr=> --styled-output --no-styled-output --suppress-connect-headers --tcp-fastopen --tcp-nodelay -z,--time-cond=
--tls-max= --tls13-ciphers= -1,--tlsv1 --tlsv1.0 --tlsv1.1 --tlsv1.2 --tlsv1.3 --tr-encoding --trace-time --trace-ids -T,--upload-file=< --url= --url-query= -B,--use-ascii -u,--user=
-A,--user-agent= -v,--verbose -V,--version -w,--write-out=~writeout --xattr --no-clobber --no-location --no-silent
!-K,--config=! !-c,--cookie-jar=> !-O,--remote-name !-J,--remote-header-name !--remote-name-all !--create-dirs !--output-dir=>/ !--trace=> !--trace-ascii=> !--etag-save=>
!--etag-compare=< !--libcurl=> !--hsts=> !--alt-svc=> !--engine=! !--unix-socket= !--abstract-unix-socket= !-x,--proxy= !--preproxy= !--socks4= !--socks4a= !--socks5=
!--socks5-hostname= !--doh-url= !--dns-servers= !--interface= !-E,--cert=< !--key=< !--capath=</ !-n,--netrc !--netrc-file=< !--netrc-optional !-P,--ftp-port= !-Q,--quote=
!-t,--telnet-option= !-U,--proxy-user= !--random-file= !--egd-file= !--krb= !--metalink !--pass= !--pubkey=< !--aws-sigv4= !--variable=
"""
    },
    "wget": {
        "": """
-q,--quiet -v,--verbose -nv,--no-verbose -S,--server-response --spider -t,--tries= -T,--timeout= --connect-timeout= --read-timeout= -U,--user-agent= --header= --no-check-certificate
-4,--inet4-only -6,--inet6-only -c,--continue -N,--timestamping -nc,--no-clobber --max-redirect= -O,--output-document=> --show-progress --progress= --retry-connrefused -w,--wait=
-V,--version -h,--help --limit-rate= -d,--debug !-o,--output-file=> !-a,--append-output=> !-P,--directory-prefix=>/ !-e,--execute= !-i,--input-file=< !-r,--recursive !-m,--mirror
!--use-askpass=! !--config=! !--save-cookies=> !--load-cookies=< !--warc-file=> !--rejected-log=> !-x !-k !-p !--post-file=< !--body-file=<
"""
    },
    "docker": {
        "": ":subs -D,--debug -l,--log-level= --tls --tlsverify -v,--version --help !--config=</ !-c,--context= !-H,--host= !--tlscacert=< !--tlscert=< !--tlskey=<",
        "ps": _DOCKER_PS,
        "images": _DOCKER_IMAGES,
        "logs": _DOCKER_LOGS,
        "inspect": "-f,--format= -s,--size --type=",
        "info": "-f,--format=",
        "version": "-f,--format=",
        "stats": "-a,--all --format= --no-stream --no-trunc",
        "top": "",
        "port": "",
        "diff": "",
        "history": "--format= -H,--human --no-trunc -q,--quiet",
        "events": "-f,--filter= --format= --since= --until=",
        "search": "-f,--filter= --format= --limit= --no-trunc",
        "container": ":subs",
        "container ls": _DOCKER_PS,
        "container list": _DOCKER_PS,
        "container ps": _DOCKER_PS,
        "container logs": _DOCKER_LOGS,
        "container inspect": "-f,--format= -s,--size",
        "image": ":subs",
        "image ls": _DOCKER_IMAGES,
        "image list": _DOCKER_IMAGES,
        "image inspect": "-f,--format=",
        "image history": "--format= -H,--human --no-trunc -q,--quiet",
        "volume": ":subs",
        "volume ls": "-f,--filter= --format= -q,--quiet",
        "volume inspect": "-f,--format=",
        "network": ":subs",
        "network ls": "-f,--filter= --format= --no-trunc -q,--quiet",
        "network inspect": "-f,--format= -v,--verbose",
        "system": ":subs",
        "system df": "--format= -v,--verbose",
        "system info": "-f,--format=",
        "pull": "-a,--all-tags -q,--quiet --platform= --disable-content-trust",
        "start": "-a,--attach -i,--interactive",
        "stop": "-t,--time,--timeout= -s,--signal=",
        "restart": "-t,--time,--timeout= -s,--signal=",
        "rm": "-f,--force -v,--volumes -l,--link",
        "rmi": "-f,--force --no-prune",
        "build": "-f,--file=< -t,--tag= --build-arg= --target= --platform= --no-cache --pull --progress= -q,--quiet --label= --rm --force-rm",
        "compose": "--ansi= --progress= --parallel= --profile= -p,--project-name= --compatibility --dry-run !-f,--file=! !--env-file=< !--project-directory=</",
        "compose ps": "-a,--all --filter= --format= --no-trunc --orphans[=] -q,--quiet --services --status=",
        "compose logs": _COMPOSE,
        "compose config": "-q,--quiet --services --volumes --images --profiles --format= --hash= --no-interpolate !-o,--output=>",
        "compose images": "--format= -q,--quiet",
        "compose top": "",
        "compose ls": "-a,--all --filter= --format= -q,--quiet",
        "compose up": "-d,--detach --build --no-build --force-recreate --no-recreate --no-deps --remove-orphans --wait --wait-timeout= --pull= --quiet-pull -t,--timeout= --no-start --abort-on-container-exit --no-log-prefix --no-color -V,--renew-anon-volumes",
        "compose down": "--remove-orphans -t,--timeout= -v,--volumes --rmi=",
        "compose build": "--no-cache --pull -q,--quiet --build-arg= --parallel",
        "compose restart": "-t,--timeout= --no-deps",
        "compose stop": "-t,--timeout=",
        "compose version": "-f,--format= --short",
    },
    "kubectl": {
        "": """:subs
-n,--namespace= --context= --request-timeout= -v,--v= --cluster= --match-server-version[=] --disable-compression[=] --warnings-as-errors[=] -h,--help --version
!--kubeconfig=! !-s,--server= !--token= !--user= !--username= !--password= !--as= !--as-group= !--as-uid= !--insecure-skip-tls-verify[=] !--cache-dir=>/
!--certificate-authority=< !--client-certificate=< !--client-key=< !--tls-server-name= !--profile= !--profile-output=> !--log-flush-frequency= !--vmodule=
""",
        "get": _KUBE_GET,
        "describe": _KUBE_GET,
        "logs": """
--all-containers[=] --all-pods[=] -c,--container= -f,--follow[=] --ignore-errors[=] --limit-bytes= --max-log-requests= --pod-running-timeout= --prefix[=] -p,--previous[=]
-l,--selector= --since= --since-time= --tail= --timestamps[=]
""",
        "top": "-A,--all-namespaces --containers[=] --no-headers[=] -l,--selector= --sort-by= --sum[=] --field-selector=",
        "version": "--client[=] -o,--output=",
        "explain": "--recursive[=] --api-version= -o,--output=",
        "api-resources": "--namespaced[=] -o,--output= --verbs= --api-group= --no-headers[=] --sort-by= --cached[=]",
        "events": "-A,--all-namespaces --for= -o,--output= --types= -w,--watch[=] --no-headers[=]",
        "cluster-info": "",
        "config": "-o,--output= --minify[=] --flatten[=] --no-headers[=]",
        "rollout": "-w,--watch[=] --timeout= --revision= -l,--selector=",
        "diff": "-R,--recursive[=] -f,--filename=< -l,--selector=",
    },
    "helm": {
        "": ":subs -n,--namespace= -h,--help --debug !--kube-context= !--kubeconfig=< !--registry-config=< !--repository-cache=</ !--repository-config=< !--kube-apiserver= !--kube-token= !--kube-as-user= !--burst-limit= !--qps=",
        "list": "-A,--all-namespaces -a,--all --deployed --failed --pending -q,--short -o,--output= -f,--filter= -l,--selector= -m,--max= --offset= -d,--date -r,--reverse --no-headers --superseded --uninstalled --time-format=",
        "status": "--revision= -o,--output= --show-desc --show-resources",
        "history": "--max= -o,--output=",
        "get": "--revision= -a,--all -o,--output= --template=",
        "version": "--short --template=",
        "lint": "--strict --quiet --set= --set-string= -f,--values=< --with-subcharts",
        "search": "-o,--output= -l,--versions --devel --max-col-width= --version= -r,--regexp",
        "show": "--version= --devel",
    },
    "systemctl": {
        "": ":subs -h,--help --version --no-pager -l,--full -q,--quiet --no-legend --plain --user --system -a,--all -n,--lines= -o,--output= -t,--type= --state= --failed !-H,--host= !-M,--machine= !--root=</ !--image=<",
        "status": "--no-ask-password --with-dependencies",
        "show": "-p,--property= --value",
        "list-units": "",
        "is-active": "",
    },
    "journalctl": {
        "": "-u,--unit= -n,--lines= -f,--follow -b,--boot[=] --since,-S= --until,-U= --no-pager -o,--output= -p,--priority= -r,--reverse -x,--catalog -k,--dmesg -e,--pager-end -q,--quiet -g,--grep= --user --system -t,--identifier= -a,--all --no-hostname --disk-usage --list-boots -h,--help --version"
    },
    "apt": {
        "": ":subs -h,--help -v,--version -q,--quiet !-o,--option= !-c,--config-file=! !-t,--target-release=",
        "list": "--installed --upgradable -a,--all-versions --manual-installed --verbose",
        "show": "-a,--all-versions",
        "search": "-n,--names-only -f,--full",
        "policy": "",
    },
    "dpkg": {
        "": "-l,--list -L,--listfiles -s,--status -S,--search -p,--print-avail --get-selections --version --help --print-architecture -I,--info -c,--contents"
    },
    "terraform": {
        "": ":word :exact :subs :twodash -chdir= -help -version -v",
        "plan": ":twodash -destroy -refresh-only -refresh= -replace= -target= -var= -var-file=< -compact-warnings -detailed-exitcode -input= -lock= -lock-timeout= -no-color -parallelism= -json -out=> !-state=> !-generate-config-out=>",
        "apply": ":twodash -auto-approve -input= -lock= -lock-timeout= -no-color -parallelism= -refresh= -target= -var= -var-file=< -compact-warnings -json -destroy -refresh-only -replace= !-state=> !-state-out=> !-backup=>",
        "destroy": ":twodash -auto-approve -target= -var= -var-file=< -no-color -lock= -input=",
        "validate": ":twodash -json -no-color -no-tests -test-directory=</",
        "fmt": ":twodash -check -diff -recursive -list= -write=false -no-color",
        "show": ":twodash -json -no-color",
        "output": ":twodash -json -raw -no-color !-state=<",
        "init": ":twodash -backend=false -input= -no-color -upgrade -reconfigure -lockfile= -get=",
        "version": ":twodash -json",
        "state": ":twodash -id=",
        "providers": "",
        "graph": ":twodash -type= -draw-cycles -plan=<",
    },
    "gh": {
        "": ":subs --version --help -h -R,--repo= !--hostname=",
        "api": "-H,--header= -q,--jq= -t,--template= --paginate --slurp --cache= -i,--include --silent --verbose -p,--preview= -X,--method=GET|get|HEAD !-f,--raw-field= !-F,--field= !--input=< !--hostname=",
        "pr": ":subs -R,--repo=",
        "pr list": _GH_LIST,
        "pr view": _GH_VIEW,
        "pr status": "--json= -q,--jq= -t,--template= -c,--conflict-status",
        "pr diff": "--name-only --patch --color=",
        "pr checks": "--required --watch -i,--interval= --fail-fast --json= -q,--jq= -t,--template=",
        "pr checkout": "-b,--branch= --detach -f,--force --recurse-submodules",
        "pr create": _GH_TEXT
        + " -B,--base= -H,--head= -d,--draft -f,--fill --fill-first --fill-verbose -r,--reviewer= --no-maintainer-edit --dry-run",
        "pr comment": _GH_TEXT + " --edit-last",
        "pr edit": _GH_TEXT
        + " -B,--base= --add-label= --remove-label= --add-reviewer= --remove-reviewer= --add-assignee=",
        "pr ready": "--undo",
        "issue": ":subs -R,--repo=",
        "issue list": _GH_LIST,
        "issue view": _GH_VIEW,
        "issue status": "--json= -q,--jq= -t,--template=",
        "issue create": _GH_TEXT,
        "issue comment": _GH_TEXT + " --edit-last",
        "issue edit": _GH_TEXT + " --add-label= --remove-label= --add-assignee= --remove-assignee=",
        "run": ":subs -R,--repo=",
        "run list": "-L,--limit= -b,--branch= -w,--workflow= -u,--user= -e,--event= -s,--status= -c,--commit= --json= -q,--jq= -t,--template= -a,--all --created=",
        "run view": "-j,--job= --log --log-failed -v,--verbose --exit-status -a,--attempt= --json= -q,--jq= -t,--template=",
        "run watch": "--exit-status -i,--interval= --compact",
        "run download": "-n,--name= -p,--pattern= -D,--dir=>/",
        "repo": ":subs",
        "repo view": "--json= -q,--jq= -t,--template= -b,--branch=",
        "repo list": "-L,--limit= --json= -q,--jq= -l,--language= --source --fork --visibility= --archived --no-archived --topic=",
        "release": ":subs -R,--repo=",
        "release list": "-L,--limit= --json= -q,--jq= --exclude-drafts --exclude-pre-releases -O,--order=",
        "release view": "--json= -q,--jq= -t,--template=",
        "workflow": ":subs -R,--repo=",
        "workflow list": "-a,--all -L,--limit= --json= -q,--jq=",
        "workflow view": "-y,--yaml -r,--ref=",
        "auth": ":subs",
        "auth status": "-a,--active",
        "search": "-L,--limit= --json= -q,--jq= --owner= --repo= --language= --state= --author= --label= --sort= --order= --match= --filename= --extension=",
    },
    "openssl": {"": ":word :exact :subs -help", "version": "-a -v -b -d -e -f -o -p -r -m -c -help"},
    "sqlite3": {"": _SQL},
    "perl": {"": ":exact -v --version -V -w -W -t -T -c -h"},
    "ruby": {"": ":exact -v --version --copyright -w -W[=~number] -c -h --help"},
    "php": {"": ":exact -v --version -i -m -l -h --help -n --ini"},
    "lua": {"": ":exact -v -h"},
    "rake": {
        "": """
-T,--tasks[=] -P,--prereqs -n,--dry-run -q,--quiet -s,--silent -v,--verbose -t,--trace[=] -m,--multitask -j,--jobs[=] -A,--all -D,--describe[=] -N,--no-search,--nosearch -h,--help,-H
-V,--version -B,--build-all --backtrace[=] --comments !-r,--require=! !-f,--rakefile=! !-R,--rakelibdir=! !-I,--libdir=! !-e,--execute= !-E,--execute-continue= !-p,--execute-print=
!-g,--system !-G !-X
"""
    },
    "rspec": {
        "": """
-f,--format=p|d|j|h|progress|documentation|json|html|failures -e,--example= -E,--example-matches= -t,--tag= --fail-fast[=] --no-fail-fast --only-failures -n,--next-failure
--order= --seed= -c,--color,--colour --no-color --force-color -p,--profile[=] --no-profile --dry-run -w,--warnings -b,--backtrace -h,--help -v,--version -P,--pattern= --exclude-pattern=
--no-fail-fast --failure-exit-code= -o,--out=> !-r,--require=! !-I=! !-O,--options=! !-d,--drb !-X !--init !--bisect[=] !--default-path=</
"""
    },
    "rubocop": {
        "": "-a? -D,--display-cop-names -f,--format=progress|simple|clang|json|offenses|files|quiet|emacs --only= --except= -l,--lint -P,--parallel --no-parallel --fail-level= -F,--fail-fast -S,--display-style-guide -v,--version -V -h,--help --no-color --color --cache= !-r,--require=! !-c,--config=! !-a !-A !-o,--out=> !--autocorrect"
    },
    "bundle": {
        "": ":subs -V,--verbose -v,--version --no-color -r,--retry=",
        "list": "--name-only --paths --only-group= --without-group=",
        "show": "--paths --outdated",
        "info": "--path --version",
        "check": "--dry-run",
        "outdated": "--strict --parseable --filter-major --filter-minor --filter-patch --groups --group= --pre --local --only-explicit",
        "install": "--quiet --local --jobs= --retry= --frozen --deployment --without= --with= --redownload",
        "exec": "--keep-file-descriptors !--gemfile=!",
    },
    "gem": {
        "": ":subs -h,--help -v,--version -V,--verbose -q,--quiet --silent --backtrace --debug --norc !--config-file=!",
        "list": "-l,--local -r,--remote -b,--both -a,--all -d,--details --no-details --versions --no-versions -e,--exact --prerelease -n,--name-matches= -i,--installed -I --version= -u !-s,--source= !-p,--http-proxy[=]",
        "info": "-l,--local -r,--remote -a,--all -e,--exact --prerelease --version= !-s,--source=",
        "outdated": "-l,--local -r,--remote --platform= !-s,--source=",
        "search": "-r,--remote -a,--all -e,--exact -d,--details --prerelease !-s,--source=",
    },
    "brew": {
        "": ":subs -h,--help -v,--version,--verbose -q,--quiet -d,--debug",
        "list": "--formula,--formulae --cask,--casks --versions --json[=] -1 -l -r -t --full-name --pinned --multiple",
        "info": "--json[=] --installed --all --analytics --formula --cask !--github",
        "outdated": "--json[=] --formula --cask -g,--greedy --fetch-HEAD",
        "search": "--formula --cask --desc",
        "deps": "--tree --installed -n --1 --include-build",
    },
    "phpunit": {
        "": """
--filter= --testsuite= --group= --exclude-group= --list-tests --list-groups --list-suites --stop-on-failure --stop-on-error --stop-on-warning --stop-on-risky --stop-on-skipped
--stop-on-incomplete --stop-on-defect --testdox --debug -v,--verbose --colors[=] --no-coverage --order-by= --random-order --random-order-seed= --repeat= --process-isolation --no-logging --no-output --no-progress
--display-warnings --display-deprecations --display-notices --display-skipped --display-incomplete --display-errors --version -h,--help --fail-on-warning --fail-on-risky --fail-on-skipped
--fail-on-incomplete --strict-coverage --columns= --cache-result --do-not-cache-result --no-interaction --no-configuration --no-extensions
"""
    },
    "composer": {
        "": ":subs -n,--no-interaction -q,--quiet -v,-vv,-vvv,--verbose --no-ansi --ansi --no-plugins --no-scripts --no-cache -V,--version -h,--help --profile -d,--working-dir=~inside",
        "show": "-i,--installed -a,--available --all -p,--platform -t,--tree -D,--direct -o,--outdated -l,--latest -m,--minor-only -f,--format= -N,--name-only -P,--path -s,--self --no-dev --ignore= --locked -M,--major-only --strict",
        "outdated": "-a,--all -D,--direct -m,--minor-only -f,--format= --strict --locked --no-dev --ignore=",
        "validate": "--no-check-all --no-check-publish --no-check-lock --strict --with-dependencies -A --no-check-version",
        "install": "--no-dev --dev --dry-run --prefer-dist --prefer-source --no-progress -o,--optimize-autoloader --ignore-platform-reqs --no-suggest",
        "audit": "--no-dev -f,--format= --locked",
    },
    "mix": {
        "": ":subs -h,--help -v,--version",
        "test": """
--cover --trace --failed --stale --only= --include= --exclude= --seed= --max-failures= --color --no-color --slowest= --warnings-as-errors --max-cases= --force --no-compile --no-deps-check --no-start
--partitions= --raise --timeout= --exit-status= --profile-require= --listen-on-stdin --all-warnings !--formatter= !-r,--require=! !--import= !--export-coverage=
""",
        "format": "--check-formatted --dry-run --check-equivalent",
        "compile": "--warnings-as-errors --force --all-warnings --no-deps-check",
        "deps": "--all",
    },
    "bats": {
        "": """
-c,--count -f,--filter= -j,--jobs= -r,--recursive -t,--tap -T,--timing -p,--pretty --verbose-run --print-output-on-failure --show-output-of-passing-tests -x,--trace --filter-tags= --filter-status=
--no-parallelize-across-files --no-parallelize-within-files -h,--help -v,--version -F,--formatter=pretty|tap|tap13|junit !--report-formatter= !-o,--output=>/ !--gather-test-outputs-in=>/
!--code-quote-style= !--tempdir=>/ !--setup-suite-file=!
"""
    },
    "task": {
        "": "-l,--list -a,--list-all -s,--silent -n,--dry -f,--force -p,--parallel -v,--verbose -y,--yes --status --summary -h,--help --version -c,--color[=] -j,--json -C,--concurrency= -o,--output= -x,--exit-code -d,--dir=~inside !-t,--taskfile=! !-g,--global !-w,--watch !-i,--init"
    },
    "just": {
        "": "-l,--list --summary -n,--dry-run -q,--quiet -v,--verbose --evaluate --show= -s= --variables --dump --version -V -h,--help --color= --highlight --no-highlight --unsorted -u -d,--working-directory=~inside !-f,--justfile=! !--shell=! !--shell-arg= !-c,--command= !--set= !--choose !--chooser= !-e,--edit !--init !--fmt !--dotenv-path=< !--dotenv-filename="
    },
    "shellcheck": {
        "": ":safe -a,--check-sourced -C,--color[=] -i,--include= -e,--exclude= --extended-analysis= -f,--format= --list-optional --norc --rcfile=< -o,--enable= -P,--source-path= -s,--shell= -S,--severity= -V,--version -W,--wiki-link-count= -x,--external-sources --help"
    },
    "sed": {
        "": "-n,--quiet,--silent -e,--expression= -E,-r,--regexp-extended -s,--separate -u,--unbuffered -z,--null-data,--zero-terminated -l,--line-length= -b,--binary --posix --debug --sandbox --follow-symlinks --help --version !-i,--in-place[=] !-f,--file=<"
    },
    "awk": {
        "": """:exact
-F,--field-separator= -v,--assign= --posix -P --re-interval -r --sandbox -S --csv -k -N,--use-lc-numeric -M,--bignum -b,--characters-as-bytes -n,--non-decimal-data -O,--optimize -s,--no-optimize -t,--lint-old
-c,--traditional --version -V --help -h -C,--copyright -e,--source= -L,--lint[=~word] !-f,--file=! !-i,--include=! !-l,--load=! !-E,--exec=! !-D,--debug[=] !-o,--pretty-print[=>] !-p,--profile[=>]
!-d,--dump-variables[=>] !-W= !-I,--trace !-g,--gen-pot
"""
    },
}
for _name in ("gsed",):
    OPTIONS[_name] = OPTIONS["sed"]
for _name in ("gawk", "mawk", "nawk"):
    OPTIONS[_name] = OPTIONS["awk"]
for _name in ("apt-get", "apt-cache"):
    OPTIONS[_name] = OPTIONS["apt"]
OPTIONS["podman"], OPTIONS["tofu"] = OPTIONS["docker"], OPTIONS["terraform"]
