// @ts-check
// The timeline: lanes over time on one canvas.
import { Palette, TimeView, fit } from "./canvas.js";
import { countersOf } from "./counters.js";
import { button, el, put } from "./dom.js";
import { AXIS, GUTTER, Painter, drawTimeline, firstIn } from "./drawing.js";
import { Grid, gridOf } from "./grid.js";
import { Lanes } from "./lanes.js";
import { Range } from "./range.js";
import { Show } from "./show.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./events.js").Trace} Trace */

/**
 * @typedef {object} Sheet what is drawn on, once the view is shown
 * @property {CanvasRenderingContext2D} context
 * @property {ImageData} image
 * @property {Uint32Array} pixels of the image
 * @property {Palette} palette
 * @property {Painter} painter
 * @property {number} ratio pixels of the canvas in one of the page
 */

// Causes of idle time in the line above the lanes; the button Colours has all.
const CAUSES = 3;
// A part of a recording that is so small is seen first, if so many GPU events are in it.
const SMALL = 0.2;
const FEW = 50;
const MOST_LISTED = 1000;
// Pixels around a point within which an event is what is pointed at, and events that are tried.
const NEAR = 3;
const MOST_TRIED = 5000;

// What is seen first: steps of a server, else all, or the GPU's work where a long recording has it in a small part.
/** @param {Trace} trace @returns {Span} */
const firstSeen = ({ low, high, first, start, dur, body }) => {
  if (body.seen_first) {
    const [begin, end] = body.seen_first;
    return { from: begin - 0.02 * (end - begin), to: end + 0.02 * (end - begin) };
  }
  let [from, to] = [Infinity, -Infinity];
  for (let e = first.gpu; e < first.idle; e++) {
    from = Math.min(from, start[e]);
    to = Math.max(to, start[e] + dur[e]);
  }
  const isSmall = first.idle - first.gpu >= FEW && to - from < (high - low) * SMALL;
  if (!isSmall) [from, to] = [low, high];
  const margin = (to - from) * (isSmall ? 0.1 : 0.01) || 1;
  return { from: from - margin, to: to + margin };
};

export class Timeline extends TimeView {
  static NAME = "timeline";
  static TITLE = "Timeline";

  /** @type {number[]} ms */
  drawTimes = [];
  /** @type {Sheet | null} */
  sheet = null;
  /** @type {Grid | undefined} the events in view */
  grid = undefined;
  height = 0;
  // The next frame that is asked for, and the next list.
  asked = 0;
  listing = 0;
  /** @type {Span | null} the range that is selected, what is seen at first, and what the list beside it shows */
  range = null;
  listed = "";
  // An event that is to be in sight once the view is shown; -1 for none.
  hidden = -1;

