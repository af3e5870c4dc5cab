// @ts-check
// Memory over time: what the allocator of each device held, its peak, and who held it then. The time is the timeline's.
import { Palette, TimeView, clipped, cssColor, fit } from "./canvas.js";
import { button, el, key, put } from "./dom.js";
import { AXIS, GUTTER, drawAxis } from "./drawing.js";
import { Grid } from "./grid.js";
import { Holders } from "./holders.js";
import { Moments } from "./moments.js";
import { Show } from "./show.js";

/** @typedef {import("./app.js").App} App */
/** @typedef {import("./events.js").Trace} Trace */
/** @typedef {import("./moments.js").Device} Device */
/** @typedef {import("./timeline.js").Timeline} Timeline */

// Heights of a picture.
const HIGH = 260;
const LOW = 110;
// Pixels around a point within which a change is what is pointed at, and moments that are tried.
const NEAR = 5;
const MOST_TRIED = 5000;
// Share of what is allocated that has to change for an axis from zero.
const FLAT = 0.03;

/** @typedef {Device & { place: HTMLElement, plot: any }} Drawn */

export class Memory extends TimeView {
  static NAME = "memory";
  static TITLE = "Memory";
  static LABEL = "Memory over time";

  // Height of a picture; the next list.
  each = 0;
  listing = 0;

  /** @param {App} app @param {HTMLElement} root @param {Trace} trace @param {Timeline} timeline @param {MemoryTitle[]} titles */
  constructor(app, root, trace, timeline, titles) {
    super(timeline.view);
    this.app = app;
    this.root = root;
    this.trace = trace;
    this.timeline = timeline;
    /** @type {Drawn[]} */
    this.devices = Moments.read(titles, trace.columns).map((device) => ({
      ...device,
      place: el("div.chart"),
      plot: null,
    }));
    // Where nothing but the last percents changes, they are what there is to see.
    this.isFromZero = this.devices.some(({ allocated, peak, lowest, most }) => {
      const change = allocated[peak] - lowest;
      return !change || change > most * FLAT;
    });
    this.palette = new Palette([]);
    this.status = el("span.dim");
    this.strip = el("canvas.strip", { role: "img", "aria-label": "Time, as on the timeline" });
    this.charts = el(
      "div.charts",
      this.strip,
      this.devices.map((device) => this.row(device)),
    );
    const held = el("div.held"),
      list = el("div.twin");
    const zero = el("input", {
      type: "checkbox",
      checked: this.isFromZero,
      onchange: () => {
        this.isFromZero = zero.checked;
        this.draw();
      },
    });
    put(
      root,
      el(
        "div.bar",
        button("All", () => this.show(trace.low, trace.high), { title: "The whole trace (0)" }),
        button("Selection", () => this.key("f"), { title: "Zoom to the selection (f)" }),
        el("label", zero, "from zero"),
        this.status,
        el(
          "span.legend",
          key("allocated", "allocated"),
          this.devices.some((one) => one.reserved) && key("reserved", "reserved, not allocated"),
        ),
      ),
      this.charts,
      el("div.below", held, list),
    );
    this.holders = new Holders(held, trace, this.devices);
    this.grid = new Grid(list, "Allocations and releases in view");
    new ResizeObserver(() => this.shown()).observe(this.charts);
  }

  /** @param {Drawn} device */
  row(device) {
    const { title, place, time, allocated, reserved, peak } = device,
      most = Show.bytes(allocated[peak]);
    return el(
      "div.device",
      el(
        "div.about",
        el("b", { title }, title),
        el("span.dim", "peak"),
        button(most, () => this.zoomToPeak(device), {
          class: "link",
          title: `Zoom to the peak (p), at ${this.trace.moment(time[peak])}`,
          "aria-label": `${most}: zoom to the peak of ${title}`,
        }),
        reserved && el("span.dim", `of ${Show.bytes(reserved[peak])} reserved`),
      ),
      place,
    );
  }

  /** Move in time, here and on the timeline. @param {number} from @param {number} to */
  show(from, to) {
    this.timeline.show(from, to);
    this.draw();
  }

