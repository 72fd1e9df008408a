"""The door between an editor and an agent: an ACP proxy that applies the policy and is otherwise invisible."""
