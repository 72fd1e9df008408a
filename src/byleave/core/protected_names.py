"""The names of files and directories that start programs later, or steer byleave, agents, editors, shells and git.

Data only. A name counts at every depth of the workspace, in the home directory and everywhere else. `*` is one name, a
`**` any number of them. What is edited as part of ordinary work and runs only on request (Makefile,
package.json, conftest.py, AGENTS.md, workflows of a CI) is not here: what runs unasked, at the next prompt, commit,
login or start of an editor or agent, is.
"""

# In the root of a workspace the kernel holds these, too, while a sandbox runs, there or not yet: each costs a mount.
HELD = (
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",  # read like .git/config
    ".git/commondir",  # says where .git/config and .git/hooks are
    ".mcp.json",
    ".mcp-gateway-rules.json",
    ".claude",
    ".codex",
    ".gemini",
    ".cursor",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".qwen",
    ".vibe",
    ".goose",
    ".kimi",
    ".kiro",
    ".windsurf",
    ".roo",
    ".clinerules",
    ".factory",
    ".amp",
    ".zed",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".dir-locals.el",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    ".envrc",
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".config/fish",
)

# Never writable, whatever a rule says: byleave's own configuration, and the settings that hold an agent's hooks.
GUARDED = (
    "byleave.toml",
    ".byleave",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".gemini/settings.json",
    ".cursor/hooks.json",
    ".cursor/cli.json",
)

# The same, where only users have them: no empty directory is made for these in a workspace.
GUARDED_ELSEWHERE = (
    ".config/byleave",  # where an installed hook looks, whatever BYLEAVE_HOME says
    ".local/state/byleave",
    ".config/opencode/plugins",  # whatever lies there is run
    ".config/opencode/plugin",
    ".opencode/plugins",
    ".opencode/plugin",
    ".cursor/cli-config.json",
    ".qwen/settings.json",
    ".copilot/hooks",
    ".copilot/settings.json",
    ".copilot/config.json",
    ".github/hooks",
    ".github/copilot/settings.json",
    ".github/copilot/settings.local.json",
    ".cline/hooks",
    ".clinerules/hooks",
    "Documents/Cline/Hooks",
)

# What git obeys, in a `.git` itself, in that of a worktree, and in those of submodules.
_GIT_FILES = ("config", "config.worktree", "hooks", "commondir", "info/attributes")
_GIT = (
    *(f".git/{file}" for file in _GIT_FILES),
    *(f".git/worktrees/*/{file}" for file in (*_GIT_FILES, "gitdir")),
    *(f".git/modules/**/{file}" for file in _GIT_FILES),
    *(".gitconfig", ".config/git", ".githooks"),
    *(".husky", "lefthook.yml", ".lefthook.yml", "lefthook.yaml", ".lefthook.yaml", "lefthook-local.yml"),
    *("lefthook.toml", ".lefthook.toml", "lefthook.json", ".lefthook.json", ".lefthook", ".lefthook-local"),
    *(".pre-commit-config.yaml", ".pre-commit-config.yml", ".overcommit.yml", ".git-hooks", ".captainhook.json"),
    *(".hg/hgrc", ".hgrc", ".config/hg", ".subversion/config", ".jj/repo/config.toml", ".jjconfig.toml", ".config/jj"),
    *(".sl/config", ".slrc", ".config/sapling", "_darcs/prefs", ".darcs", ".pijul/config", ".config/pijul"),
)

