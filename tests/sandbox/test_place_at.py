"""The place that holds for a path is found as by going through all of them."""

from hypothesis import given
from hypothesis import strategies as st

from byleave.core.fs_rules import is_under
from byleave.sandbox.plan.plan import DIRECTORY, NOTHING, PathGrant, SandboxPlan, in_order

paths = st.lists(st.sampled_from(["a", "b", "ab", "a.b", "é"]), max_size=4).map(lambda names: "/" + "/".join(names))


def one_by_one(plan: SandboxPlan, path: str) -> PathGrant | None:
    found = None
    for place in plan.places:
        if is_under(path, place.path):
            found = place
    return found


@given(st.lists(paths, max_size=8), st.lists(paths, min_size=1, max_size=5))
def test_a_place_is_found_by_the_paths_above(places: list[str], asked: list[str]) -> None:
    plan = SandboxPlan("/a", in_order(PathGrant(path, NOTHING, DIRECTORY, str(at)) for at, path in enumerate(places)))
    assert [plan.at(path) for path in asked] == [one_by_one(plan, path) for path in asked]
