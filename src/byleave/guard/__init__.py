"""The corridor every live request walks. Today its first part: `judge`, which resolves an action and decides it."""