# Agents: settings, hooks, servers that they start, programs that they run by themselves.
_AGENTS = (
    *(".claude.json", ".config/claude", ".claude-plugin", ".config/Claude"),
    *("opencode.json", "opencode.jsonc", ".opencode.json", ".config/opencode"),
    *(".kimi", ".kimi.toml", ".kiro", ".windsurf", ".codeium", ".devin", ".cascade", ".config/windsurf"),
    *(".roo", ".roomodes", ".cline", ".clinerules", ".kilocode", ".kilocodemodes", ".continue", ".continuerc.json"),
    *(".aider.conf.yml", ".aider.model.settings.yml", ".goose", ".config/goose", ".amp", ".config/amp", ".factory"),
    *(".copilot", ".github/hooks", ".github/copilot", ".config/github-copilot", ".junie", ".augment", ".trae"),
    *(".crush", "crush.json", ".crush.json", ".config/crush", ".local/share/crush", ".iflow", ".qoder", ".codebuddy"),
    *(".openhands", ".amazonq", ".aws/amazonq", ".rovodev", ".tabnine", ".warp", ".forge", "forge.yaml", ".pi"),
    *(".acpx", ".jetbrains", ".config/acpx", ".toad", ".config/toad", ".openclaw", ".hermes", ".antigravity"),
    *(".config/mcphub", ".config/mcp", ".lmstudio/mcp.json", ".autohand", ".blackbox", ".codex-plugin"),
    *(
        ".grok",
        ".zencoder",
        ".gptme",
        "gptme.toml",
        ".config/gptme",
        ".codebuff",
        ".conductor",
        ".kimi-code",
        ".nanocoder",
    ),
)

