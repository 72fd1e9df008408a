"""From layers to a policy: merge what each tool is given, check it, resolve its paths, index its rules.

What touches the disk is passed in as a `CompileContext`: the root turns a rule's path into a place, the approvals say
whether the user has agreed to an external target. All problems of all layers are raised together.

Start at `compile_layers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from byleave.core.access import (
    COOPERATIVE,
    SERVER,
    SERVER_DECLARED,
    SHELL_TOOL,
    STDIO,
    VFS,
    VFS_DECLARED,
    Access,
    limits_of,
    shell_access,
    with_defaults,
)
from byleave.core.action import LOCAL
from byleave.core.arguments import pointer_problem
from byleave.core.decision import BUILT_IN
from byleave.core.env_rules import EnvTable
from byleave.core.fs_rules import FsRule, is_under
from byleave.core.patterns import glob_problem, searcher, unclosed
from byleave.core.policy import CompiledPolicy, KnownAnswers, PolicyView, ToolPolicy
from byleave.core.protected import Protected
from byleave.core.rules import RuleTable
from byleave.core.suggest import SERVERS
from byleave.errors import InputError
from byleave.policy.compile_access import AccessCompiler
from byleave.policy.compile_agents import MissingAgentRule, agent_warnings, merge_agents, proofs_of, without_proofs
from byleave.policy.context import CompileContext, LineReader
from byleave.policy.layers import COMMAND_LINE, ENCLOSING, INLINE, MANAGED, SESSION, USER, Problems
from byleave.policy.machine_places import MachinePlaces
from byleave.policy.normalize import (
    ACCESS_LISTS,
    AT,
    HOST_PATHS,
    LEFT_OUT,
    LEGACY,
    LINE,
    NOTHING,
    Item,
    Patch,
    compose,
    patch,
)
from byleave.policy.sandbox_settings import HostPathCompiler
from byleave.record import Record, frozen_mapping
from byleave.store.address import file_problem
from byleave.text import quoted, sentence_list, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from byleave.core.access import ProcessLimits
    from byleave.core.agents import Agents
    from byleave.core.env_rules import EnvRule
    from byleave.core.fs_rules import FsTarget, RefusedPath
    from byleave.policy.compile_access import ExternalRule
    from byleave.policy.gateway_settings import GatewaySettings
    from byleave.policy.layers import Layer
    from byleave.policy.normalize import At, Tree
    from byleave.policy.servers import ServerConfig, ServerDescription

RUN_TOOL = "byleave-run"  # what `byleave run` runs where no tool is named: always in the sandbox
_NOTHING: dict[str, Any] = {}
MOST_WARNINGS = 50  # more than a person reads
LONGEST_NAME = 60  # characters of a tool's name worth repeating in a warning
_JOINED = frozenset(
    {
        *("tools", "rules", "defaults", "programs", "audit", "sensitive_paths", "sandbox", "shell"),
        *("agents", "servers", "gateway", "hooks", "store", LEFT_OUT),
    }
)
_OWN_LAYERS = (USER, COMMAND_LINE, MANAGED, INLINE)
_LOOSENING = (("defaults", "mode", "observe"), ("hooks", "silent", "agent"))  # the values that have byleave decide less
_OPEN = (FsRule("", read=True, create=True, update=True, delete=True, execute=True, source=BUILT_IN),)
_SCALARS = (
    *("source", "command", "runtime", "run", "enable", "description"),
    *("parameters", "stateful", "actions", "format_arguments"),
)


class CompiledTool(Record):
    """One tool after all layers have spoken: its settings, and its merged rules with their origins."""

    name: str
    settings: Mapping[str, Any]
    lists: Mapping[str, Patch]
    commands: Mapping[str, Mapping[str, Any]] | None
    layer: Layer
    at: At
    line: int
    declares: bool  # whether it was given access of its own: what a session's mounts add does not count

    @property
    def runtime(self) -> str:
        command = self.settings.get("command") or [""]
        inferred = "wasm" if command[0].endswith(".wasm") else "stdio"
        runtime: str = self.settings.get("runtime", inferred)
        return runtime

    @property
    def limits(self) -> ProcessLimits:
        """What its processes may use at most."""
        return limits_of(self.settings.get("limits", {}))

    @property
    def has_access(self) -> bool:
        return self.commands is not None or any(merged.items for merged in self.lists.values())


class Compiled(Record):
    """A policy and what is worth knowing beside it: its tools, settings, warnings, and the places it rests on."""

    policy: CompiledPolicy
    tools: Mapping[str, CompiledTool]
    settings: Mapping[str, Any]
    warnings: tuple[str, ...]
    places: Mapping[str, FsTarget | RefusedPath]
    layers: tuple[Layer, ...]
    read_line: LineReader | None = None
    machine: MachinePlaces | None = None
    directories: Mapping[str, str | None] = _NOTHING  # those that rules name, as they were resolved
    externals: tuple[ExternalRule, ...] = ()  # what the trusted layers let out of the workspace, approved or not
    servers: Mapping[str, ServerConfig] = _NOTHING  # behind the gateway, as the trusted layers describe them
    agent_tokens: Mapping[str, tuple[str, ...]] = _NOTHING  # hashes of tokens in hex, by agent
    agent_subjects: Mapping[str, tuple[str, ...]] = _NOTHING  # what the agent claim of a JWT says, by agent

    @property
    def gateway(self) -> GatewaySettings:
        """How the gateway behaves."""
        from byleave.policy.gateway_settings import GatewaySettings  # heavy: only what is compiled anew needs it

        settings: GatewaySettings = self.settings.get("gateway") or GatewaySettings()
        return settings

    @property
    def bound_agents(self) -> frozenset[str]:
        """The agents that prove who they are, so that a client cannot merely claim to be one."""
        named = [rule.agent for rule in self.gateway.identities]
        return frozenset(self.agent_tokens) | frozenset(self.agent_subjects) | frozenset(named)

    def no_tool(self, name: str) -> InputError:
        """Return how it is said that no such tool is configured; one that waits for trust is there, after all."""
        for layer in self.layers:
            if not layer.trusted and "source" in layer.tree["tools"].get(name, {}):
                problem = f"the tool {quoted(name)} is configured in {shown(layer.file or '')}, which is not trusted"
                return InputError(
                    problem,
                    hint="it or a script that it starts has changed; read it and trust it with `byleave trust`",
                )
        known = ", ".join(sorted(self.tools)) or "none"
        return InputError(f"no tool named {quoted(name)} is configured", hint=f"the configured tools are: {known}")


def compile_layers(layers: Sequence[Layer], context: CompileContext) -> Compiled:
    """Return the policy of these layers, weakest first; every problem there is, if there are any."""
    work = _Compilation(layers, context)
    compiled = work.run()
    work.problems.raise_any()
    return compiled


class _Compilation:
    """One compilation: collects problems and warnings while the views are built."""

    def __init__(self, layers: Sequence[Layer], context: CompileContext) -> None:
        self._layers = tuple(layers)
        self._context = context
        self.problems = Problems()
        self.warnings: list[str] = []
        self._settings = _settings([self._without_loosening(layer) for layer in layers if layer.trusted])
        self._settings["sandbox"] = self._host_paths()
        self._settings["gateway"] = self._gateway()
        self._rules = AccessCompiler(context, self._layers, self.problems, self.warnings)
        self._directories: dict[str, str | None] = {}
        self._read_line = self._make_reader()

    def _without_loosening(self, layer: Layer) -> Layer:
        """Return what a layer may say: only the user and the machine's owner have byleave decide less."""
        if layer.name in _OWN_LAYERS:
            return layer
        tree = layer.tree
        for table, key, value in _LOOSENING:
            if tree.get(table, {}).get(key) == value:
                self.warnings.append(
                    f'{shown(layer.file or "")}: {table}.{key} = "{value}" holds only in your own file'
                )
                tree = {**tree, table: {name: kept for name, kept in tree[table].items() if name != key}}
        if "ask_timeout" in tree.get("defaults", {}):
            self.warnings.append(f"{shown(layer.file or '')}: defaults.ask_timeout holds only in your own file")
            kept = {name: value for name, value in tree["defaults"].items() if name != "ask_timeout"}
            tree = {**tree, "defaults": kept}
        if "store" in tree:
            self.warnings.append(f"{shown(layer.file or '')}: store holds only in your own file")
            tree = {name: kept for name, kept in tree.items() if name != "store"}
        return layer.replace(tree=tree)

    def _check_store(self) -> None:
        """Note an address that cannot be used, without its line: it may hold a password."""
        for layer in self._layers:
            url = layer.tree.get("store", {}).get("url") if layer.name in _OWN_LAYERS else None
            problem = None if url is None else file_problem(url)
            if problem is not None:
                self.problems.add(layer, f"[store] url: {problem.problem}", hint=problem.hint, at=())

    def _host_paths(self) -> dict[str, list[str]]:
        given = [layer for layer in self._layers if layer.trusted and "sandbox" in layer.tree]
        if not given:
            return {key: [] for key in HOST_PATHS}

        return HostPathCompiler(self._context, self._layers, self.problems).merged(given)

    def _check_sensitive(self, trusted: Sequence[Layer]) -> None:
        for layer in trusted:
            for number, pattern in enumerate(layer.tree.get("sensitive_paths", ())):
                problem = glob_problem(pattern)
                if problem is not None:
                    at: At = ("sensitive_paths", number)
                    self._problem(layer, at, f"{quoted(pattern)}: {problem}", 'write a glob such as "**/*.pem"')

    def _gateway(self) -> GatewaySettings | None:
        given = [layer for layer in self._layers if layer.trusted and "gateway" in layer.tree]
        if not given:
            return None
        from byleave.policy.gateway_settings import read_gateway  # heavy: only what is compiled anew needs it

        return read_gateway(given, self._context.root.path, self._context.home, self.problems)

    def _agents(self, layers: Sequence[Layer]) -> Agents | None:
        return merge_agents(layers, self._missing())

    def _missing(self) -> MissingAgentRule:
        gateway = self._settings["gateway"]
        denied = self._settings["defaults"].get("deny_on_missing_agent", True)
        return MissingAgentRule(denied, None if gateway is None else gateway.default_agent)

    def _describe(self, trusted: Sequence[Layer]) -> tuple[ServerDescription, ...]:
        """Return the servers that the trusted layers describe."""
        if not any("servers" in layer.tree for layer in self._layers):
            return ()
        from byleave.policy.servers import ServerReader  # heavy: only what is compiled anew needs it

        def inside(path: str) -> bool:
            place = self._directory(path)
            return place is not None and is_under(place, self._context.root.path)

        reader = ServerReader(self.problems, self.warnings, inside)
        return tuple(reader.read(trusted, [layer for layer in self._layers if not layer.trusted]))

    def _server_tools(self, described: Iterable[ServerDescription], layers: Sequence[Layer]) -> Iterator[CompiledTool]:
        """Yield the processes of servers, and those for calls of single tools, as tools that the sandbox can hold."""
        for each in described:
            if each.server.command is None:
                continue
            for name, path in [(each.server.tool, ()), *((one, ("tools", t)) for t, one in each.server.tools.items())]:
                describing = [layer for layer in each.layers if any(layer is one for one in layers)]
                found = [(layer, table) for layer in describing if (table := _inner(layer, each.server.name, path))]
                if found:
                    made = [layer.replace(tree={"tools": {name: table}}) for layer, table in found]
                    yield self._merge_tool(name, made)

    def _shell(self, layers: Sequence[Layer]) -> Iterator[CompiledTool]:
        """Yield what confined commands may touch, as a tool that the sandbox can hold, if there is a [shell] table."""
        found = [layer for layer in layers if "shell" in layer.tree]
        if found:
            made = [layer.replace(tree={"tools": {SHELL_TOOL: layer.tree["shell"]}}) for layer in found]
            yield self._merge_tool(SHELL_TOOL, made)

    def run(self) -> Compiled:
        trusted = [layer for layer in self._layers if layer.trusted]
        self._check_sensitive(trusted)
        self._check_store()
        tools = {tool.name: tool for tool in self._merge(trusted) if self._is_whole(tool)}
        described = self._describe(trusted)
        held = {tool.name: tool for tool in self._server_tools(described, trusted)}
        shell = {tool.name: tool for tool in self._shell(trusted)}
        known = {**tools, **held, **shell}
        agents = self._agents(trusted)
        views = [
            self._view("trusted", known.values(), rules=self._rule_table(trusted), noted=True).replace(agents=agents)
        ]
        views[0] = _with_server_variables(views[0], described)
        for layer in self._layers:
            if layer.name == ENCLOSING:
                views += self._enclosing(layer, trusted, known)
            elif not layer.trusted:
                self.warnings.append(_untrusted(layer))
                present = [_access_only(other) if other is layer else other for other in self._layers]
                counted = [other for other in present if other.trusted or other.file == layer.file]
                configured = _known([*self._merge(counted), *self._shell(counted)], {**tools, **shell})
                view = self._view(f"{layer.file} (untrusted)", configured, rules=self._rule_table(counted))
                views.append(view.replace(agents=self._agents(counted)))
            elif layer.name == MANAGED and len(self._layers) > 1:
                own = [*self._merge([layer]), *self._server_tools(described, [layer]), *self._shell([layer])]
                alone = _known(own, known)
                views.append(self._view("managed", alone, denies_only=True).replace(agents=self._agents([layer])))
        tokens, subjects = self._proofs(trusted)
        self._warn_of_names(agents)
        for layer in self._layers:
            self.warnings.extend(layer.tree.get(LEFT_OUT, ()))
        confine = self._settings.get("shell", {}).get("confine")
        machine = MachinePlaces(self._context, self._layers, self._rules)
        strict_links = bool(self._settings.get("strict_links"))
        policy = CompiledPolicy(tuple(views), Protected(finder=machine), strict_links, confine, KnownAnswers())
        return Compiled(
            policy,
            frozen_mapping(tools),
            frozen_mapping(self._settings),
            _distinct(self.warnings),
            frozen_mapping(self._rules.places),
            self._layers,
            self._read_line,
            machine,
            frozen_mapping(self._directories),
            tuple(self._rules.externals),
            frozen_mapping({each.server.name: each.server for each in described}),
            frozen_mapping(tokens),
            frozen_mapping(subjects),
        )

    def _enclosing(
        self, layer: Layer, trusted: Sequence[Layer], known: Mapping[str, CompiledTool]
    ) -> Iterator[PolicyView]:
        """Yield what a project file around the workspace adds: where it says nothing, the trusted layers decide."""
        name = f"{layer.file} (around this workspace)"
        if "rules" in layer.tree:
            yield self._view(name, (), rules=self._rule_table([*trusted, layer]))
        own = _known([*self._merge([layer]), *self._shell([layer])], known)
        yield self._view(name, own, denies_only=True).replace(agents=self._agents([_access_only(layer)]))

    def _proofs(self, trusted: Sequence[Layer]) -> tuple[Mapping[str, tuple[str, ...]], ...]:
        gateway = self._settings["gateway"]
        has_words = gateway is None or gateway.jwt is not None or not gateway.issuers
        proofs = proofs_of(trusted, self._missing().default_agent, self.problems, has_words=has_words)
        return proofs.tokens, proofs.subjects

    def _warn_of_names(self, agents: Agents | None) -> None:
        """Warn of servers that are named, and configured nowhere."""
        servers = frozenset(name for layer in self._layers for name in layer.tree.get("servers", ()))
        named = servers | {LOCAL} if servers else servers
        if agents is not None:
            self.warnings.extend(agent_warnings(agents, self._missing(), named))
        if self._settings["gateway"] is not None:
            self.warnings.extend(self._settings["gateway"].warnings(named))

    def _directory(self, path: str) -> str | None:
        """Resolve a directory that a rule names, and remember it: it is looked at again while the policy is in use."""
        if path not in self._directories:
            self._directories[path] = self._context.directory(path)
        return self._directories[path]

    def _make_reader(self) -> LineReader | None:
        self._check_programs()
        if self._context.homes is None:
            return None
        return LineReader(self._context.root, self._settings.get("programs", {}), self._context.home)

    def _check_programs(self) -> None:
        """Look at the programs of every layer before anything is read with them."""
        programs = self._settings.get("programs", {})
        if not programs:
            return
        from byleave.policy.rule_types import program_problem  # heavy: only what is compiled anew needs it
        from byleave.shell.knowledge.programs import BUILT_IN

        for layer in self._layers:
            for name in layer.tree.get("programs", {}) if layer.trusted else ():
                problem = program_problem(name, programs, BUILT_IN)
                if problem is not None:
                    self._problem(layer, ("programs", name), problem, "see docs/commands.md for the keys")
        self.problems.raise_any()

    def _rule_table(self, layers: Sequence[Layer]) -> RuleTable | None:
        """Return the ordered rules of these layers, the strongest first; None if there are none."""
        merged = NOTHING
        for layer in layers:
            if "rules" in layer.tree:
                patched = _patch(layer.tree["rules"], layer)
                merged = compose(merged, patched.replace(front=(*_kept_of_untrusted(merged, patched), *patched.front)))
        if not merged.items:
            return None
        from byleave.policy.compile_rules import RuleCompiler  # heavy: only what is compiled anew needs it

        reader = RuleCompiler(
            self.problems,
            self.warnings,
            directory=self._directory,
            home=self._context.home,
            read_line=self._read_line,
        )
        return RuleTable([rule for item in merged.items if (rule := reader.rule(item)) is not None])

    def _merge(self, layers: Sequence[Layer]) -> Iterator[CompiledTool]:
        names = dict.fromkeys(name for layer in layers for name in layer.tree["tools"])
        for name in names:
            yield self._merge_tool(name, [layer for layer in layers if name in layer.tree["tools"]])

    def _merge_tool(self, name: str, layers: Sequence[Layer]) -> CompiledTool:
        settings: Tree = {}
        lists = dict.fromkeys(ACCESS_LISTS, NOTHING)
        own_files = NOTHING
        commands: dict[str, dict[str, Any]] | None = None
        spellings = set()
        for layer in layers:
            tool = layer.tree["tools"][name]
            settings |= {key: tool[key] for key in _SCALARS if key in tool}
            settings["options"] = {**settings.get("options", {}), **tool.get("options", {})}
            if "limits" in tool:
                settings["limits"] = {**settings.get("limits", {}), **tool["limits"]}
            access = tool.get("access", {})
            if access:
                spellings.add(access.get(LEGACY, False))
            for key in ACCESS_LISTS:
                if key in access:
                    lists[key] = _joined(lists[key], _patch(access[key], layer))
            if "fs" in access and layer.name != SESSION:
                own_files = compose(own_files, _patch(access["fs"], layer))
            if "commands" in access:
                commands = _merge_commands(commands or {}, access["commands"], layer)
        last = layers[-1]
        at, line = last.tree["tools"][name][AT], last.tree["tools"][name][LINE]
        if len(spellings) > 1:
            self._problem(last, at, "a tool has access or the older sandbox, not both", "move sandbox to access")
        own_lists = {**lists, "fs": own_files}
        declares = commands is not None or any(merged.items for merged in own_lists.values())
        return CompiledTool(name, settings, lists, commands, last, at, line, declares)

    def _is_whole(self, tool: CompiledTool) -> bool:
        """Check what only the merged tool can show; a tool that is not there in full is left out."""
        source = tool.settings.get("source")
        if tool.name.startswith(SERVERS):
            hint = "rename it: such names stand for the processes of MCP servers"
            self._tool_problem(tool, f"begins with {quoted(SERVERS)}", hint)
        if tool.name == SHELL_TOOL:
            self._tool_problem(tool, "has a name that byleave keeps", "rename it; commands of agents: [shell.access]")
        if isinstance(tool.settings.get("run"), list):
            self._check_run(tool)
        if source is None:
            if self._defined_untrusted(tool.name):
                self.warnings.append(
                    f"the tool {shown(_cut(tool.name))} is not available until its project file is trusted"
                )
            elif tool.layer.name == SESSION:  # of a tool that is gone, or that only another `--policy` describes
                self.warnings.append(
                    f"the session has grants for the tool {shown(_cut(tool.name))}, which is not configured"
                )
            else:
                self._tool_problem(tool, "has no source", 'add source = "local" (or "builtin", or "mcp.<server>")')
            return False
        if source != "local":
            if tool.has_access:
                hint = "remove access, or make the tool local: only a local tool's process can be held to it"
                self._tool_problem(tool, f"has access, but its source is {quoted(source)}", hint)
            for key, means in (("runtime", "means"), ("limits", "mean")):
                if key in tool.settings:
                    said = f"{key} {means} nothing for source {quoted(source)}"
                    self.warnings.append(f"tools.{shown(_cut(tool.name))}: {said}")
        elif tool.runtime == "wasm":
            self._tool_problem(tool, "needs the wasm runtime, which this version does not have", 'use "vfs" or "stdio"')
        return True

    def _check_run(self, tool: CompiledTool) -> None:
        """Look at the conditions on arguments: a pointer or a pattern that cannot be used is an error."""
        for number, rule in enumerate(tool.settings["run"]):
            at = (*tool.at, "run", number)
            problem = pointer_problem(rule["arg"])
            if problem is not None:
                self._problem(tool.layer, (*at, "arg"), problem, 'write "/name"')
            if unclosed(rule.get("glob", "")):
                self._problem(tool.layer, (*at, "glob"), 'a "[" is not closed', "close it")
            try:
                searcher(rule.get("regex", ""))
            except ValueError as error:
                self._problem(tool.layer, (*at, "regex"), f"the pattern cannot be used: {error}", "write RE2 syntax")

    def _defined_untrusted(self, name: str) -> bool:
        return any("source" in layer.tree["tools"].get(name, {}) for layer in self._layers if not layer.trusted)

    def _view(
        self,
        name: str,
        tools: Iterable[CompiledTool],
        *,
        denies_only: bool = False,
        rules: RuleTable | None = None,
        noted: bool = False,
    ) -> PolicyView:
        policies = {tool.name: self._tool_policy(tool, denies_only=denies_only, noted=noted) for tool in tools}
        return PolicyView(name, frozen_mapping(policies), denies_only, rules)

    def _tool_policy(self, tool: CompiledTool, *, denies_only: bool, noted: bool) -> ToolPolicy:
        """Compile one tool. Where only denies count, all is open but what is written: no default denies anything."""
        rules = self._rules
        defaults = COOPERATIVE if denies_only else self._defaults(tool)
        tables = {
            "fs": rules.fs(
                tool.lists["fs"].items, floor=_OPEN if denies_only else (), noted_for=tool.name if noted else None
            ),
            "net": rules.net(tool.lists["net"].items),
            "env": rules.env(tool.lists["env"].items, floor=_floor(defaults) if tool.name == SHELL_TOOL else ()),
            "commands": None if tool.commands is None else rules.commands(tool.commands),
        }
        access = with_defaults(defaults, **tables)  # type: ignore[arg-type]
        return ToolPolicy(tool.name, access, bool(tool.settings.get("enable", True)))

    def _defaults(self, tool: CompiledTool) -> Access:
        if tool.name == SHELL_TOOL:
            return shell_access()
        if tool.name.startswith(SERVERS):
            return SERVER_DECLARED if tool.declares else SERVER
        if tool.runtime == "vfs":
            return VFS_DECLARED if tool.declares else VFS
        off = self._settings.get("defaults", {}).get("os_sandbox") == "off" and tool.name != RUN_TOOL
        return COOPERATIVE if off else STDIO

    def _problem(self, layer: Layer, at: At, problem: str, hint: str) -> None:
        self.problems.add(layer, problem, hint=hint, at=at)

    def _tool_problem(self, tool: CompiledTool, problem: str, hint: str) -> None:
        self._problem(tool.layer, tool.at, f"the tool {quoted(_cut(tool.name))} {problem}", hint)


