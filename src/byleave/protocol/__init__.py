"""What passes between processes, as values: lines of bytes, members of objects. Pure: no pipe, no task, no clock."""
