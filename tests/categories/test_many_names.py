from __future__ import annotations

from growth import cost

from tracelens_graph.categories.kernels import kernel_categories


def test_names_that_the_same_rules_fit_share_the_list_of_them() -> None:
    count = 5_000
    kernels = [(f"{number}", "") for number in range(count)]
    kernel_categories(kernels[:1])
    assert cost(lambda: kernel_categories(kernels)).peak < 150 * count
