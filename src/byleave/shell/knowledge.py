"""What is known of one command's words, as the rules ask for it."""

from byleave.record import Record