def _floor(defaults: Access) -> tuple[EnvRule, ...]:
    """Return the variables that rules add to, where they do not replace what holds without any."""
    return defaults.env.rules if isinstance(defaults.env, EnvTable) else ()


def _distinct(warnings: Iterable[str]) -> tuple[str, ...]:
    """Return each warning once, and no more of them than a person reads."""
    distinct = list(dict.fromkeys(warnings))
    more = len(distinct) - MOST_WARNINGS
    return (*distinct[:MOST_WARNINGS], f"and {more} more warnings") if more > 0 else tuple(distinct)


def _settings(layers: Iterable[Layer]) -> Tree:
    """Return the scalars of all layers, the strongest that sets one winning."""
    merged: Tree = {"defaults": {}, "programs": {}, "audit": {}, "hooks": {}, "store": {}, "sensitive_paths": []}
    for layer in layers:
        for name in ("defaults", "programs", "audit", "hooks", "store"):
            merged[name] |= layer.tree.get(name, {})
        merged["sensitive_paths"] += layer.tree.get("sensitive_paths", [])
        if "shell" in layer.tree:
            confine = layer.tree["shell"].get("confine", merged.get("shell", {}).get("confine", "auto"))
            merged["shell"] = {"confine": confine}
        merged |= {key: value for key, value in layer.tree.items() if key not in _JOINED}
    return merged


