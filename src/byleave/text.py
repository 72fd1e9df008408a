"""Show text from outside so that it cannot act on the reader's terminal."""


def shown(text: str) -> str:
    """Return `text` with control, bidi, invisible and undecodable characters written out as escapes."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() else _escape(char) for char in text])


def quoted(text: str) -> str:
    """Return `text` as `shown`, between double quotes."""
    return f'"{shown(text)}"'


def sentence_list(words: "list[str] | tuple[str, ...]", *, most: int = 8) -> str:
    """Return the words as a person would list them, cut after `most`."""
    kept = [shown(word) for word in words[:most]]
    if len(words) > most:
        return f"{', '.join(kept)} and {len(words) - most} more"
    return ", ".join([*kept[:-2], " and ".join(kept[-2:])])


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, as os.fsdecode keeps it
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
