"""PURE. What an agent's own tool call amounts to: its words and structures in, actions of the policy out.

Agents name their tools and arguments as they like. The ACP proxy and the hooks both translate an
agent's own calls here, so that one call means one thing. Start at `translate.translate`.
"""
