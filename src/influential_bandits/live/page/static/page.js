// Keeps a page up to date: asks for what has moved, puts it in its places, and draws the charts.
"use strict";

(() => {
  const SECONDS = 3;
  const SECONDS_BETWEEN_WORDS = 15;
  const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3], [5, 2], [1, 4], [12, 4]];
  const drawn = new Map();
  let charts = JSON.parse(document.getElementById("charts").textContent);
  let spoken = 0;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const utc = (at) => uPlot.tzDate(new Date(at * 1e3), "Etc/UTC");
  const write = (value) => {
    if (value === null || value === undefined) return "–";
    const text = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(3));
    return text.replace("-", "−");
  };

  const axis = (more) => ({
    stroke: colour("--soft"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    font: "12px system-ui, sans-serif",
    ...more,
  });
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  const tick = (value) => (Math.abs(value) >= 10000 ? compact.format(value).replace("-", "−") : write(value));
  const numbers = () => axis({ size: 58, values: (_, ticks) => ticks.map(tick) });
  const line = (label, place, more) => ({
    label, stroke: colour(`--c${place % 7}`), width: 2, spanGaps: true,
    value: (_, value) => write(value), points: { size: 5 }, ...more,
  });
  const base = (box, more) => ({
    width: Math.max(box.clientWidth, 200), height: 220, tzDate: utc,
    cursor: { y: false, drag: { x: true, y: false } }, ...more,
  });
  const moment = (at, from, to) => new Date(at * 1e3).toISOString().slice(from, to);
  const tell = (at, step) => (step >= 86400 ? moment(at, 0, 10) : step >= 60 ? moment(at, 11, 16) : moment(at, 11, 19));
  const times = () => axis({ space: 80, values: (_, ticks, __, ___, step) => ticks.map((at, place) => (
    step < 86400 && (place === 0 || moment(at, 0, 10) !== moment(ticks[place - 1], 0, 10)) ? tell(at, step) + "\n" + moment(at, 0, 10) : tell(at, step))) });
  // A moment alone would be drawn on years.
  const span = (plot, low, high) => {
    if (low === null) return [0, 60];
    if (plot.data[0].length === 1) high = low; // the library says three years instead
    return high - low < 60 ? [low - 30, high + 30] : [low, high];
  };
  const when = { label: "time", value: (_, at) => (at == null ? "–" : new Date(at * 1e3).toISOString().slice(0, 19).replace("T", " ")) };

  // A single value or none would leave an axis without a length.
  const around = (_, low, high) => {
    if (low === null || high === null) return [0, 1];
    const room = (high - low) * 0.12 || Math.abs(high) * 0.2 || 1;
    return [low - room, high + room];
  };
  const fromZero = (_, low, high) => [0, high > 0 ? high * 1.12 : 1];
  const withZero = (_, low, high) => around(_, Math.min(low ?? 0, 0), Math.max(high ?? 0, 0));

  const zeroLine = (plot) => {
    const y = Math.round(plot.valToPos(0, "y", true));
    const { left, width } = plot.bbox;
    plot.ctx.save();
    plot.ctx.strokeStyle = colour("--soft");
    plot.ctx.setLineDash([4, 4]);
    plot.ctx.beginPath();
    plot.ctx.moveTo(left, y);
    plot.ctx.lineTo(left + width, y);
    plot.ctx.stroke();
    plot.ctx.restore();
  };

  const forms = {
    rate: (box, chart) => base(box, {
      series: [when, line("decisions", 0, { fill: colour("--c0") + "22" }), line("feedback", 2, { dash: DASHES[1] })],
      axes: [times(), numbers()], scales: { x: { range: span }, y: { range: fromZero } },
    }),
    groups: (box, chart) => base(box, {
      series: [when, line("policy", 0), line("control", 1, { dash: DASHES[1] })],
      axes: [times(), numbers()], scales: { x: { range: span }, y: { range: around } },
    }),
    arms: (box, chart) => base(box, {
      height: 260,
      series: [when, ...chart.names.map((name, place) => line(name, place, { dash: DASHES[place % 7] }))],
      axes: [times(), numbers()], scales: { x: { range: span }, y: { range: around } },
    }),
    evidence: (box, chart) => base(box, {
      series: [when, line("difference", 0), line("lowest", 0, { width: 1, dash: DASHES[2], points: { show: false } }), line("highest", 0, { width: 1, dash: DASHES[2], points: { show: false } })],
      bands: [{ series: [3, 2], fill: colour("--c0") + "2b" }],
      axes: [times(), numbers()], scales: { x: { range: span }, y: { range: withZero } }, hooks: { drawClear: [zeroLine] },
    }),
  };

  const draw = (afresh) => {
    for (const box of document.querySelectorAll(".chart")) {
      const form = box.dataset.chart;
      const chart = charts[form];
      const empty = !chart || !chart.columns[0].length;
      box.classList.toggle("empty", empty);
      box.dataset.words = form === "evidence" ? "Nothing to compare yet." : "Nothing has happened in this time.";
      const key = form;
      const known = drawn.get(key);
      const names = chart ? chart.names.join("\u0000") : "";
      if (known && (afresh || empty || known.names !== names)) {
        known.plot.destroy();
        drawn.delete(key);
      }
      if (empty) continue;
      const data = chart.columns;
      if (drawn.has(key)) drawn.get(key).plot.setData(data);
      else drawn.set(key, { plot: new uPlot(forms[form](box, chart), data, box), names, box });
    }
  };

  const resize = () => {
    for (const { plot, box } of drawn.values()) plot.setSize({ width: Math.max(box.clientWidth, 200), height: plot.height });
  };

  const put = (parts) => {
    for (const place of document.querySelectorAll("[data-live]")) {
      const markup = parts[place.dataset.live];
      if (markup === undefined || place.dataset.was === String(markup.length) + markup) continue;
      if (place.contains(document.activeElement) && place !== document.activeElement) continue;
      place.innerHTML = markup;
    }
  };

  const say = (summary) => {
    const place = document.getElementById("summary");
    const now = Date.now() / 1e3;
    if (now - spoken < SECONDS_BETWEEN_WORDS || place.textContent === summary) return;
    place.textContent = summary;
    spoken = now;
  };

  const freshness = (words) => {
    const place = document.getElementById("freshness");
    if (place.textContent !== words) place.textContent = words;
  };

  const ask = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(location.href, { headers: { Accept: "application/json" }, credentials: "same-origin" });
        if (answer.status === 401) return location.reload();
        if (!answer.ok) throw new Error(answer.status);
        const news = await answer.json();
        charts = news.charts;
        put(news.parts);
        draw(false);
        say(news.summary);
        freshness("updates every few seconds");
      } catch {
        freshness("the service does not answer; trying again");
      }
    }
    setTimeout(ask, SECONDS * 1e3);
  };

  draw(true);
  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(resize, 80); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(true));
  setTimeout(ask, SECONDS * 1e3);
})();
