// @ts-check
// The timeline: lanes over time on one canvas.
class Timeline {
  static AXIS = 24;
  static GUTTER = 168;
  // Causes of idle time in the line above the lanes; the button Colours has all.
  static CAUSES = 3;
  static LABEL = 34;
  static SMALL = 0.2;
  static FEW = 50;

  constructor(app) {
    this.app = app;
    this.root = el("section", { class: "timeline", id: "view-timeline", role: "tabpanel", "aria-label": "Timeline" });
    this.drawTimes = [];
  }

  start(trace) {
    this.trace = trace;
    this.lanes = new Lanes(trace);
    this.canvas = el("canvas", {
      tabIndex: 0,
      role: "img",
      "aria-label": "Timeline of host and GPU. The button Events in view lists the same as a table.",
    });
    this.gutter = el("div", { class: "gutter" });
    this.box = el("div", { class: "lanes" }, this.gutter, this.canvas);
    this.twin = el("div", { class: "twin", hidden: true });
    this.status = el("span", { class: "dim" });
    const button = (text, title, act) => el("button", { type: "button", title, onclick: act }, text);
    this.root.append(
      el(
        "div",
        { class: "bar" },
        button("All", "The whole trace (0)", () => this.show(trace.low, trace.high)),
        button("Selection", "Zoom to the selection (f)", () => this.zoomTo(app.selection)),
        button("Events in view", "The longest events in view, as a table", () => this.toggleTwin()),
        this.status,
        trace.legend(trace.gpuClasses(), trace.idleCauses().slice(0, Timeline.CAUSES)),
        this.colors(),
      ),
      trace.n ? "" : el("p", { class: "dim" }, "No event of host or GPU was recorded here."),
      this.box,
      this.twin,
    );
    const app = this.app;
    this.buttons();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.box);
    this.view = this.first();
    this.resize();
  }

  // What is seen first: all, or the GPU's work where a long recording has it in a small part.
  first() {
    const { low, high, first, start } = this.trace;
    let [from, to] = [Infinity, -Infinity];
    for (let e = first.gpu; e < first.idle; e++) {
      from = Math.min(from, start[e]);
      to = Math.max(to, this.trace.end(e));
    }
    const isSmall = first.idle - first.gpu >= Timeline.FEW && to - from < (high - low) * Timeline.SMALL;
    if (!isSmall) [from, to] = [low, high];
    const margin = (to - from) * (isSmall ? 0.1 : 0.01) || 1;
    return { from: from - margin, to: to + margin };
  }

  // What all colours mean, behind a button.
  colors() {
    const { classes, causes } = this.trace.body,
      swatch = (of, text) => el("span", { class: "key" }, el("i", { class: `swatch c-${of}` }), text);
    const idle = new Map(causes.map((one) => [one.class, one.class === "unknown" ? "unknown, and others" : one.name]));
    return el(
      "details",
      { class: "columns colors" },
      el("summary", {}, "Colours"),
      el(
        "div",
        { class: "choices" },
        el("b", {}, "GPU"),
        ...classes.slice(0, 9).map((one) => swatch(one, one)),
        el("b", {}, "host"),
        ...["module", "op", "python", "call", "annotation", "step"].map((one) =>
          swatch(one, { python: "Python", call: "call of the runtime" }[one] ?? one),
        ),
        el("b", {}, "idle: what the host did"),
        ...[...idle].map(([of, text]) => swatch(`idle-${of}`, text)),
      ),
    );
  }

  buttons() {
    this.gutter.replaceChildren();
    for (const region of this.lanes.regions) {
      region.element = el("div", { class: "region" });
      for (const lane of region.lanes) {
        lane.button = el(
          "button",
          {
            type: "button",
            class: `lane g-${lane.group}`,
            title: `${lane.title}: ${Show.count(lane.n)} events. Click to ${lane.isLow ? "open" : "close"}.`,
            onclick: () => {
              lane.isLow = !lane.isLow && lane.deep > 1;
              this.resize();
            },
          },
          lane.name || lane.title,
        );
        region.element.append(lane.button);
      }
      this.gutter.append(region.element);
    }
  }

  resize() {
    const width = this.box.clientWidth - Timeline.GUTTER,
      height = this.box.clientHeight;
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
    this.gutter.style.height = `${this.lanes.bottom}px`;
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
      this.draw();
    });
  }

  draw() {
    if (!this.image) return;
    const before = performance.now();
    Drawing.all(this);
    this.drawTimes.push(performance.now() - before);
    if (this.drawTimes.length > 2000) this.drawTimes.splice(0, 1000);
  }

  get scale() {
    return (this.view.to - this.view.from) / this.canvas.width;
  }

  x(ns) {
    return (ns - this.view.from) / this.scale / this.ratio;
  }

  // ---- moving ---------------------------------------------------------------------------------------------------

  show(from, to) {
    const { low, high } = this.trace,
      all = high - low || 1;
    const span = Math.min(Math.max(to - from, 20), all * 1.1);
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
    const { from, to } = this.view,
      at = from + (x / this.width) * (to - from);
    this.show(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share) {
    const { from, to } = this.view,
      by = share * (to - from);
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
    const { start } = this.trace,
      { from, to } = this.view;
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
    const level = this.trace.levels[0],
      scale = this.scale * this.ratio,
      t = this.view.from + x * scale;
    let best = -1,
      bestFar = 3 * scale,
      bestDur = -1;
    for (
      let i = Painter.firstIn(level, found.track, t - 3 * scale), n = 0;
      i < level.from[found.track + 1] && n < 5000;
      i++, n++
    ) {
      if (level.start[i] > t + 3 * scale) break;
      const far = Math.max(level.start[i] - t, t - level.end[i], 0),
        dur = level.end[i] - level.start[i];
      const near = far < scale ? 0 : far;
      if (near < bestFar || (near === bestFar && dur > bestDur)) [best, bestFar, bestDur] = [level.event[i], near, dur];
    }
    return best;
  }

  listen() {
    const { canvas, app } = this;
    let drag = null;
    moveByWheel(canvas, this);
    this.gutter.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.scroll(event.clientY - this.box.getBoundingClientRect().top, event.deltaY);
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (event) => {
      drag = {
        x: event.clientX,
        y: event.clientY,
        from: this.view.from,
        to: this.view.to,
        moved: false,
        at: event.offsetY,
      };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      this.mouse = event.offsetX;
      if (drag) {
        const across = event.clientX - drag.x,
          down = event.clientY - drag.y;
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
    const acts = {
      ...zoomKeys(this),
      ArrowUp: () => this.scroll(this.lanes.regions[1].y + 1, -48),
      ArrowDown: () => this.scroll(this.lanes.regions[1].y + 1, 48),
      f: () => this.zoomTo(this.app.selection),
      0: () => this.show(this.trace.low, this.trace.high),
      ",": () => this.neighbour(-1),
      ".": () => this.neighbour(1),
    };
    if (!acts[key]) return false;
    acts[key]();
    return true;
  }

  // The event before or behind the selection on its track.
  neighbour(by) {
    const e = this.app.selection,
      { trace } = this;
    if (e < 0) return;
    const level = trace.levels[0],
      track = trace.laneOf(e).track + trace.level[e];
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
    const { trace } = this,
      { from, to } = this.view;
    const found = [];
    for (let e = 0; e < trace.n; e++) if (trace.start[e] < to && trace.end(e) > from) found.push(e);
    found.sort((a, b) => trace.dur[b] - trace.dur[a]);
    const shown = found.slice(0, 1000);
    this.grid ||= new Grid(this.twin, "Events in view");
    this.grid.show({
      columns: [
        { heading: "event", kind: "text", cells: shown.map((e) => trace.text(e)) },
        { heading: "lane", kind: "text", cells: shown.map((e) => trace.laneOf(e).title) },
        {
          heading: "start",
          unit: "ms",
          kind: "number",
          digits: 6,
          cells: shown.map((e) => (trace.start[e] + trace.body.lead_ns) / 1e6),
        },
        { heading: "duration", unit: "µs", kind: "number", digits: 3, cells: shown.map((e) => trace.dur[e] / 1e3) },
        { heading: "uid", kind: "uid", cells: shown.map((e) => trace.uid[e]) },
      ],
      rows: shown.length,
      notes:
        found.length > shown.length ? [`the longest ${Show.count(shown.length)} of ${Show.count(found.length)}`] : [],
      click: (row) => this.app.select(shown[row], "table"),
    });
  }
}
