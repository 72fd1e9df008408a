"""What passes between processes, as values: lines of bytes. Pure: no pipe, no task, no clock."""