  /** @param {Device} device */
  zoomToPeak(device) {
    const { from, to } = this.view,
      at = device.time[device.peak],
      wide = Math.min(to - from, (this.trace.high - this.trace.low) / 10) / 2;
    this.show(at - wide, at + wide);
    this.holders.show(device);
  }

  shown() {
    const width = this.charts.clientWidth - GUTTER,
      height = this.root.clientHeight * 0.5;
    if (width <= 0 || height <= 0) return;
    const each = Math.max(LOW, Math.min(HIGH, (height - AXIS) / this.devices.length));
    this.holders.draw();
    if (width === this.width && each === this.each) this.draw();
    else {
      this.width = width;
      this.each = each;
      this.recolor();
    }
  }

  recolor() {
    if (this.root.hidden) this.width = 0; // drawn anew once it is shown
    if (!this.width) return;
    this.palette = new Palette([]);
    for (const device of this.devices) {
      device.plot?.destroy();
      device.plot = new uPlot(this.options(device), [[], [], []], device.place);
      const canvas = device.place.querySelector("canvas"),
        most = `at most ${Show.bytes(device.allocated[device.peak])} allocated`;
      canvas?.setAttribute("role", "img");
      canvas?.setAttribute(
        "aria-label",
        `Memory of ${device.title} over time: ${most}. The table below it says the same.`,
      );
      device.plot.over.classList.add("movable");
      this.listen(device.plot.over, {
        hover: (x) => this.says(device, this.at(device, x)),
        click: (x) => {
          const { change, before, time } = this.at(device, x);
          this.follow(device, change >= 0 ? change : before, time);
        },
      });
    }
    this.draw();
  }

