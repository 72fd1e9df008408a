"""Records read the same whichever encoder wrote them."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from byleave.core.redact import Redactor
from byleave.store.audit.records import encode, load_fast_encoder, plain, record_text

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["null", "\x7f", "é"])
TREES = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


@given(st.dictionaries(st.text(max_size=5), TREES, max_size=4))
@example({"agent": None, "duration": float("nan")})
@example({"agent": None, "duration": [float("inf"), {"a": -float("inf")}]})
def test_the_fast_encoder_writes_what_reads_the_same(fields: dict[str, object]) -> None:
    load_fast_encoder()
    mask = Redactor()
    assert json.loads(record_text(fields, mask)) == json.loads(encode(mask.tree(plain(fields))))
