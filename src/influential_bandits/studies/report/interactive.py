"""Figures for the browser: hover, zoom, and a legend that switches series on and off."""

from __future__ import annotations

from typing import Any

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.studies.report.content import Bars, Figure, Grid, HeatMap, Picture, Series
from influential_bandits.studies.report.palette import COLOURS, FAINT, places, rgba
from influential_bandits.studies.report.text import grid_text


def as_html(figure: Picture, name: str) -> str:
    """Return a figure as an HTML fragment, without its title; the page must hold plotly's script.

    Titles are the page's: a browser breaks them into lines where the screen is narrow.
    """
    graph = optional_module("plotly.graph_objects")
    if isinstance(figure, Figure):
        drawing = _lines(graph, figure)
    elif isinstance(figure, Bars):
        drawing = _bars(graph, figure)
    elif isinstance(figure, Grid):
        drawing = _grid(graph, figure)
    else:
        drawing = _matrix(graph, figure)
    # No buttons over the picture: dragging zooms, a double click zooms out, files are beside it.
    config = {"displayModeBar": False, "responsive": True}
    html: str = drawing.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=config)
    return html


def _bars(graph: Any, figure: Bars) -> Any:
    values = np.asarray(figure.values, float)
    error = None
    if figure.low is not None and figure.high is not None:
        above, below = np.asarray(figure.high, float) - values, values - np.asarray(figure.low)
        error = {"array": above.tolist(), "arrayminus": below.tolist(), "color": "#333333"}
    bars = graph.Bar(
        x=values.tolist(),
        y=figure.labels,
        orientation="h",
        marker={"color": COLOURS[0]},
        error_x=error,
    )
    drawing = graph.Figure(bars)
    drawing.update_layout(
        template="plotly_white", height=90 + 28 * len(figure.labels), margin={"t": 10, "r": 20}
    )
    drawing.update_xaxes(title=figure.x)
    drawing.update_yaxes(autorange="reversed", automargin=True)
    return drawing


def _matrix(graph: Any, figure: HeatMap) -> Any:
    values = np.asarray(figure.values, float)
    most = float(np.abs(values).max(initial=0.0)) or 1.0
    cells = graph.Heatmap(
        z=values.tolist(),
        x=figure.labels,
        y=figure.labels,
        colorscale="RdBu_r",
        zmin=-most,
        zmax=most,
        hovertemplate="%{y} after %{x}: %{z:.4g}<extra></extra>",
    )
    drawing = graph.Figure(cells)
    drawing.update_layout(template="plotly_white", height=640, margin={"t": 10})
    drawing.update_yaxes(autorange="reversed")
    return drawing


def _lines(graph: Any, figure: Figure) -> Any:
    drawing = graph.Figure()
    for series in (series for series in figure.series if series.kind == "faint"):
        drawing.add_trace(_faint(graph, series))
    shown = [series for series in figure.series if series.kind != "faint"]
    for series, number in zip(shown, places([series.name for series in shown]), strict=True):
        for trace in _traces(graph, series, COLOURS[number]):
            drawing.add_trace(trace)
    drawing.update_layout(
        template="plotly_white",
        height=420,
        margin={"l": 70, "r": 20, "t": 10, "b": 60},
        barmode="stack",
        hovermode="closest",
        legend={"orientation": "h", "y": -0.2},
    )
    drawing.update_xaxes(
        title=figure.x, type="log" if figure.log_x else "linear", exponentformat="power"
    )
    drawing.update_yaxes(
        title=figure.y, type="log" if figure.log_y else "linear", exponentformat="power"
    )
    return drawing


def _grid(graph: Any, figure: Grid) -> Any:
    values = np.asarray(figure.values, float)
    texts = [[grid_text(v, figure.digits) for v in row] for row in values]
    good_is_low = figure.good < figure.bad
    above = 30 + 6 * max(map(len, figure.columns))  # pixels for the names of the columns
    cells = graph.Heatmap(
        z=[[float(v) if np.isfinite(v) else None for v in row] for row in values],
        x=figure.columns,
        y=figure.rows,
        text=texts,
        texttemplate="%{text}",
        colorscale="RdBu_r" if good_is_low else "RdBu",
        zmin=min(figure.good, figure.bad),
        zmax=max(figure.good, figure.bad),
        showscale=False,
        hovertemplate="%{y}, %{x}: %{z:.4g}<extra></extra>",
    )
    drawing = graph.Figure(cells)
    drawing.update_layout(
        template="plotly_white",
        height=above + 40 + 24 * len(figure.rows),
        margin={"t": above, "b": 20, "r": 20},
    )
    drawing.update_xaxes(side="top", type="category", tickangle=-60)
    drawing.update_yaxes(autorange="reversed", automargin=True, type="category")
    return drawing


def _faint(graph: Any, series: Series) -> Any:
    """Return a thin grey line: it has its name when the mouse is over it, and in the legend."""
    return graph.Scatter(
        x=np.asarray(series.x, float).tolist(),
        y=np.asarray(series.y, float).tolist(),
        mode="lines",
        line={"color": FAINT, "width": 1},
        name=series.name,
        legendgroup=series.name,
    )


def _traces(graph: Any, series: Series, colour: str) -> list[Any]:
    x, y = np.asarray(series.x, float).tolist(), np.asarray(series.y, float).tolist()
    same = {"name": series.name, "legendgroup": series.name}
    if series.kind == "bars":
        return [graph.Bar(x=x, y=y, marker={"color": colour}, **same)]
    if series.kind == "points":
        dot = {"color": rgba(colour, 0.5), "size": 5}
        return [graph.Scattergl(x=x, y=y, mode="markers", marker=dot, **same)]
    line = {"color": colour, "dash": "dash" if series.kind == "dashed" else "solid"}
    mode = "lines+markers" if len(x) <= 40 and series.kind == "line" else "lines"
    traces = [graph.Scatter(x=x, y=y, mode=mode, line=line, **same)]
    if series.low is not None:
        low, high = np.asarray(series.low, float).tolist(), np.asarray(series.high, float).tolist()
        traces.insert(
            0,
            graph.Scatter(
                x=[*x, *reversed(x)],
                y=[*high, *reversed(low)],
                mode="lines",
                fill="toself",
                fillcolor=rgba(colour, 0.2),
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
                **same,
            ),
        )
    return traces
