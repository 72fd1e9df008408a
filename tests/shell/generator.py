"""Make shell texts: from a grammar, and by damaging others."""

from random import Random

NAMES = ["c1", "c2", "c3", "f1", "f2", "git", "rm", "npm", "c-1", "c.2"]
PLAIN = [
    "a",
    "b1",
    "-x",
    "--long=v",
    "x=1",
    "a:b",
    "1",
    "22",
    "@",
    "%1",
    "+",
    "a#b",
    "!",
    "{}",
    "}",
    "]",
    "a]",
    "^a",
    "if",
    "do",
    "done",
    "in",
    "=",
    "a=b=c",
    "[",
    "[[",
]
VARIABLES = [
    "$x",
    "${x}",
    "$1",
    "$@",
    "$*",
    "$#",
    "$?",
    "${x:-a}",
    "${x:=b}",
    "${x#a}",
    "${x%%b}",
    "${#x}",
    "${x/a/b}",
    "${x:1}",
    "${x:0:1}",
    "${x^^}",
    "${y[0]}",
    "${y[@]}",
    "${x:+c}",
    "${x//\\//-}",
    "${x-$(c3)}",
    "${x:-'a b'}",
    '${x:-"a b"}',
    "$UNSET",
    "${x@Q}",
    "${x,}",
    "$-",
    "$$x",
    "$_",
]
QUOTED = [
    "'a b'",
    '"a b"',
    "''",
    '""',
    "'a'\"b\"",
    "\\ ",
    "\\'",
    '\\"',
    "a\\ b",
    "\\$x",
    "\\\\",
    '"$x"',
    '"${x}y"',
    '"a\\"b"',
    '"a\\$b"',
    '"a\\nb"',
    "'$x'",
    '"`c3`"',
    "$'a\\tb'",
    "$'\\'x'",
    "$'\\x41\\101'",
    '$"a"',
    "'a\nb'",
    '"a\nb"',
    '"$@"',
    '"a$@b"',
    '"$(c2 "x y")"',
    '"it\'s"',
    "'\"'",
    "a'b'c\"d\"e",
    "\\a",
    "\\\n",
    "a\\\nb",
    '"a\\\nb"',
    '"$"',
    "$",
    '"a$"',
    "'#'",
    "\\#",
    '"${x:-$@}"',
    '"!"',
    "\\*",
    "'*'",
    "\\{a,b\\}",
    "{a\\,b}",
    "'{a,b}'",
    "\\~",
]
PATTERNS = [
    "*",
    "?",
    "a*",
    "[ab]",
    "d*",
    "*.x",
    "{a,b}",
    "x{a,b}y",
    "{1..3}",
    "{a}",
    "{,a}",
    "~",
    "~x",
    "a~",
    "x=~",
    "[a",
    "[!a]*",
    "{a,b}{c,d}",
    "{a,{b,c}}",
    "{'a',b}",
    "{a..c}",
    "{$x,b}",
    "a{b",
    "a}b",
    "{a,b}c}",
    "[]",
    "[a]b",
    "d*d",
]
SUBSTITUTIONS = [
    "$(c1)",
    "`c2`",
    "$(c1 a)",
    "<(c2 a)",
    "$(c1; c2)",
    "$(c1 | c3)",
    "$( (c1) )",
    "$(c1 $(c2))",
    '"$(c1)"',
    "$(c1 'a)' b)",
    "$(c1 # )\n)",
    "$((1+2))",
    "$(( 1 < 2 ))",
    "$((x=3))",
    "`c1 $(c2)`",
    "$(< o1)",
    "$(c1 >&2)",
    "$(case a in a) c1;; esac)",
    "$(\nc1\n)",
    "$(c1 \\) a)",
    "$((2*(3+4)))",
    "$(c1 <<E\na\nE\n)",
    '"$(c1 "$(c2)")"',
    "`c1 'a b'`",
    '$(c1 "a)b")',
]
REDIRECTS = [
    "> o1",
    ">o2",
    ">> o1",
    "2> o3",
    "2>&1",
    ">&2",
    "&> o1",
    "&>> o2",
    ">| o1",
    "<> o4",
    "< o1",
    "> d/o5",
    ">$x",
    "> $UNSET",
    ">'o 6'",
    "> o{7,8}",
    "2>&-",
    "<<< a",
    '<<< "$x"',
    "> >(c3)",
    "< <(c1)",
    ">& o9",
    "1>&2",
    "3> o3",
    "> \\o1",
    ">\\\no1",
    "2>\\\no1",
    "<<<$(c2)",
    "> o$x",
    ">o*",
]
CHEAP = [
    ":",
    "true",
    "false",
    "echo a",
    "cd d",
    "cd e",
    "cd d/d",
    "cd x",
    "cd -",
    "cd",
    "[ -f o1 ]",
    '[ "$x" = a ]',
    "test -d d",
    "printf %s a",
    "export V1=a",
    "export x",
    "set -e",
    "set -u",
    "set -f",
    "set -- a b",
    "shift",
    "[[ $x == a* ]]",
    "[[ -f o1 && ! -d d ]]",
    "[[ a =~ (a|b)+ ]]",
    "[[ 1 -lt 2 ]]",
    "((1 < 2))",
    "(( i = 1 ))",
    "read x",
    "eval c1 a",
    "eval 'c1; c2'",
    "eval 'cd d'",
    "command c1 a",
    "command cd d",
    "builtin cd e",
    "command -v c1",
    "pushd d",
    "popd",
    "x=1",
    "V1=a V2=b",
    "x+=1",
    "y=(a b)",
    "y=(c1 'a b' $(c2))",
    "y+=(c)",
    "unset x",
    "shopt -s nullglob",
    "type c1",
    "pwd",
    "wait",
    "trap 'c3' EXIT",
    "trap - EXIT",
    "local x=1",
    "declare x=2",
    "readonly Z=1",
    "times",
    "umask",
    "IFS=x",
    "hash -r",
    "command eval c1",
    "let x=1",
    "i=1",
    "i=$((i+1))",
    "echo $((i*2))",
    "alias c1=c2",
    "! true",
    "time c1",
    "time -p c2",
    "command -p c1",
    "exit",
    "exit 1",
    "return",
    "break",
    "y[0]=a",
    "y[i]=b",
    "V1=$x",
    "V1='a b'",
    "source o1",
    "mapfile -t y",
    "printf -v x a",
    "getopts a x",
]
DELIMITERS = [("E", "E"), ("'E'", "E"), ('"E"', "E"), ("\\E", "E"), ("E'F'", "EF")]
BODIES = [
    "a\n",
    "",
    "$x\n",
    "$(c3)\n",
    "`c2 a`\n",
    "a\\\nE\n",
    "\\$x\n",
    "'a\n",
    '"b\n',
    "E \n",
    " E\n",
    "\tE1\n",
    "$(c1 'x\ny')\n",
    "${x:-a}\n",
    "$((1+1))\n",
    "EE\n",
    "a\\\\\n",
    "${x:-$(c2)}\n",
]
NASTY = [
    *list("'\"\\$`(){}[]<>|&;#!*?~=\n\t -+@%^,:0123abcdox"),
    "\\\n",
    "$(",
    "${",
    "<<E",
    "\nE\n",
    "&&",
    "||",
    ";;",
    "((",
    "))",
    "[[",
    "]]",
    "2>",
    "$'",
    "esac",
    "fi",
    "done",
    "if ",
    "then ",
    "do ",
    " in ",
    "case ",
    "time ",
    "function ",
    "c1()",
    " # ",
    "<(",
    "`c1`",
    "x=",
    "y=(",
    "&>",
    "|&",
    ">&",
    "{ ",
    " }",
    "! ",
]
SEPARATORS = [
    "; ",
    ";",
    "\n",
    " && ",
    " || ",
    " & ",
    " | ",
    "\n\n",
    " |& ",
    "&&",
    "|",
    " &&\n",
    " |\n",
    ";\n",
    " ; ",
    " # c\n",
    " \\\n&& ",
    " |\\\n",
    "& ",
]


