"""The ACP proxy between an editor and an agent: it applies the policy, and is otherwise invisible."""