def _patch(configured: Mapping[str, Any], layer: Layer) -> Patch:
    return patch(configured["strategy"], [Item(_frozen(entry), layer) for entry in configured["value"]])


def _joined(weaker: Patch, stronger: Patch) -> Patch:
    """Compose two patches of an access list; what only tightens is not replaced, but moves behind the rest."""
    composed = compose(weaker, stronger)
    return composed.replace(back=(*composed.back, *_kept_of_untrusted(weaker, stronger)))


def _kept_of_untrusted(weaker: Patch, stronger: Patch) -> tuple[Item, ...]:
    """Return the entries of an untrusted layer that a stronger one would replace: its own view keeps them."""
    return tuple(item for item in weaker.items if not item.layer.trusted) if stronger.replaces else ()


def _frozen(entry: Any) -> Any:
    return tuple(entry) if isinstance(entry, list) else entry


def _merge_commands(
    known: dict[str, dict[str, Any]], added: Mapping[str, Any], layer: Layer
) -> dict[str, dict[str, Any]]:
    merged = dict(known)
    for program, entry in added.items():
        weaker = merged.get(program, {})
        lists = {
            key: compose(weaker.get(key, NOTHING), _patch(entry[key], layer))
            for key in ("args", "envs")
            if key in entry
        }
        merged[program] = {**weaker, **lists, LINE: entry[LINE], AT: entry[AT], "layer": layer}
    return merged