  /** @param {App} app @param {HTMLElement} root @param {Trace} trace */
  constructor(app, root, trace) {
    super(firstSeen(trace));
    this.firstView = { ...this.view };
    this.app = app;
    this.root = root;
    this.trace = trace;
    this.counters = countersOf(trace);
    this.lanes = new Lanes(trace, this.counters);
    this.canvas = el("canvas", {
      tabIndex: 0,
      role: "img",
      "aria-label": "Timeline of host and GPU. The button Events in view lists the same as a table.",
    });
    this.gutter = el("div.gutter");
    this.box = el("div.lanes", this.gutter, this.canvas);
    this.twin = el("div.twin", { hidden: true });
    this.status = el("span.dim");
    this.ranging = button("Range", () => this.toggleRanging(), {
      title: "Drag to select a range (r; shift and drag at any time)",
      "aria-pressed": "false",
    });
    put(
      root,
      el(
        "div.bar",
        button("All", () => this.show(trace.low, trace.high), { title: "The whole trace (0)" }),
        button("Selection", () => this.zoomTo(app.selection), { title: "Zoom to the selection (f)" }),
        this.ranging,
        button("Events in view", () => this.list(this.listed === "view" ? "" : "view"), {
          title: "The longest events in view, as a table",
        }),
        this.status,
        el("span.colored", trace.legend(trace.gpuClasses(), trace.idleCauses().slice(0, CAUSES)), trace.allColors()),
      ),
      trace.n ? null : el("p.dim", "No event of host or GPU was recorded here."),
      this.box,
      this.twin,
    );
    this.nameLanes();
    this.listen(this.canvas, {
      hover: (x, y) => {
        const e = this.at(x, y),
          counter = this.lanes.laneAt(y)?.lane.counter;
        if (counter) return this.saysCounter(counter, x);
        return e < 0 ? null : trace.says(e);
      },
      click: (x, y) => app.select(this.at(x, y), "timeline"),
      drag: (by, y) => this.scroll(y, by),
      select: (range, isDone) => this.selectRange(range, isDone),
    });
    this.gutter.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.scroll(event.clientY - this.box.getBoundingClientRect().top, event.deltaY);
      },
      { passive: false },
    );
    this.canvas.addEventListener("dblclick", (event) => this.zoomTo(this.at(event.offsetX, event.offsetY)));
    new ResizeObserver(() => this.shown()).observe(this.box);
    this.shown();
  }

  // The names of lanes: a click opens or closes one.
  nameLanes() {
    for (const region of this.lanes.regions) {
      region.element = el("div.region");
      for (const lane of region.lanes) {
        const act = () => {
          lane.isLow = !lane.isLow && (lane.deep > 1 || !!lane.counter);
          this.shown();
        };
        lane.button = button(lane.name || lane.title, act, {
          class: `lane g-${lane.group}`,
          title: `${lane.title}: ${Show.count(lane.n)} ${lane.counter ? "changes" : "events"}. Click to ${lane.isLow ? "open" : "close"}.`,
        });
        region.element.append(lane.button);
      }
      this.gutter.append(region.element);
    }
  }

  shown() {
    const width = this.box.clientWidth - GUTTER,
      height = this.box.clientHeight;
    if (width <= 0 || height <= 0) return;
    this.width = width;
    this.height = height;
    const context = fit(this.canvas, width, height),
      image = context.createImageData(this.canvas.width, this.canvas.height),
      palette = new Palette(this.trace.colors);
    this.sheet = {
      context,
      image,
      palette,
      pixels: new Uint32Array(image.data.buffer),
      painter: new Painter(this.trace, palette, this.canvas.width),
      ratio: window.devicePixelRatio || 1,
    };
    this.place();
    this.ask();
    if (this.hidden >= 0) {
      const e = this.hidden;
      this.hidden = -1;
      this.reveal(e);
    }
  }

  recolor() {
    if (this.sheet) this.shown();
  }

  print() {
    this.draw();
  }

  place() {
    this.lanes.place(AXIS, this.height);
    this.gutter.style.height = `${this.lanes.bottom}px`;
    for (const { element, y, height, scroll, lanes } of this.lanes.regions) {
      if (element) Object.assign(element.style, { top: `${y}px`, height: `${height}px` });
      for (const lane of lanes) {
        // A lane's name stays in sight as long as a row of it does.
        const begin = lane.y - scroll,
          bottom = begin + lane.height,
          top = Math.max(0, Math.min(begin, bottom));
        if (lane.button) lane.button.style.top = `${Math.min(top, Math.max(bottom - Lanes.ROW, begin))}px`;
      }
    }
  }

  // Draw in the next frame.
  ask() {
    if (this.asked || !this.sheet) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.sheet) return;
    const before = performance.now();
    drawTimeline(this, this.sheet);
    this.status.textContent = Show.inView(this.view, this.trace.high - this.trace.low);
    this.drawTimes.push(performance.now() - before);
    if (this.drawTimes.length > 2000) this.drawTimes.splice(0, 1000);
  }

  // Time of a pixel of the canvas.
  get scale() {
    return (this.view.to - this.view.from) / this.canvas.width;
  }

  // ---- moving ---------------------------------------------------------------------------------------------------

  /** @param {number} from @param {number} to */
  show(from, to) {
    const { low, high } = this.trace,
      all = high - low || 1;
    const span = Math.min(Math.max(to - from, 20), all * 1.1),
      begin = Math.min(Math.max((from + to - span) / 2, low - all * 0.05), high + all * 0.05 - span);
    Object.assign(this.view, { from: begin, to: begin + span });
    this.ask();
    clearTimeout(this.listing);
    this.listing = setTimeout(() => {
      if (this.listed === "view") this.listTwin();
      this.changed();
    }, 150);
  }

  changed() {}

  /** @returns {Record<string, string>} */
  get address() {
    const { view, firstView, range } = this;
    /** @param {Span} span */
    const text = ({ from, to }) => `${Math.round(from)}~${Math.round(to)}`;
    return {
      ...(view.from === firstView.from && view.to === firstView.to ? {} : { seen: text(view) }),
      ...(range ? { range: text(range) } : {}),
    };
  }

  /** @param {Asked} asked */
  restore(asked) {
    const seen = asked.span("seen"),
      range = asked.span("range");
    if (seen) this.show(seen.from, seen.to);
    if (range) this.selectRange(range);
  }

  toggleRanging() {
    this.isRanging = !this.isRanging;
    this.ranging.setAttribute("aria-pressed", String(this.isRanging));
  }

  // Null for none. What lies in it is listed once it is not changed any more.
  /** @param {Span | null} range @param {boolean} isDone */
  selectRange(range, isDone = true) {
    const had = this.range;
    this.range = range;
    this.ask();
    if (!isDone || (!range && !had)) return;
    if (range) this.app.selection = -1;
    this.list(range ? "range" : this.listed === "range" ? "" : this.listed);
    this.app.details();
    this.changed();
  }

  /** @param {number} e */
  zoomTo(e) {
    if (e < 0) return;
    const dur = Math.max(this.trace.dur[e], 100);
    this.show(this.trace.start[e] - dur * 0.6, this.trace.end(e) + dur * 0.6);
    this.reveal(e);
  }

  /** @param {number} e */
  reveal(e) {
    if (!this.sheet) {
      this.hidden = e; // where rows stand is known once the view is shown
      return;
    }
    this.lanes.reveal(e);
    this.place();
    const { start, dur } = this.trace,
      { from, to } = this.view;
    if (start[e] < from || this.trace.end(e) > to) {
      const span = Math.max(to - from, dur[e] * 1.5),
        middle = dur[e] > to - from ? start[e] + dur[e] / 2 : start[e];
      this.show(middle - span / 2, middle + span / 2);
    }
    this.ask();
  }

  // The event under a point: what the point is in, else the nearest within a few pixels, the longest first; -1 for none.
  /** @param {number} x @param {number} y */
  at(x, y) {
    const found = this.lanes.laneAt(y);
    if (found?.lane.counter) return found.lane.counter.pick(this.time(x));
    if (!found) return -1;
    const track = found.lane.track + found.level,
      level = this.trace.levels[0],
      scale = (this.view.to - this.view.from) / this.width,
      t = this.time(x),
      first = firstIn(level, track, t - NEAR * scale),
      end = Math.min(level.from[track + 1], first + MOST_TRIED);
    let best = -1,
      bestFar = NEAR * scale,
      bestDur = -1;
    for (let i = first; i < end && level.start[i] <= t + NEAR * scale; i++) {
      const far = Math.max(level.start[i] - t, t - level.end[i], 0),
        dur = level.end[i] - level.start[i],
        near = far < scale ? 0 : far;
      if (near < bestFar || (near === bestFar && dur > bestDur)) [best, bestFar, bestDur] = [level.event[i], near, dur];
    }
    return best;
  }

  /** What a counter is at a place, and how long. @param {import("./counters.js").Counter} counter @param {number} x @returns {Lines} */
  saysCounter(counter, x) {
    const { at, level, most, full, says } = counter,
      i = counter.place(this.time(x)),
      value = level[i] ?? 0,
      until = at[i + 1];
    return [
      ["name", counter.title],
      ["", value >= full ? `${says(value)}: full` : says(value)],
      ...(i >= 0 && until ? [/** @type {[string, string]} */ (["", `for ${Show.span(until - at[i])}, from ${this.trace.moment(at[i])}`])] : []),
      ["dim", `at most ${says(most)}`],
    ];
  }

  /** The region at a height. @param {number} y @param {number} by */
  scroll(y, by) {
    const region = this.lanes.regionAt(y);
    if (!region) return;
    region.scrollTo(region.scroll + by);
    this.place();
    this.ask();
  }

  get keys() {
    return {
      ...super.keys,
      ArrowUp: () => this.scroll(this.lanes.host.y + 1, -48),
      ArrowDown: () => this.scroll(this.lanes.host.y + 1, 48),
      f: () => this.zoomTo(this.app.selection),
      0: () => this.show(this.trace.low, this.trace.high),
      r: () => this.toggleRanging(),
      ",": () => this.neighbour(-1),
      ".": () => this.neighbour(1),
    };
  }

  /** The event before or behind the selection on its track. @param {number} by */
  neighbour(by) {
    const e = this.app.selection,
      { trace } = this;
    if (e < 0) return;
    const level = trace.levels[0],
      track = trace.laneOf(e).track + trace.level[e],
      next = level.event.indexOf(e, level.from[track]) + by;
    if (next >= level.from[track] && next < level.from[track + 1]) this.app.select(level.event[next], "key");
  }

  // ---- the same as a table ----------------------------------------------------------------------------------------

  /** What is listed: events in `view`, those in the `range`, or nothing. @param {string} what */
  list(what) {
    this.listed = what;
    this.twin.hidden = !what;
    this.root.classList.toggle("with-twin", !!what);
    if (what) this.listTwin();
    this.shown();
  }

  listTwin() {
    const { trace, range } = this,
      { from, to } = this.view;
    this.grid ??= new Grid(this.twin, "Events");
    if (this.listed === "range" && range) {
      const notes = this.counters.map((counter) => counter.saysOf(range));
      this.grid.show(Range.table(trace, range, notes, (e) => this.app.select(e, "table")));
      return;
    }
    const found = [];
    for (let e = 0; e < trace.n; e++) if (trace.start[e] < to && trace.end(e) > from) found.push(e);
    found.sort((a, b) => trace.dur[b] - trace.dur[a]);
    const shown = found.slice(0, MOST_LISTED);
    this.grid.show(
      gridOf(
        shown,
        [
          ["event", "text", (e) => trace.text(e)],
          ["lane", "text", (e) => trace.laneOf(e).title],
          ["start", "number", (e) => trace.momentMs(trace.start[e]), "ms", 6],
          ["duration", "number", (e) => trace.dur[e] / 1e3, "µs", 3],
          ["uid", "uid", (e) => trace.uid[e]],
        ],
        {
          notes:
            found.length > shown.length
              ? [`the longest ${Show.count(shown.length)} of ${Show.count(found.length)}`]
              : [],
          click: (row) => this.app.select(shown[row], "table"),
        },
      ),
    );
  }
}
