"""The project's files as they are on disk: where a path really leads (`resolve`), and opening it safely (`opening`)."""