def _access_only(layer: Layer) -> Layer:
    """Return what an untrusted layer may say: grants and refusals for tools that others define."""
    tools = {
        name: {key: value for key, value in tool.items() if key == "access" or key.startswith("#")}
        for name, tool in layer.tree["tools"].items()
    }
    kept = {"rules": layer.tree["rules"]} if "rules" in layer.tree else {}
    if "access" in layer.tree.get("shell", {}):
        kept["shell"] = {key: value for key, value in layer.tree["shell"].items() if key != "confine"}
    if "agents" in layer.tree:
        kept["agents"] = without_proofs(layer.tree["agents"])
    return layer.replace(tree={**kept, "tools": tools})


def _inner(layer: Layer, server: str, path: tuple[str, ...]) -> Tree | None:
    """Return what a layer says of a server's process, or of that for one of its tools, as it would of a tool."""
    table = layer.tree["servers"][server]
    for step in path:
        table = table.get(step, {})
    if not table:
        return None
    access = {"access": table["access"]} if "access" in table else {}
    return {**access, LINE: table[LINE], AT: table[AT]}


def _with_server_variables(view: PolicyView, described: Iterable[ServerDescription]) -> PolicyView:
    """Add to what servers may touch the variables that are filled in for them, which are secrets from then on."""
    tools = dict(view.tools)
    for each in described:
        if each.server.variables:
            from byleave.policy.servers import with_variables  # heavy: only what is compiled anew needs it

            for name in (each.server.tool, *each.server.tools.values()):
                if name in tools:
                    tools[name] = with_variables(tools[name], each.server)
    return view.replace(tools=frozen_mapping(tools))


def _known(merged: Iterable[CompiledTool], tools: Mapping[str, CompiledTool]) -> Iterator[CompiledTool]:
    """Yield the merged tools that exist in the trusted reading, with the settings that hold there."""
    for tool in merged:
        if tool.name in tools:
            yield tool.replace(settings=tools[tool.name].settings)


def _untrusted(layer: Layer) -> str:
    file = shown(layer.file or "")
    tools = sentence_list([_cut(name) for name, tool in layer.tree["tools"].items() if "source" in tool])
    servers = sentence_list([_cut(name) for name in layer.tree.get("servers", ())])
    named = [f"{word} ({names})" for word, names in (("tools", tools), ("servers", servers)) if names]
    ignored = f"its {', '.join(named)} and other settings are ignored" if named else "its settings are ignored"
    return f"{file} is not trusted yet: it can only tighten, and {ignored}; see `byleave trust {file}`"


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