  /** Of a picture that uPlot draws. @param {Drawn} device */
  options(device) {
    const stepped = uPlot.paths.stepped({ align: 1 }),
      series = { width: 1.5, paths: stepped, points: { show: false } };
    return {
      width: this.width + GUTTER,
      height: this.each,
      padding: [10, 0, 6, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: false, y: false, setScale: false },
        sync: { key: "memory" },
        bind: { dblclick: () => null },
      },
      scales: {
        x: { time: false, range: () => [this.view.from, this.view.to] },
        y: { range: (/** @type {unknown} */ _, /** @type {number | null} */ low) => this.range(device, low) },
      },
      axes: [
        { show: false },
        {
          size: GUTTER,
          stroke: cssColor("dim"),
          font: "11px system-ui, sans-serif",
          grid: { stroke: cssColor("line"), width: 1 },
          ticks: { show: false },
          gap: 6,
          space: 34,
          incrs: Array.from({ length: 52 }, (_, k) => 2 ** k),
          values: (/** @type {unknown} */ _, /** @type {number[]} */ splits) => Moments.labels(splits),
        },
      ],
      series: [
        {},
        { ...series, stroke: cssColor("allocated"), fill: `${cssColor("allocated")}40` },
        { ...series, stroke: cssColor("reserved"), show: !!device.reserved },
      ],
      bands: device.reserved ? [{ series: [2, 1], fill: `${cssColor("reserved")}40` }] : [],
      hooks: { draw: [() => this.mark(device)] },
    };
  }

  /** The ends of the axis of bytes. @param {Drawn} device @param {number | null} low */
  range(device, low) {
    if (this.isFromZero || low == null) return [device.least, device.most * 1.1];
    const shown = this.points(device)[1],
      [least, most] = [Math.min(...shown), Math.max(...shown)],
      margin = (most - least) * 0.1 || Math.max(most * 0.01, 1);
    return [least - margin, most + margin * 2];
  }

  /** @param {Drawn} device */
  points(device) {
    return Moments.points(device, this.view, this.width, this.trace.high);
  }

  draw() {
    if (!this.width || this.root.hidden) return;
    const { trace, view, width } = this,
      context = fit(this.strip, width, AXIS);
    drawAxis(context, this.palette, width, trace.body.lead_ns, this);
    for (const device of this.devices) device.plot.setData(this.points(device));
    this.status.textContent = Show.inView(view, trace.high - trace.low);
    clearTimeout(this.listing);
    this.listing = setTimeout(() => this.listMoments(), 150);
  }

  /** The peak, and where the selection is. @param {Drawn} device */
  mark(device) {
    const { plot, time, allocated, peak } = device,
      { bbox } = plot,
      { palette, trace } = this,
      e = this.app.selection,
      ratio = window.devicePixelRatio || 1;
    /** @type {CanvasRenderingContext2D} */
    const ctx = plot.ctx;
    clipped(ctx, [bbox.left, bbox.top - 10 * ratio, bbox.width, bbox.height + 10 * ratio], () => {
      if (e >= 0) {
        const begin = plot.valToPos(trace.start[e], "x", true),
          end = plot.valToPos(trace.end(e), "x", true);
        ctx.fillStyle = `${palette.accentCss}30`;
        ctx.fillRect(begin, bbox.top, Math.max(end - begin, ratio), bbox.height);
        ctx.fillStyle = palette.accentCss;
        ctx.fillRect(begin, bbox.top, ratio, bbox.height);
      }
      const x = plot.valToPos(time[peak], "x", true),
        y = plot.valToPos(allocated[peak], "y", true);
      ctx.fillStyle = palette.textCss;
      ctx.beginPath();
      ctx.arc(x, y, 3.5 * ratio, 0, 7);
      ctx.fill();
      if (x <= bbox.left || x >= bbox.left + bbox.width) return;
      ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      const text = `peak ${Show.bytes(allocated[peak])}`,
        wide = ctx.measureText(text).width + 8 * ratio,
        isRight = x + wide < bbox.left + bbox.width,
        left = isRight ? x + 7 * ratio : x - wide,
        top = Math.max(y - 8 * ratio, bbox.top);
      ctx.strokeStyle = palette.backCss;
      ctx.lineWidth = 4 * ratio;
      ctx.strokeText(text, left, top);
      ctx.fillText(text, left, top);
    });
  }

  // The moment that is pointed at: within a few pixels the peak or the largest change, else the last one before.
  /** @param {Device} device @param {number} x */
  at(device, x) {
    const near = (NEAR * (this.view.to - this.view.from)) / this.width,
      time = this.time(x),
      last = Moments.before(device, time + near);
    let change = -1;
    for (let i = last; i >= 0 && device.time[i] >= time - near && last - i < MOST_TRIED; i--)
      if (change < 0 || Math.abs(device.change[i]) > Math.abs(device.change[change])) change = i;
    if (change >= 0 && Math.abs(device.time[device.peak] - time) <= near) change = device.peak;
    return { time, change, before: Moments.before(device, time) };
  }

  /** @param {Device} device @param {ReturnType<Memory["at"]>} at @returns {Lines} */
  says(device, { time, change, before }) {
    const i = change >= 0 ? change : before;
    /** @type {Lines} */
    const lines = [
      ["name", device.title],
      ["", this.trace.moment(change >= 0 ? device.time[change] : time)],
    ];
    if (i < 0) return [...lines, ["dim", "before the first allocation that was recorded"]];
    lines.push(["", `allocated ${Show.bytes(device.allocated[i])}`]);
    if (device.reserved) {
      const share = Show.percent(device.reserved[i] - device.allocated[i], device.reserved[i]);
      lines.push(["", `reserved ${Show.bytes(device.reserved[i])}, ${share} of it not allocated`]);
    }
    if (change < 0) return lines;
    const what = device.change[i] < 0 ? "released" : "allocated";
    lines.push(["name", `${what} ${Show.bytes(Math.abs(device.change[i]))}`]);
    return [...lines, ...Moments.caller(this.trace, device, i)];
  }

  // To the timeline, with the call that made a change; without one, the call that is nearest in time.
  /** @param {Device} device @param {number} i @param {number} time */
  follow(device, i, time) {
    const call = i >= 0 ? device.call[i] - 1 : -1,
      e = call >= 0 ? call : this.trace.nearestCall(i >= 0 ? device.time[i] : time);
    this.app.go("timeline");
    if (e >= 0) this.app.select(e, "link");
  }

  get keys() {
    return {
      ...super.keys,
      f: () => {
        this.timeline.zoomTo(this.app.selection);
        this.draw();
      },
      p: () => this.zoomToPeak(this.devices[0]),
      0: () => this.show(this.trace.low, this.trace.high),
    };
  }

  listMoments() {
    this.grid.show(
      Moments.table(this.devices, this.view, this.trace, (device, i) => this.follow(device, i, device.time[i])),
    );
  }
}