# Editors: what they run when a directory or a file is opened.
_EDITORS = (
    *(".vscode-server", ".vscode-oss", ".vscode-insiders", ".cursor-server", ".config/Code", ".config/VSCodium"),
    *(".config/Cursor", ".config/zed", ".fleet", ".config/JetBrains", ".nova", ".theia", ".devcontainer.json"),
    *(".vimrc", ".gvimrc", ".vim", ".exrc", ".nexrc", "_vimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".config/nvim"),
    *(".config/vim", ".local/share/nvim/site", ".vsvimrc", ".ideavimrc", ".config/ideavim"),
    *(".emacs", ".emacs.el", ".emacs.d", ".config/emacs", ".dir-locals.el", ".dir-locals-2.el", ".spacemacs"),
    *(".spacemacs.d", ".doom.d", ".config/doom", ".helix", ".config/helix", ".config/kak", ".kakrc"),
    *(".config/sublime-text", ".config/micro", ".nanorc", ".config/nano", ".lapce", ".config/lapce-stable"),
    *("Library/Application Support/Code", "Library/Application Support/Cursor", "Library/Application Support/Zed"),
    *("Library/Application Support/Claude", "Library/Application Support/JetBrains"),
)

# Shells and what a session, a desktop, a terminal or the machine's clock starts.
_SESSIONS = (
    *(".bashrc.d", ".bash_functions", ".bash_completion", ".inputrc", ".config/bash", ".config/zsh", ".zsh"),
    *(".oh-my-zsh", ".zprezto", ".zpreztorc", ".zimrc", ".zinit", ".zplug", ".p10k.zsh", ".mkshrc", ".shinit"),
    *(".config/nushell", ".config/powershell", ".config/elvish", ".elvish", ".xonshrc", ".config/xonsh"),
    *(".direnvrc", ".config/direnv", ".autoenv.zsh", "mise.toml", ".mise.toml", "mise.local.toml", ".mise"),
    *(".mise.local.toml", ".config/mise", ".config/starship.toml", ".config/atuin", ".hushlogin", ".environment"),
    *(".config/environment.d", ".pam_environment", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".xserverrc"),
    *(".Xresources", ".Xdefaults", ".xbindkeysrc", ".config/sxhkd", ".config/autostart", ".config/autostart-scripts"),
    *(".config/plasma-workspace", ".config/systemd", ".local/share/systemd", ".local/share/applications"),
    *(".local/share/dbus-1", ".local/share/kservices5", ".config/upstart", ".config/lxsession", ".config/openbox"),
    *(".config/i3", ".i3", ".config/sway", ".config/hypr", ".config/bspwm", ".config/awesome", ".config/qtile"),
    *(".config/xmonad", ".xmonad", ".config/niri", ".config/river", ".config/waybar", ".config/polybar"),
    *(".config/kitty", ".config/alacritty", ".config/wezterm", ".wezterm.lua", ".config/ghostty", ".config/foot"),
    *(".tmux.conf", ".tmux", ".config/tmux", ".screenrc", ".config/zellij", ".byobu", ".config/byobu", ".hammerspoon"),
    *("Library/LaunchAgents", "Library/LaunchDaemons", "Library/Preferences", ".config/espanso", ".skhdrc", ".yabairc"),
)

# Places that programs are started from, and the settings of programs that say what else to start or where to load it.
_PROGRAMS = (
    *(".local/bin", ".local/lib", ".local/pipx", ".local/share/pipx", ".local/share/uv", ".cargo/bin", ".cargo/env"),
    *(
        ".cargo/config",
        ".cargo/config.toml",
        ".rustup/settings.toml",
        ".npm-global",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
    ),
    *(".yarn/plugins", ".yarn/releases", ".pnpmfile.cjs", ".config/pnpm", ".config/yarn", ".bun/bin", ".deno/bin"),
    *(".bunfig.toml", ".volta", ".nvm", ".pyenv", ".rbenv", ".asdf", ".asdfrc", ".sdkman", ".nodenv", ".goenv", ".fnm"),
    *(".config/pip", ".pip/pip.conf", ".config/uv", ".config/pypoetry", ".condarc", ".pydistutils.cfg", ".pythonrc"),
    *(".pythonrc.py", ".ipython", ".jupyter", ".pdbrc", ".pdbrc.py", "sitecustomize.py", "usercustomize.py"),
    *(".gradle/init.d", ".gradle/init.gradle", ".gradle/gradle.properties", ".m2/settings.xml", ".m2/extensions.xml"),
    *(".mvn/extensions.xml", ".mvn/jvm.config", ".mvn/maven.config", ".mavenrc", ".sbtopts", ".config/sbt"),
    *(".bundle/config", ".gemrc", ".irbrc", ".pryrc", ".config/irb", ".config/go", ".Rprofile", ".Renviron", ".ghci"),
    *(".composer", ".config/composer", ".config/nix", ".nix-profile", ".nix-defexpr", ".config/home-manager"),
    *(".config/nixpkgs", ".gdbinit", ".gdbearlyinit", ".config/gdb", ".lldbinit", ".psqlrc", ".sqliterc", ".my.cnf"),
    *(".wgetrc", ".curlrc", ".config/curlrc", ".lessfilter", ".lesskey", ".config/lesskey", ".mailcap", ".muttrc"),
    *(".docker/config.json", ".docker/cli-plugins", ".kube", ".aws/config", ".config/containers", ".config/gcloud"),
    *(".ssh", ".gnupg", ".config/gh", ".config/glab-cli", ".terraformrc", ".terraform.d", ".config/helm"),
    *(".config/lazygit", ".config/ranger", ".config/yazi", ".config/lf", ".config/nnn", ".config/mpv/scripts"),
    *(".ansible.cfg", ".vagrant.d", ".config/topgrade.toml", ".topgrade", ".config/bat", ".config/ripgrep"),
)

# Everything that only a rule which names it opens, beside what is held.
ELSEWHERE = tuple(dict.fromkeys((*_GIT, *_AGENTS, *_EDITORS, *_SESSIONS, *_PROGRAMS)))

# Files that an editor or Python obeys by how their names end; if directories are listed, only in one of these.
ENDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (".code-workspace", ()),
    (".pth", ("site-packages", "dist-packages")),
)

# Of the machine: an ordinary user cannot write there, root can.
SYSTEM = (
    *("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/proc/sys", "/sys"),
    *("/var/spool/cron", "/var/spool/at", "/var/spool/anacron", "/opt/bin", "/Library/LaunchAgents"),
    *("/Library/LaunchDaemons", "/System", "/nix", "/snap"),
)
