"""Bars and heat maps, drawn for print and for the browser, whatever the numbers and names."""

import json
import re

import numpy as np
import pytest
from report_files import png_size, svg_texts

from influential_bandits.studies.log_sections import cluster_order, heat_map
from influential_bandits.studies.report.interactive import as_html
from influential_bandits.studies.report.static import draw
from influential_bandits.studies.study import Bars, Figure, HeatMap, Series

MATRIX = np.array([[2.0, -1.0, 0.5], [-1.0, 1.0, 0.0], [0.5, 0.0, 3.0]])
PICTURES = {
    "bars": Bars("p", "Title", ["a", "b", "c"], [1.0, -2.0, 0.5], "x", [0, -3, 0], [2, -1, 1]),
    "bars without intervals": Bars("p", "Title", ["a", "b"], [1.0, -2.0], "x"),
    "bars of zeros": Bars("p", "Title", ["a", "b"], [0.0, 0.0], "x", [0.0, 0.0], [0.0, 0.0]),
    "one bar": Bars("p", "Title", ["a"], [1.0], "x", [0.5], [1.5]),
    "no bars": Bars("p", "Title", [], [], "x", [], []),
    "bars of arrays": Bars("p", "Title", ["a"], np.array([3]), "x", np.array([2]), np.array([5])),
    "bars of numbers": Bars("p", "Title", ["20", "3", "100"], [1, 2, 3], "x"),
    "tiny bars": Bars("p", "Title", ["a", "b"], [1e-300, 1e300], "x"),
    "many bars": Bars("p", "Title", [f"arm {n}" for n in range(60)], np.arange(60), "x"),
    "heat map": HeatMap("p", "Title", ["a", "b", "c"], MATRIX),
    "heat map of zeros": HeatMap("p", "Title", ["a", "b"], np.zeros((2, 2))),
    "heat map of one": HeatMap("p", "Title", ["a"], [[-1.0]]),
    "heat map of numbers": HeatMap("p", "Title", ["20", "3", "100"], MATRIX),
    "odd names": Bars("p", "A < B & C", ["<b>x</b>", "a_b^c", "50 % & more"], [1, 2, 3], "x"),
    "one dollar": HeatMap("p", "Title", ["$5", "_hidden"], np.eye(2)),
}


def traces_of(text):
    """The data and the layout that a fragment gives to plotly."""
    start = text.index("[", text.index("Plotly.newPlot("))
    data, end = json.JSONDecoder().raw_decode(text[start:])
    layout, _ = json.JSONDecoder().raw_decode(text[text.index("{", start + end) :])
    return data, layout


def matrix_of(trace):
    """The cells of a heat map, row by row."""
    return np.array(trace["z"], float)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_for_print(name, tmp_path):
    draw(PICTURES[name], tmp_path, {"source": "データ <x> & y", "ridge": 1.0})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.png", "p.svg"]
    width, height = png_size((tmp_path / "p.png").read_bytes())
    assert width > 600
    assert height > 200
    assert svg_texts(tmp_path / "p.svg") > 20


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_for_the_browser(name):
    picture = PICTURES[name]
    text = as_html(picture, "spot")
    assert 'id="spot"' in text
    assert not re.search(r"(src|href)\s*=", text)
    (trace,), layout = traces_of(text)
    assert layout["title"]["text"] == picture.title
    if isinstance(picture, Bars):
        assert trace["type"] == "bar"
        assert (trace["x"], trace["y"]) == (list(np.asarray(picture.values)), picture.labels)
        assert ("error_x" in trace) == (picture.low is not None)
    else:
        assert trace["type"] == "heatmap"
        assert trace["x"] == trace["y"] == picture.labels
        np.testing.assert_array_equal(matrix_of(trace), picture.values)
        assert trace["zmax"] == -trace["zmin"] > 0.0, "white is zero"


def test_intervals_reach_from_low_to_high_in_the_browser():
    bars = PICTURES["bars"]
    (trace,), layout = traces_of(as_html(bars, "spot"))
    error = trace["error_x"]
    assert np.add(trace["x"], error["array"]).tolist() == bars.high
    assert np.subtract(trace["x"], error["arrayminus"]).tolist() == bars.low
    assert layout["yaxis"]["autorange"] == "reversed", "the first bar on top, as in print"


def test_the_first_row_of_a_heat_map_is_on_top_in_the_browser():
    _, layout = traces_of(as_html(PICTURES["heat map"], "spot"))
    assert layout["yaxis"]["autorange"] == "reversed"


def test_names_that_are_numbers_stay_names_in_the_browser():
    """Else arms 3, 20 and 100 would stand at these places of an axis of numbers."""
    for name in ("bars of numbers", "heat map of numbers"):
        _, layout = traces_of(as_html(PICTURES[name], "spot"))
        strict = layout["template"]["layout"].get("autotypenumbers") == "strict"
        assert strict or layout["yaxis"].get("type") == "category"


def test_markup_in_names_cannot_end_the_script():
    text = as_html(HeatMap("p", "t", ["</script><img src=x>"], [[1.0]]), "spot")
    assert text.count("</script>") == text.count("<script")
    assert "<img" not in text


@pytest.mark.parametrize("label", [r"$\nonsense$", "$a_$"])
def test_names_with_two_dollars_are_drawn_for_print(label, tmp_path):
    draw(HeatMap("p", "t", [label], [[1.0]]), tmp_path, {})


def test_names_of_any_script_are_drawn_for_print_quietly(tmp_path):
    draw(HeatMap("p", "t", ["茶"], [[1.0]]), tmp_path, {})


def test_a_histogram_of_one_bin_is_drawn_for_print(tmp_path):
    bar = Series("s", [1.0], [2.0], kind="bars")
    draw(Figure("p", "t", "x", "y", [bar], log_x=False, log_y=False), tmp_path, {})


# The order of the arms


@pytest.mark.parametrize("arms", [1, 2, 3, 8])
def test_arms_are_only_reordered(arms):
    matrix = np.random.default_rng(arms).normal(size=(arms, arms))
    matrix += matrix.T
    names = tuple(f"arm {n}" for n in range(arms))
    order = cluster_order(matrix)
    assert sorted(order) == list(range(arms))
    picture = heat_map("p", "t", names, matrix)
    for i in range(arms):
        for j in range(arms):
            one, other = picture.labels.index(names[i]), picture.labels.index(names[j])
            assert np.asarray(picture.values)[one, other] == matrix[i, j]


def test_arms_that_are_alike_stand_together():
    group = np.array([0, 1, 0, 1, 0, 1])
    matrix = (group[:, None] == group).astype(float)
    assert np.count_nonzero(np.diff(group[cluster_order(matrix)])) == 1


def test_a_matrix_of_zeros_has_an_order():
    assert sorted(cluster_order(np.zeros((4, 4)))) == [0, 1, 2, 3]