class Generator:
    """One stream of texts from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 -- test data
        self.heredocs: list[str] = []

    def text(self, others: list[str] | None = None) -> str:
        """Return one text: new, or another one damaged."""
        roll = self.random.random()
        if others and roll < 0.25:
            return self.damaged(self.random.choice(others))
        made = self.program(self.random.choice([1, 1, 2, 2, 3]))
        return self.damaged(made) if roll < 0.6 else made

    def damaged(self, text: str) -> str:
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            at = self.random.randrange(len(text) + 1)
            end = min(len(text), at + self.random.choice([0, 0, 0, 1, 1, 2, 5]))
            text = text[:at] + self.random.choice([*NASTY, "", ""]) + text[end:]
        return text

    def program(self, depth: int) -> str:
        self.heredocs = []
        return self.close(self.items(depth))

    def close(self, text: str) -> str:
        """Put the bodies of the here-documents behind the line that announced them, if it is the last one."""
        if self.heredocs:
            text += "\n" + "".join(self.heredocs)
            self.heredocs = []
        return text

    def items(self, depth: int) -> str:
        parts = [self.command(depth)]
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 3])):
            separator = self.random.choice(SEPARATORS)
            if self.heredocs and "\n" in separator:
                separator = "\n" + "".join(self.heredocs)
                self.heredocs = []
            parts.extend([separator, self.command(depth)])
        return "".join(parts)

    def command(self, depth: int) -> str:
        roll = self.random.random()
        if depth > 0 and roll < 0.3:
            return self.compound(depth - 1)
        if roll < 0.5:
            return self.random.choice(CHEAP)
        return self.simple()

    def compound(self, depth: int) -> str:
        body, other = self.inside(depth), self.inside(depth)
        made = self.random.choice(
            [
                "{ %s; }",
                "( %s )",
                "(%s)",
                "if %s; then %s; fi",
                "if %s; then %s; else c3; fi",
                "for i in 1 2; do %s; done",
                "for x in a $x 'b c'; do %s; done",
                "for x in a b\ndo %s\ndone",
                "for x; do %s; done",
                "for ((i=0;i<2;i++)); do %s; done",
                "while f1; do %s; done",
                "until c1; do %s; done",
                "case a in a) %s;; b|c) %s;; esac",
                "case $x in (a) %s;; *) %s; esac",
                "case a in a) %s;& b) %s;; esac",
                "g() { %s; }; g a",
                "g() { %s; }\ng",
                "function h { %s; }; h",
                "{ %s; } > o1",
                "( %s ) 2>&1",
                "! { %s; }",
                "time { %s; }",
                "(cd d && %s)",
                "if cd e; then %s; fi; %s",
                "cd d && %s",
                "cd d || %s",
                "cd x || exit; %s",
                "while read x; do %s; done < o1",
                "for i in {1..2}; do %s; done",
                "if ! %s; then %s; fi",
                "{ %s\n}",
                "if %s\nthen %s\nfi",
                "(%s\n)",
                "{ { %s; } }",
                "((%s))",
                "case x in esac; %s",
            ]
        )
        return made.replace("%s", body, 1).replace("%s", other)

    def inside(self, depth: int) -> str:
        outer, self.heredocs = self.heredocs, []
        made = self.close(self.items(depth))
        self.heredocs = outer
        return made

    def simple(self) -> str:
        parts: list[str] = []
        if self.random.random() < 0.15:
            parts.append(
                self.random.choice(
                    [
                        "V1=a",
                        "V1=",
                        "V1='a b'",
                        "V2=$x",
                        "V1+=c",
                        'V1="$x"',
                        "V1=$(c2)",
                        "V1=~",
                        "V1=a{b,c}",
                        "V1=a:b",
                        "V1=*",
                        "V1=\\ a",
                    ]
                )
            )
        parts.append(self.name())
        parts.extend([self.word() for _ in range(self.random.choice([0, 1, 1, 2, 3]))])
        if self.random.random() < 0.2:
            parts.insert(self.random.randrange(len(parts) + 1), self.redirect())
        return self.random.choice([" ", " ", " ", "\t", "  ", " \\\n"]).join(parts)

    def name(self) -> str:
        roll = self.random.random()
        if roll < 0.85:
            return self.random.choice(NAMES)
        return self.random.choice(
            [
                "'c1'",
                "c\\1",
                '"c2"',
                "c''3",
                "$x",
                '"$x"',
                "c\\\n1",
                "'if'",
                "\\if",
                "{c1,c2}",
                "$'c1'",
                "c1\\ x",
                "c1$x",
                "~",
                "`c1`",
                "$(c2)",
                "'c1 x'",
                "a=b\\=c",
                "\\a=b",
                "'a'=b",
                "c*",
                "env",
                "sudo",
                "timeout",
            ]
        )

    def word(self) -> str:
        kind = self.random.choice([PLAIN, PLAIN, VARIABLES, QUOTED, QUOTED, PATTERNS, SUBSTITUTIONS])
        made = self.random.choice(kind)
        if self.random.random() < 0.25:
            made += self.random.choice(self.random.choice([PLAIN, VARIABLES, QUOTED, PATTERNS, SUBSTITUTIONS]))
        return made

    def redirect(self) -> str:
        if self.random.random() < 0.25:
            written, plain = self.random.choice(DELIMITERS)
            tabs = self.random.random() < 0.3
            self.heredocs.append(
                "".join(self.random.choices(BODIES, k=self.random.randrange(3))) + ("\t" if tabs else "") + plain + "\n"
            )
            return ("<<-" if tabs else "<<") + self.random.choice(["", " "]) + written
        return self.random.choice(REDIRECTS)
