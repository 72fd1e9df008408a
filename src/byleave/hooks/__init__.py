"""The door in an agent's own hook system: one event in, the decision out, in each agent's own format."""
