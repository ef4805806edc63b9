from retinue.registry.near import near_names


def test_a_name_in_the_same_last_segment_comes_first_then_by_spelling() -> None:
    known = ["experimental/nlp/sentiment", "sentinel", "other"]

    assert near_names("sentiment", known) == ("experimental/nlp/sentiment", "sentinel")


def test_nothing_is_near_a_name_unlike_all_others() -> None:
    assert near_names("zzzz", ["coder", "reviewer"]) == ()


def test_case_and_underscores_do_not_make_names_far() -> None:
    assert near_names("Code_Reviewr", ["code-reviewer"]) == ("code-reviewer",)
