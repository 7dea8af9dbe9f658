"""What is known of agents' tools by their names: which only look, which edit files, which have others work.

Whatever is not listed may do anything. A tool is listed only where every agent that has one of that name means the
same by it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from checkpointer.agents.dialects.report import Report

READERS: Final = frozenset((
    "read", "read_file", "readfile", "read_files", "read_many_files", "readmanyfiles", "view", "view_image", "cat",
    "glob", "find_files", "findfiles", "file_search", "grep", "grep_search", "grepsearch", "rg", "search_files",
    "search_file_content", "searchfilecontent", "search_codebase", "codebase_search", "list", "ls", "list_dir",
    "list_directory", "listdirectory", "list_files", "list_code_definition_names", "notebookread", "lsp",
    "webfetch", "web_fetch", "fetch_web_content", "fetch_webpage", "websearch", "web_search", "google_web_search",
    "tool_search", "toolsearch", "todoread", "todowrite", "todo_write", "todo", "update_plan", "update_todo",
    "report_intent", "exitplanmode", "exit_plan_mode", "enterplanmode", "enter_plan_mode", "askuserquestion",
    "ask_user", "ask_user_question", "ask_followup_question", "request_user_input", "question", "skill",
    "attempt_completion", "plan_mode_respond", "think", "finish", "session_search", "read_bash", "bashoutput",
    "bash_output", "taskoutput", "list_mcp_resources", "read_mcp_resource", "listmcpresources", "readmcpresource",
    "get_diagnostics", "diagnostics", "get_internal_docs", "fetch_copilot_cli_documentation",
))  # fmt: skip
EDITORS: Final = frozenset((
    "edit", "multiedit", "multi_edit", "write", "write_file", "writefile", "create", "create_file", "replace",
    "replace_in_file", "str_replace", "str_replace_editor", "str_replace_based_edit_tool", "insert_edit_into_file",
    "apply_patch", "applypatch", "patch", "notebookedit", "notebook_edit", "edit_file", "editor", "file_editor",
    "write_to_file", "delete_file", "developer__text_editor", "text_editor", "search_replace",
))  # fmt: skip
DELEGATES: Final = frozenset((
    "task", "agent", "spawn_agent", "new_task", "delegate", "delegate_task", "dispatch_agent", "subagent",
    "use_subagents", "wait", "wait_agent", "send_input", "close_agent", "resume_agent",
))  # fmt: skip

_OURS = re.compile(r"(?:^|[_.:-])ckpt[_.:-]+(?:status|log|show|diff|save|undo|redo)$")


def effect(tool: str) -> Literal["read", "workspace", "external"]:
    """What a tool of this name may do."""
    name = tool.lower()
    if name in READERS:
        return "read"
    return "workspace" if name in EDITORS else "external"


def delegates(tool: str) -> bool:
    """Does it have others make calls of their own?"""
    return tool.lower() in DELEGATES


def ours(tool: str) -> bool:
    """Is it one of the tools that this program offers to agents? What those change is no step of the agent's."""
    return _OURS.search(tool.lower()) is not None


def is_cheap(report: Report) -> bool:
    """Does a report say nothing that the files must be read for?"""
    if report.kind in ("tool-start", "tool-end", "batch-end"):
        return all(call.effect == "read" or ours(call.tool) for call in report.calls)
    return report.kind in ("subagent-end", "compact") or (report.kind == "prompt" and bool(report.subagent))
