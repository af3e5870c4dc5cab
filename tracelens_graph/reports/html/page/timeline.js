// The timeline: lanes over time on one canvas.
class Timeline {
  static AXIS = 24;
  static GUTTER = 168;
  static LABEL = 34;

  constructor(app) {
    this.app = app;
    this.root = el("section", { class: "timeline", id: "view-timeline", role: "tabpanel", "aria-label": "Timeline" });
    this.drawTimes = [];
  }

  start(trace) {
    this.trace = trace;
    this.lanes = new Lanes(trace);
    this.canvas = el("canvas", {
      tabIndex: 0, role: "img",
      "aria-label": "Timeline of host and GPU. The button Events in view lists the same as a table.",
    });
    this.gutter = el("div", { class: "gutter" });
    this.box = el("div", { class: "lanes" }, this.gutter, this.canvas);
    this.twin = el("div", { class: "twin", hidden: true });
    this.status = el("span", { class: "dim" });
    const button = (text, title, act) => el("button", { type: "button", title, onclick: act }, text);
    this.root.append(
      el("div", { class: "bar" },
        button("All", "The whole trace (0)", () => this.show(trace.low, trace.high)),
        button("Selection", "Zoom to the selection (f)", () => this.zoomTo(app.selection)),
        button("Events in view", "The longest events in view, as a table", () => this.toggleTwin()),
        this.status, this.legend()),
      this.box, this.twin);
    const app = this.app;
    this.buttons();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.box);
    const margin = (trace.high - trace.low) * 0.01 || 1;
    this.view = { from: trace.low - margin, to: trace.high + margin };
    this.resize();
  }

  legend() {
    const shown = new Set(this.trace.body.classes.slice(0, 9));
    const used = new Set();
    const { gpu, idle } = this.trace.first;
    for (let e = gpu; e < idle; e++) used.add(this.trace.className(e));
    return el("span", { class: "legend" }, ...[...shown].filter((one) => used.has(one)).map((one) =>
      el("span", { class: "key" }, el("i", { class: `swatch c-${one}` }), one)));
  }

  buttons() {
    this.gutter.replaceChildren();
    for (const region of this.lanes.regions) {
      region.element = el("div", { class: "region" });
      for (const lane of region.lanes) {
        lane.button = el("button", {
          type: "button", class: `lane g-${lane.group}`,
          title: `${lane.title}: ${Show.count(lane.n)} events. Click to ${lane.isLow ? "open" : "close"}.`,
          onclick: () => {
            lane.isLow = !lane.isLow && lane.deep > 1;
            this.resize();
          },
        }, lane.name || lane.title);
        region.element.append(lane.button);
      }
      this.gutter.append(region.element);
    }
  }

  resize() {
    const width = this.box.clientWidth - Timeline.GUTTER, height = this.box.clientHeight;
    if (width <= 0 || height <= 0 || !this.view) return;
    this.ratio = window.devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.image = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.recolor();
    if (this.hidden >= 0) {
      const e = this.hidden;
      this.hidden = -1;
      this.reveal(e);
    }
  }

  recolor() {
    if (!this.image) return;
    this.palette = new Palette(this.trace.body.classes, this.trace.body.causes);
    this.painter = new Painter(this.trace, this.palette, this.canvas.width);
    this.place();
    this.ask();
  }

  place() {
    this.lanes.place(Timeline.AXIS, this.height);
    for (const region of this.lanes.regions) {
      region.element.style.top = `${region.y}px`;
      region.element.style.height = `${region.height}px`;
      for (const lane of region.lanes) {
        // A lane's name stays in sight as long as a row of it does.
        const top = Math.max(0, Math.min(lane.y - region.scroll, lane.y - region.scroll + lane.height));
        const bottom = lane.y + lane.height - region.scroll;
        lane.button.style.top = `${Math.min(top, Math.max(bottom - Lanes.ROW, lane.y - region.scroll))}px`;
      }
    }
  }

  ask() {
    if (this.asked || !this.image) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      const before = performance.now();
      this.draw();
      this.drawTimes.push(performance.now() - before);
      if (this.drawTimes.length > 2000) this.drawTimes.splice(0, 1000);
    });
  }

  get scale() {
    return (this.view.to - this.view.from) / this.canvas.width;
  }

  x(ns) {
    return (ns - this.view.from) / this.scale / this.ratio;
  }

  // ---- drawing --------------------------------------------------------------------------------------------------

  draw() {
    const { pixels, palette, context, ratio, canvas } = this;
    const scale = this.scale;
    // Starts of the view that are whole pixels: else colours flicker while it moves.
    const from = Math.round(this.view.from / scale) * scale;
    pixels.fill(palette.empty);
    const labels = [];
    for (const region of this.lanes.regions) {
      const top = Math.round(region.y * ratio), bottom = Math.round((region.y + region.height) * ratio);
      for (const lane of region.lanes) {
        for (let level = 0; level < lane.deep; level++) {
          const y = this.lanes.topOf(region, lane) + level * lane.row;
          if (y + lane.row <= region.y || y >= region.y + region.height) continue;
          const own = lane.row === Lanes.ROW ? [] : null;
          const line = this.painter.track(lane.track + level, from, scale, own, Timeline.LABEL * ratio);
          const low = Math.max(top, Math.round(y * ratio));
          const high = Math.min(bottom, Math.round((y + lane.row) * ratio) - (lane.row > 4 ? 1 : 0));
          for (let row = low; row < high; row++) pixels.set(line, row * canvas.width);
          if (own && y >= region.y - 1 && y + lane.row <= region.y + region.height + 1) {
            for (const [e, x, width] of own) labels.push([e, x, y, width]);
          }
        }
      }
    }
    context.putImageData(this.image, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawLabels(labels);
    this.drawAxis();
    for (const region of this.lanes.regions) {
      context.fillStyle = palette.lineCss;
      if (region.height) context.fillRect(0, region.y - 0.5, this.width, 1);
    }
    this.drawArrows();
    this.outline(this.app.selection, palette.textCss, 2);
    this.status.textContent = `${Show.span(this.view.to - this.view.from)} in view`;
  }

  drawLabels(labels) {
    const { context, ratio, palette, trace } = this;
    context.font = "11px ui-monospace, Menlo, Consolas, monospace";
    context.textBaseline = "middle";
    const wide = (this.letter ||= context.measureText("0".repeat(50)).width / 50);
    for (const [e, x, y, width] of labels) {
      const text = Show.cut(trace.short(e), Math.floor((width / ratio - 6) / wide));
      const isLit = !trace.lit || e >= trace.first.idle || trace.lit[trace.name[e]];
      context.fillStyle = isLit ? palette.ink[trace.color(e)] : palette.dimCss;
      if (text) context.fillText(text, x / ratio + 3, y + Lanes.ROW / 2);
    }
  }

  drawAxis() {
    const { context, palette, width } = this, { from, to } = this.view;
    context.fillStyle = palette.backCss;
    context.fillRect(0, 0, width, Timeline.AXIS);
    const span = to - from, lead = this.trace.body.lead_ns;
    const rough = span / Math.max(width / 110, 1), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= rough) || 10 * power;
    const [unit, size] = Show.UNITS.find(([, one]) => span + lead >= 0 && one <= Math.max(step * 10, 1)) || Show.UNITS[3];
    const digits = Math.max(0, Math.round(-Math.log10(step / size) + 0.49));
    // Deep in a long trace numbers are told from a whole millisecond or second that stands at the left.
    const whole = size < 1e9 && Math.abs(from + lead) > 1e3 * size ? 1e3 * size : 0;
    const base = whole ? Math.floor((from + lead) / whole) * whole : 0;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    const left = whole ? `${Show.moment(base)} +` : "";
    const reserved = left ? context.measureText(left).width + 16 : 0;
    for (let t = Math.ceil((from + lead) / step) * step + 0; t < to + lead; t += step) {
      const x = this.x(t - lead);
      context.fillStyle = palette.lineCss;
      context.fillRect(x, Timeline.AXIS - 6, 1, 6);
      const label = `${Show.number((t - base) / size + 0, digits)} ${unit}`;
      context.fillStyle = palette.dimCss;
      if (x > reserved && x + context.measureText(label).width + 4 < width) context.fillText(label, x + 3, 10);
    }
    if (left) {
      context.fillStyle = palette.textCss;
      context.fillText(left, 4, 10);
    }
  }

  outline(e, color, size) {
    const place = e >= 0 && this.lanes.placeOf(e);
    if (!place) return;
    const { context } = this, { region, lane, y } = place;
    context.save();
    context.beginPath();
    context.rect(0, region.y, this.width, region.height);
    context.clip();
    context.strokeStyle = color;
    context.lineWidth = size;
    const x = Math.max(-4, this.x(this.trace.start[e])), right = Math.min(this.width + 4, this.x(this.trace.end(e)));
    context.strokeRect(x, y, Math.max(right - x, 2), Math.max(lane.row - 1, 3));
    context.restore();
  }

  // From the launches below the selection to their GPU events.
  drawArrows() {
    const { trace, context, palette } = this, e = this.app.selection;
    if (e < 0 || e >= trace.first.idle) return;
    const work = e >= trace.first.gpu ? (trace.parent[e] >= 0 ? [e] : []) : [...trace.launched(e).subarray?.(0, 200) ?? []];
    context.strokeStyle = palette.accentCss;
    context.lineWidth = 1.2;
    for (const k of work) {
      const from = this.lanes.placeOf(trace.parent[k]), to = this.lanes.placeOf(k);
      if (!from || !to) continue;
      const x = this.x(trace.start[trace.parent[k]]), y = Math.max(from.region.y, Math.min(from.y + from.lane.row, from.region.y + from.region.height));
      const right = this.x(trace.start[k]), below = Math.max(to.region.y, Math.min(to.y, to.region.y + to.region.height));
      if (Math.max(x, right) < 0 || Math.min(x, right) > this.width) continue;
      context.beginPath();
      context.moveTo(x, y);
      context.bezierCurveTo(x, (y + below) / 2, right, (y + below) / 2, right, below - 4);
      context.stroke();
      context.beginPath();
      context.moveTo(right - 3, below - 5);
      context.lineTo(right, below);
      context.lineTo(right + 3, below - 5);
      context.stroke();
    }
  }

  // ---- moving ---------------------------------------------------------------------------------------------------

  show(from, to) {
    const { low, high } = this.trace, all = high - low || 1;
    let span = Math.min(Math.max(to - from, 20), all * 1.1);
    let begin = (from + to - span) / 2;
    begin = Math.min(Math.max(begin, low - all * 0.05), high + all * 0.05 - span);
    this.view = { from: begin, to: begin + span };
    this.ask();
    if (!this.twin.hidden) {
      clearTimeout(this.listing);
      this.listing = setTimeout(() => this.listTwin(), 150);
    }
  }

  zoom(factor, x) {
    const { from, to } = this.view, at = from + (x / this.width) * (to - from);
    this.show(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share) {
    const { from, to } = this.view, by = share * (to - from);
    this.show(from + by, to + by);
  }

  zoomTo(e) {
    if (e < 0) return;
    const dur = Math.max(this.trace.dur[e], 100);
    this.show(this.trace.start[e] - dur * 0.6, this.trace.end(e) + dur * 0.6);
    this.reveal(e);
  }

  reveal(e) {
    if (!this.image) {
      this.hidden = e; // where rows stand is known once the view is shown
      return;
    }
    this.lanes.reveal(e);
    this.place();
    const { start } = this.trace, { from, to } = this.view;
    if (start[e] < from || this.trace.end(e) > to) {
      const span = Math.max(to - from, this.trace.dur[e] * 1.5);
      const middle = this.trace.dur[e] > to - from ? start[e] + this.trace.dur[e] / 2 : start[e];
      this.show(middle - span / 2, middle + span / 2);
    }
    this.ask();
  }

  // The event under a point: what the point is in, else the nearest within a few pixels, the longest first.
  at(x, y) {
    const found = this.lanes.trackAt(y);
    if (!found) return -1;
    const level = this.trace.levels[0], scale = this.scale * this.ratio, t = this.view.from + x * scale;
    let best = -1, bestFar = 3 * scale, bestDur = -1;
    for (let i = Painter.firstIn(level, found.track, t - 3 * scale), n = 0; i < level.from[found.track + 1] && n < 5000; i++, n++) {
      if (level.start[i] > t + 3 * scale) break;
      const far = Math.max(level.start[i] - t, t - level.end[i], 0), dur = level.end[i] - level.start[i];
      const near = far < scale ? 0 : far;
      if (near < bestFar || (near === bestFar && dur > bestDur)) [best, bestFar, bestDur] = [level.event[i], near, dur];
    }
    return best;
  }

  listen() {
    const { canvas, app } = this;
    let drag = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        this.pan((event.deltaX || event.deltaY) / this.width);
      } else this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), event.offsetX);
    }, { passive: false });
    this.gutter.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.scroll(event.clientY - this.box.getBoundingClientRect().top, event.deltaY);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, from: this.view.from, to: this.view.to, moved: false, at: event.offsetY };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      this.mouse = event.offsetX;
      if (drag) {
        const across = event.clientX - drag.x, down = event.clientY - drag.y;
        if (!drag.moved && Math.abs(across) + Math.abs(down) < 4) return;
        drag.moved = true;
        Tip.hide();
        const by = across * this.scale * this.ratio;
        this.show(drag.from - by, drag.to - by);
        this.scroll(drag.at, (drag.last ?? drag.y) - event.clientY);
        drag.last = event.clientY;
        return;
      }
      const e = this.at(event.offsetX, event.offsetY);
      canvas.classList.toggle("over", e >= 0);
      if (e >= 0) Tip.at(event, this.trace.says(e));
      else Tip.hide();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) app.select(this.at(event.offsetX, event.offsetY), "timeline");
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => Tip.hide());
    canvas.addEventListener("dblclick", (event) => this.zoomTo(this.at(event.offsetX, event.offsetY)));
  }

  scroll(y, by) {
    const region = this.lanes.regionAt(y);
    if (!region) return;
    this.lanes.scrollTo(region, region.scroll + by);
    this.place();
    this.ask();
  }

  key(key) {
    const middle = this.mouse ?? this.width / 2;
    const acts = {
      w: () => this.zoom(0.7, middle), s: () => this.zoom(1 / 0.7, middle),
      a: () => this.pan(-0.15), d: () => this.pan(0.15), ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15),
      ArrowUp: () => this.scroll(this.lanes.regions[1].y + 1, -48), ArrowDown: () => this.scroll(this.lanes.regions[1].y + 1, 48),
      f: () => this.zoomTo(this.app.selection), 0: () => this.show(this.trace.low, this.trace.high),
      ",": () => this.neighbour(-1), ".": () => this.neighbour(1),
    };
    if (!acts[key]) return false;
    acts[key]();
    return true;
  }

  // The event before or behind the selection on its track.
  neighbour(by) {
    const e = this.app.selection, { trace } = this;
    if (e < 0) return;
    const level = trace.levels[0], track = trace.laneOf(e).track + trace.level[e];
    let at = level.from[track];
    while (level.event[at] !== e) at++;
    const next = at + by;
    if (next >= level.from[track] && next < level.from[track + 1]) this.app.select(level.event[next], "key");
  }

  // ---- the same as a table -----------------------------------------------------------------------------------------

  toggleTwin() {
    this.twin.hidden = !this.twin.hidden;
    this.root.classList.toggle("with-twin", !this.twin.hidden);
    if (!this.twin.hidden) this.listTwin();
    this.resize();
  }

  listTwin() {
    const { trace } = this, { from, to } = this.view;
    const found = [];
    for (let e = 0; e < trace.n; e++) if (trace.start[e] < to && trace.end(e) > from) found.push(e);
    found.sort((a, b) => trace.dur[b] - trace.dur[a]);
    const shown = found.slice(0, 1000);
    this.grid ||= new Grid(this.twin, "Events in view");
    this.grid.show({
      columns: [
        { heading: "event", kind: "text", cells: shown.map((e) => trace.text(e)) },
        { heading: "lane", kind: "text", cells: shown.map((e) => trace.laneOf(e).title) },
        { heading: "start", unit: "ms", kind: "number", digits: 6, cells: shown.map((e) => (trace.start[e] + trace.body.lead_ns) / 1e6) },
        { heading: "duration", unit: "µs", kind: "number", digits: 3, cells: shown.map((e) => trace.dur[e] / 1e3) },
        { heading: "uid", kind: "uid", cells: shown.map((e) => trace.uid[e]) },
      ],
      rows: shown.length,
      notes: found.length > shown.length ? [`the longest ${Show.count(shown.length)} of ${Show.count(found.length)}`] : [],
      click: (row) => this.app.select(shown[row], "table"),
    });
  }
}
