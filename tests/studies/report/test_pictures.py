"""Bars and heat maps, drawn for print and for the browser, whatever the numbers and names."""

import json
import re

import numpy as np
import pytest
from report_files import png_size, svg_texts

from influential_bandits.studies.logs.sections import cluster_order, heat_map
from influential_bandits.studies.report.content import Bars, Figure, Grid, HeatMap, Series
from influential_bandits.studies.report.interactive import as_html
from influential_bandits.studies.report.palette import BY_NAME, COLOURS, places
from influential_bandits.studies.report.static import draw

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


RANKS = [[1.0, 2.5], [2.0, np.nan], [3.0, 10.0]]
GRIDS = {
    "ranks": Grid("p", "Title", ["a", "b", "c"], ["x", "y"], RANKS, 1.0, 10.0, digits=1),
    "shares": Grid("p", "Title", ["1", "20"], ["3", "5"], [[0.5, 1.0], [0.0, 0.25]], 1.0, 0.0),
    "one": Grid("p", "Title", ["$a"], ["<b>"], [[1.0]], 1.0, 1.0),
    "missing": Grid("p", "Title", ["a"], ["b"], [[np.nan]], 1.0, 2.0),
    "many": Grid("p", "Title", list("abcdefghij") * 2, ["y"], np.ones((20, 1)), 1.0, 20.0),
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


@pytest.mark.long
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
    assert "title" not in layout, "the page has it, and breaks it into lines"
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


# Grids


@pytest.mark.long
@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_is_drawn_for_print(name, tmp_path):
    draw(GRIDS[name], tmp_path, {})
    width, height = png_size((tmp_path / "p.png").read_bytes())
    assert width > 600
    assert height > 200


def test_a_grid_has_its_numbers_in_the_browser():
    (trace,), layout = traces_of(as_html(GRIDS["ranks"], "spot"))
    assert trace["z"] == [[1.0, 2.5], [2.0, None], [3.0, 10.0]]
    assert trace["text"] == [["1", "2.5"], ["2", ""], ["3", "10"]]
    assert (trace["x"], trace["y"]) == (["x", "y"], ["a", "b", "c"])
    assert (trace["zmin"], trace["zmax"]) == (1.0, 10.0)
    assert layout["yaxis"]["autorange"] == "reversed"
    (trace,), layout = traces_of(as_html(GRIDS["shares"], "spot"))
    assert (trace["zmin"], trace["zmax"]) == (0.0, 1.0)
    assert layout["xaxis"]["type"] == layout["yaxis"]["type"] == "category"


def test_what_is_good_is_blue_in_the_browser():
    """Low ranks, but high shares."""
    ends = []
    for name in ("ranks", "shares"):
        (trace,), _ = traces_of(as_html(GRIDS[name], "spot"))
        ends.append(trace["colorscale"][0][1])
    (heat,), _ = traces_of(as_html(HeatMap("p", "t", ["a"], [[1.0]]), "spot"))
    blue = heat["colorscale"][0][1]
    assert ends[0] == blue
    assert ends[1] != blue


# Lines


def crowd():
    faint = [Series(f"other {n}", [1, 10], [n + 1, n + 2], kind="faint") for n in range(9)]
    shown = [Series(name, [1, 10], [1, 2]) for name in ("best", "LCB", "second")]
    return Figure("p", "Title", "x", "y", [*shown, *faint])


def test_faint_lines_are_thin_grey_and_keep_their_names_in_the_browser():
    traces, _ = traces_of(as_html(crowd(), "spot"))
    grey = [trace for trace in traces if trace["line"].get("width") == 1]
    assert [trace["name"] for trace in grey] == [f"other {n}" for n in range(9)]
    assert len({trace["line"]["color"] for trace in grey}) == 1


def test_faint_lines_are_drawn_for_print_with_one_entry_in_the_legend(tmp_path):
    draw(crowd(), tmp_path, {})
    text = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert "9 others" in text
    assert "other 3" not in text


def test_lines_of_one_figure_have_colours_of_their_own():
    names = ["a", "LCB", "b", "InfluentialLCB", "c", "d", "e"]
    given = places(names)
    assert len(set(given)) == len(names) == len(COLOURS)
    assert given[1] == BY_NAME["LCB"]
    assert given[3] == BY_NAME["InfluentialLCB"]
    assert places(["a", "b", "c"]) == [0, 1, 2]
    assert set(places([f"line {n}" for n in range(30)])) == set(range(len(COLOURS)))


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
