"""What the names in an agent's input mean. Agents spell one thing in many ways; the spellings are data.

A name is compared without case, `_` and `-`: `filePath`, `file_path` and `FilePath` are one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMAND, COMMANDS, ARGS, CWD, ROOT = "command", "commands", "args", "cwd", "root"
DIRECTORY, PATH = "directory", "path"
URL, METHOD, BODY, QUERY, PATTERN = "url", "method", "body", "query", "pattern"
ENV, SHELL, STDIN, INPUT, CODE, SCRIPT = "env", "shell", "stdin", "input", "code", "script"
PATCH, DIFF, ORIGIN, TARGET, GRANT, WRAPPER = "patch", "diff", "origin", "target", "grant", "wrapper"
EDITS, VERB, SUMMARY, PROSE, RIGHTS, HEADERS = "edits", "verb", "summary", "prose", "rights", "headers"
UNHELD = "unheld"

_SPELLINGS: Mapping[str, str] = {
    COMMAND: "command cmd command_line cmd_line shell_command bash_command command_string program argv",
    COMMANDS: "commands cmds",
    ARGS: "args arguments",
    CWD: "cwd work_dir working_dir working_directory work_directory current_directory current_working_directory cd "
    "chdir",
    ROOT: "root project_root project_path project_dir workspace_root workspace_path repo_root repo_path worktree",
    DIRECTORY: "dir dir_path directory directory_path folder folder_path",
    PATH: "path paths file files file_path file_paths file_name file_names path_name notebook_path absolute_path "
    "relative_path target_file target_path directories folders",
    EDITS: "changes edits file_edits file_changes",
    URL: "url urls uri uris href",
    METHOD: "method http_method",
    BODY: "body data json form payload post_data form_data",
    QUERY: "query queries q regex search_term search_query",
    PATTERN: "pattern patterns glob globs glob_pattern include includes include_pattern include_patterns file_pattern",
    ENV: "env envs environment env_vars environment_variables",
    SHELL: "shell interpreter executable language lang",
    RIGHTS: "run_as run_as_root as_root as_user sudo privileged",
    HEADERS: "headers",
    # Each of these takes the agent's own sandbox off, or makes it wider.
    UNHELD: "dangerously_disable_sandbox with_escalated_permissions additional_permissions required_permissions "
    "sandbox_permissions",
    STDIN: "stdin chars is_input stdin_data",
    INPUT: "input",
    CODE: "code",
    SCRIPT: "script",
    PATCH: "patch patch_text",
    DIFF: "diff udiff unified_diff",
    ORIGIN: "source src source_path source_file from from_path old_path old_file_path origin",
    TARGET: "destination dest dst destination_path dest_path destination_file to to_path target new_path new_file_path "
    "move_path move_to",
    GRANT: "grant_root",
    VERB: "action operation op action_type change_type type mode subcommand",
    WRAPPER: "params parameters kwargs tool_input",
    # What an agent makes of its command, and calls the call by: reading, though it runs `cat`.
    SUMMARY: "parsed_cmd",
    # Words for people, and what goes into a file: nothing in them says what is touched.
    PROSE: "content contents text new_text old_text new_string old_string file_text new_source code_edit description "
    "prompt instructions todos plan plan_path plan_file_path plan_filename questions title meta reason profile xpath "
    "json_path class_path",
}
_ENDINGS = (
    (("path", "paths", "file", "files", "filename", "filenames", "notebook"), PATH),
    (("directories", "dirs", "folders"), PATH),
    (("dir", "directory", "folder", "cwd"), DIRECTORY),
    (("url", "urls", "uri", "uris"), URL),
    (("command", "cmd"), COMMAND),
    (("env", "envs", "environ", "environment", "variables"), ENV),
)
# Too common to mean a place where nothing is moved: code, line numbers, an account.
VAGUE = frozenset({"source", "from", "to", "origin"})
MOST_ENDS = 16  # sources or destinations of one move


def bare(name: str) -> str:
    """Return a name as it is compared."""
    return name.lower().replace("_", "").replace("-", "")


def last_name(tool: str) -> str:
    """Return a tool's name without what it belongs to: `developer__shell`, `functions.shell`."""
    for mark in ("__", ".", ":", "/"):
        tool = tool.rpartition(mark)[2]
    return bare(tool)


def words(text: str) -> frozenset[str]:
    """Return the names in a text, as they are compared."""
    return frozenset([bare(name) for name in text.split()])


SHELL_TOOLS = words(
    "bash shell terminal console sh zsh cmd exec run_shell_command exec_command local_shell shell_command run_command "
    "run_terminal_cmd run_terminal_command execute_command execute_bash run_in_terminal launch_process"
)
PATCH_TOOLS = words("apply_patch patch edit write multi_edit apply_diff")
TEXT_SEARCH_TOOLS = words("grep grep_tool grep_search search_file_content search_text text_search ripgrep rg")
FILE_SEARCH_TOOLS = words("glob glob_tool glob_search glob_file_search file_search find_files search_files_by_name")
LIST_TOOLS = words("ls list list_dir list_directory list_files")
TREE_TOOLS = words("read_many_files read_files read_folder read_directory")
# What agents call a call before they know more of it.
PLACEHOLDERS = words("terminal bash shell command execute run run_command tool exec console run_shell_command")
# Their `command` is no text for a POSIX shell.
OTHER_LANGUAGES = ("powershell", "pwsh", "python", "javascript", "applescript", "jupyter", "repl", "sql")
VERBS: Mapping[str, str] = {
    **dict.fromkeys(("view", "read", "list"), "read"),
    **dict.fromkeys(("create", "write", "insert", "append", "edit", "replace", "undo_edit"), "edit"),
    **dict.fromkeys(("str_replace", "overwrite", "edit_file"), "edit"),
    **dict.fromkeys(("delete", "remove"), "delete"),
    **dict.fromkeys(("rename", "move"), "move"),
}

ROLES: Mapping[str, str] = {bare(name): role for role, spellings in _SPELLINGS.items() for name in spellings.split()}


def exact_role(name: object) -> str | None:
    """Return what a name means, None where it means nothing or is no text."""
    return ROLES.get(bare(name)) if isinstance(name, str) else None


def any_role(name: object) -> str | None:
    """Return what a name means, or seems to mean by how it ends."""
    return role_of(name)[0] if isinstance(name, str) else None


def role_of(name: str) -> tuple[str | None, bool]:
    """Return what a name means, and whether that is only guessed from how it ends."""
    known = ROLES.get(bare(name))
    if known is not None:
        return known, False
    guess = next((role for endings, role in _ENDINGS if bare(name).endswith(endings)), None)
    return guess, guess is not None


_THOUGHTS = words(
    "thought thoughts thinking todo todos todo_list entries items steps step explanation goal summary task tasks "
    "subject subagent subagent_type agent agent_type model background run_in_background name status id priority "
    "message active_form"
)


def is_thought(name: object) -> bool:
    """Whether a name in the input of a call that thinks can be no more than something for people, or a sub-agent's."""
    return isinstance(name, str) and (bare(name) in _THOUGHTS or exact_role(name) == PROSE)
