"""PURE. What an agent's own tool call amounts to: its words and structures in, actions of the policy out.

Agents name their tools and arguments as they like. Every door that looks at an agent's own calls (the ACP proxy, the
hooks) comes here, so that one call means one thing. Start at `meaning.meaning`.
"""
