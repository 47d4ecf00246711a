from benchmarks.tables import markdown, mean_and_deviation, paired_difference


def test_mean_and_deviation():
    assert mean_and_deviation([0.9, 1.0]) == "95.0 ± 7.1"
    assert mean_and_deviation([0.5]) == "50.0"


def test_paired_difference_uses_common_seeds():
    ours, theirs = {0: 0.9, 1: 1.0, 5: 0.1}, {0: 0.8, 1: 0.7, 9: 0.0}
    # Differences of 10 and 30: a standard error of 10, times the quantile of Student's
    # t with one degree of freedom, tan(0.475 pi) = 12.706.
    assert paired_difference(ours, theirs) == "+20.0 ± 127.1 (2/0/0)"
    many = {seed: seed % 2 for seed in range(1000)}  # then it is about 1.96 * 50 / 31.6
    zero = dict.fromkeys(many, 0.0)
    assert paired_difference(many, zero) == "+50.0 ± 3.1 (500/500/0)"
    assert paired_difference({0: 0.5}, {0: 0.75}) == "-25.0 (0/0/1)"
    assert paired_difference({0: 0.5}, {1: 0.75}) == ""


def test_markdown():
    assert markdown(["name", "value"], [["a", "1"], ["bcdefg", "10"]]) == (
        "| name   | value |\n|--------|------:|\n| a      |     1 |\n| bcdefg |    10 |"
    )
