"""The agents that have hooks, and what the tools that each comes with do, by the agent's own names. Pure, and data.

Adding an agent begins here; the docstring of the package lists the other tables.

A name that is not here is an unknown tool: it needs approval, whatever the rules say. Bookkeeping (todos, sub-agents,
reading what a command has printed) touches nothing by itself, and is `think`. A tool that asks the user something in
the agent's own name (a question, a plan to agree to, another mode) is a `question`: an allow could answer it in the
user's place. Where a tool is no more than its name, and rules may speak of that name, it is `other`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

EXECUTE, READ, EDIT, DELETE = "execute", "read", "edit", "delete"
SEARCH, FETCH, THINK, OTHER, QUESTION = "search", "fetch", "think", "other", "question"
CLAUDE_CODE, CODEX, GEMINI, CURSOR, OPENCODE = "claude-code", "codex", "gemini", "cursor", "opencode"
COPILOT, QWEN, CLINE = "copilot", "qwen", "cline"

# Agents that block a call whose hook does not answer in time, from which version on: for these a hook can wait for a
# person. The others let such a call run.
BLOCK_WHEN_LATE: Mapping[str, tuple[int, ...]] = {CLAUDE_CODE: (2, 1, 295), CURSOR: (), OPENCODE: ()}

_NAMES: Mapping[str, Mapping[str, str]] = {
    CLAUDE_CODE: {
        EXECUTE: "Bash Monitor",
        READ: "Read NotebookRead LS",
        EDIT: "Write Edit MultiEdit NotebookEdit",
        SEARCH: "Glob Grep",
        FETCH: "WebFetch",
        OTHER: "WebSearch Skill",
        THINK: "TodoWrite TodoRead Task Agent TaskCreate TaskGet TaskList TaskUpdate TaskOutput TaskStop "
        "BashOutput KillShell KillBash SendMessage ReportFindings ToolSearch StructuredOutput",
        QUESTION: "AskUserQuestion EnterPlanMode ExitPlanMode exit_plan_mode",
    },
    CODEX: {
        EXECUTE: "Bash",
        READ: "view_image",
        EDIT: "apply_patch",
        OTHER: "web_search",
        THINK: "update_plan get_goal create_goal update_goal tool_search spawn_agent send_input resume_agent wait "
        "wait_agent close_agent",
        QUESTION: "request_user_input request_permissions",
    },
    GEMINI: {
        EXECUTE: "run_shell_command",
        READ: "read_file read_many_files list_directory",
        EDIT: "write_file replace",
        SEARCH: "glob grep_search search_file_content",
        FETCH: "web_fetch",
        OTHER: "google_web_search activate_skill",
        THINK: "write_todos update_topic complete_task invoke_agent delegate_to_agent get_internal_docs "
        "list_background_processes read_background_output tracker_create_task tracker_update_task tracker_get_task "
        "tracker_list_tasks tracker_add_dependency tracker_visualize",
        QUESTION: "ask_user enter_plan_mode exit_plan_mode",
    },
    CURSOR: {
        EXECUTE: "Shell",
        READ: "Read LS ListDir",
        EDIT: "Write StrReplace Edit MultiEdit EditNotebook ApplyPatch TabWrite",
        DELETE: "Delete",
        SEARCH: "Grep Glob SemanticSearch",
        FETCH: "WebFetch",
        OTHER: "WebSearch",
        THINK: "TodoWrite Task ReadLints UpdateCurrentStep",
        QUESTION: "AskQuestion CreatePlan SwitchMode",
    },
    OPENCODE: {
        EXECUTE: "bash",
        READ: "read list",
        EDIT: "write edit multiedit patch apply_patch",
        SEARCH: "glob grep",
        FETCH: "webfetch",
        OTHER: "websearch codesearch skill",
        THINK: "todowrite todoread task invalid",
        QUESTION: "question plan_enter plan_exit",
    },
    COPILOT: {
        EXECUTE: "bash",
        READ: "view",
        EDIT: "create edit str_replace apply_patch",
        SEARCH: "grep glob",
        FETCH: "web_fetch",
        OTHER: "web_search skill sql session_store_sql store_memory",
        THINK: "read_bash stop_bash list_bash task read_agent list_agents write_agent report_intent update_todo "
        "fetch_copilot_cli_documentation task_complete",
        QUESTION: "ask_user exit_plan_mode",
    },
    QWEN: {
        EXECUTE: "run_shell_command",
        READ: "read_file read_many_files list_directory",
        EDIT: "write_file edit",
        SEARCH: "glob grep_search search_file_content",
        FETCH: "web_fetch",
        OTHER: "web_search google_web_search skill save_memory",
        THINK: "todo_write agent task task_stop send_message tool_search",
        QUESTION: "ask_user_question enter_plan_mode exit_plan_mode",
    },
    CLINE: {
        EXECUTE: "run_commands",
        READ: "read_files",
        EDIT: "editor apply_patch",
        SEARCH: "search_codebase",
        FETCH: "fetch_web_content",
        OTHER: "skills",
        THINK: "submit_and_exit",
        QUESTION: "ask_question",
    },
}
KINDS: Mapping[str, Mapping[str, str]] = {
    agent: {name: kind for kind, names in kinds.items() for name in names.split()} for agent, kinds in _NAMES.items()
}
AGENTS = tuple(_NAMES)
