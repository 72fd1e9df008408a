"""The hook in an agent's own hook system: one event in, the decision out, in each agent's own format.

To add an agent, name it in `agents` and give it an entry in each of these tables:

- `agents._NAMES`: what its own tools do.
- `event_reader._READERS`: which of its events are tool calls, and how they are read.
- `hook.NEUTRAL` and `hook._FORMATS`: how it is answered, without a decision and with one.
- `snippets.PLACES`: which settings file holds the hook, and where in it.
- `outcome_events._READERS`: which of its events report what came of a call.

The command line offers the names of `cli.commands.HOOKED`; `policy.dirs` protects the agents' settings.
"""
