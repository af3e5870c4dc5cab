// @ts-check
// Memory over time: what the allocator of each device held, its peak, and who held it then. The time is the timeline's.
class Memory {
  static HIGH = 260;
  static LOW = 110;
  // Pixels around a point within which a change is what is pointed at.
  static NEAR = 5;
  // Share of what is allocated that has to change for an axis from zero.
  static FLAT = 0.03;

  // devices: [{title, n, all, reserved}], n moments each, one device behind the other in the columns.
  constructor(app, devices) {
    this.app = app;
    this.told = devices;
    this.root = el("section", {
      class: "memory",
      id: "view-memory",
      role: "tabpanel",
      "aria-label": "Memory over time",
    });
  }

  start(trace) {
    this.trace = trace;
    this.devices = Moments.read(this.told, trace.columns);
    // Where nothing but the last percents changes, they are what there is to see.
    this.isFromZero = this.devices.some((one) => {
      const change = one.allocated[one.peak] - one.lowest;
      return !change || change > one.most * Memory.FLAT;
    });
    this.status = el("span", { class: "dim" });
    this.strip = el("canvas", { class: "strip", role: "img", "aria-label": "Time, as on the timeline" });
    this.charts = el("div", { class: "charts" }, this.strip);
    this.held = el("div", { class: "held" });
    this.list = el("div", { class: "twin" });
    const button = (text, title, act) => el("button", { type: "button", title, onclick: act }, text);
    this.root.append(
      el(
        "div",
        { class: "bar" },
        button("All", "The whole trace (0)", () => this.move(trace.low, trace.high)),
        button("Selection", "Zoom to the selection (f)", () => this.key("f")),
        el(
          "label",
          {},
          el("input", {
            type: "checkbox",
            checked: this.isFromZero,
            onchange: (event) => {
              this.isFromZero = event.target.checked;
              this.draw();
            },
          }),
          "from zero",
        ),
        this.status,
        el(
          "span",
          { class: "legend" },
          el("span", { class: "key" }, el("i", { class: "swatch c-allocated" }), "allocated"),
          this.devices.some((one) => one.reserved)
            ? el("span", { class: "key" }, el("i", { class: "swatch c-reserved" }), "reserved, not allocated")
            : null,
        ),
      ),
      this.charts,
      el("div", { class: "below" }, this.held, this.list),
    );
    for (const device of this.devices) this.charts.append(this.row(device));
    this.holders = new Holders(this, this.held);
    this.grid = new Grid(this.list, "Allocations and releases in view");
    new ResizeObserver(() => this.resize()).observe(this.charts);
  }

  row(device) {
    device.place = el("div", { class: "chart" });
    const { time, allocated, reserved, peak } = device;
    return el(
      "div",
      { class: "device" },
      el(
        "div",
        { class: "about" },
        el("b", { title: device.title }, device.title),
        el("span", { class: "dim" }, "peak"),
        el(
          "button",
          {
            type: "button",
            class: "link",
            title: `Zoom to the peak (p), at ${this.trace.shown(time[peak])}`,
            "aria-label": `${Show.bytes(allocated[peak])}: zoom to the peak of ${device.title}`,
            onclick: () => this.zoomToPeak(device),
          },
          Show.bytes(allocated[peak]),
        ),
        reserved ? el("span", { class: "dim" }, `of ${Show.bytes(reserved[peak])} reserved`) : null,
      ),
      device.place,
    );
  }

  get view() {
    return this.app.timeline.view;
  }

  // Move in time, here and on the timeline.
  move(from, to) {
    this.app.timeline.show(from, to);
    this.draw();
  }

  zoom(factor, x) {
    const { from, to } = this.view,
      at = from + (x / this.width) * (to - from);
    this.move(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share) {
    const { from, to } = this.view;
    this.move(from + share * (to - from), to + share * (to - from));
  }

  zoomToPeak(device) {
    const { from, to } = this.view,
      at = device.time[device.peak],
      wide = Math.min(to - from, (this.trace.high - this.trace.low) / 10) / 2;
    this.move(at - wide, at + wide);
    this.holders.show(device);
  }

  resize() {
    const width = this.charts.clientWidth - Timeline.GUTTER,
      height = this.root.clientHeight * 0.5;
    if (width <= 0 || height <= 0 || !this.trace) return;
    const each = Math.max(Memory.LOW, Math.min(Memory.HIGH, (height - Timeline.AXIS) / this.devices.length));
    this.holders.draw();
    if (width === this.width && each === this.each) return this.draw();
    Object.assign(this, { width, each });
    this.recolor();
  }

  recolor() {
    if (!this.width || this.root.hidden) {
      this.width = 0; // drawn anew once it is shown
      return;
    }
    this.palette = new Palette(this.trace.body.classes, []);
    for (const device of this.devices) {
      device.plot?.destroy();
      device.plot = new uPlot(this.options(device), [[], [], []], device.place);
      const canvas = device.place.querySelector("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute(
        "aria-label",
        `Memory of ${device.title} over time: at most ${Show.bytes(device.allocated[device.peak])} allocated. The table below it says the same.`,
      );
      this.listen(device, device.plot.over);
    }
    this.draw();
  }

  options(device) {
    const style = getComputedStyle(document.documentElement),
      color = (name) => style.getPropertyValue(`--${name}`).trim();
    const stepped = uPlot.paths.stepped({ align: 1 });
    return {
      width: this.width + Timeline.GUTTER,
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
        y: { range: (_, low) => this.range(device, low) },
      },
      axes: [
        { show: false },
        {
          size: Timeline.GUTTER,
          stroke: color("dim"),
          font: "11px system-ui, sans-serif",
          grid: { stroke: color("line"), width: 1 },
          ticks: { show: false },
          gap: 6,
          space: 34,
          incrs: Array.from({ length: 52 }, (_, k) => 2 ** k),
          values: (_, splits) => Moments.labels(splits),
        },
      ],
      series: [
        {},
        {
          stroke: color("allocated"),
          fill: `${color("allocated")}40`,
          width: 1.5,
          paths: stepped,
          points: { show: false },
        },
        { stroke: color("reserved"), width: 1.5, paths: stepped, points: { show: false }, show: !!device.reserved },
      ],
      bands: device.reserved ? [{ series: [2, 1], fill: `${color("reserved")}40` }] : [],
      hooks: { draw: [(plot) => this.mark(plot, device)] },
    };
  }

  range(device, low) {
    if (this.isFromZero || low == null) return [device.least, device.most * 1.1];
    const shown = Moments.points(device, this.view.from, this.view.to, this.width, this.trace.high)[1];
    const [least, most] = [Math.min(...shown), Math.max(...shown)],
      margin = (most - least) * 0.1 || Math.max(most * 0.01, 1);
    return [least - margin, most + margin * 2];
  }

  draw() {
    if (!this.width || this.root.hidden) return;
    const { from, to } = this.view;
    this.drawStrip();
    for (const device of this.devices) {
      device.plot.setData(Moments.points(device, from, to, this.width, this.trace.high));
    }
    const all = this.trace.high - this.trace.low;
    this.status.textContent = `${Show.span(to - from)} in view${to - from < all ? ` of ${Show.span(all)}` : ""}`;
    clearTimeout(this.listing);
    this.listing = setTimeout(() => this.listMoments(), 150);
  }

  drawStrip() {
    const ratio = window.devicePixelRatio || 1,
      { strip, width, palette, trace, view } = this;
    strip.width = Math.round(width * ratio);
    strip.height = Math.round(Timeline.AXIS * ratio);
    strip.style.width = `${width}px`;
    strip.style.height = `${Timeline.AXIS}px`;
    const context = strip.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    Drawing.axis({ context, palette, width, view, trace, x: (ns) => this.x(ns) });
  }

  x(ns) {
    return ((ns - this.view.from) / (this.view.to - this.view.from)) * this.width;
  }

  // The peak, and where the selection is.
  mark(plot, device) {
    const { ctx, bbox } = plot,
      ratio = window.devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - 10 * ratio, bbox.width, bbox.height + 10 * ratio);
    ctx.clip();
    const e = this.app.selection;
    if (e >= 0) {
      const begin = plot.valToPos(this.trace.start[e], "x", true),
        end = plot.valToPos(this.trace.end(e), "x", true);
      ctx.fillStyle = `${this.palette.accentCss}30`;
      ctx.fillRect(begin, bbox.top, Math.max(end - begin, ratio), bbox.height);
      ctx.fillStyle = this.palette.accentCss;
      ctx.fillRect(begin, bbox.top, ratio, bbox.height);
    }
    const x = plot.valToPos(device.time[device.peak], "x", true),
      y = plot.valToPos(device.allocated[device.peak], "y", true);
    ctx.fillStyle = this.palette.textCss;
    ctx.beginPath();
    ctx.arc(x, y, 3.5 * ratio, 0, 7);
    ctx.fill();
    ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    const text = `peak ${Show.bytes(device.allocated[device.peak])}`,
      wide = ctx.measureText(text).width + 8 * ratio;
    if (x > bbox.left && x < bbox.left + bbox.width) {
      const isRight = x + wide < bbox.left + bbox.width,
        place = [isRight ? x + 7 * ratio : x - wide, Math.max(y - 8 * ratio, bbox.top)];
      ctx.strokeStyle = this.palette.backCss;
      ctx.lineWidth = 4 * ratio;
      ctx.strokeText(text, ...place);
      ctx.fillText(text, ...place);
    }
    ctx.restore();
  }

  // The moment that is pointed at: within a few pixels the peak or the largest change, else the last one before.
  at(device, x) {
    const { from, to } = this.view,
      scale = (to - from) / this.width,
      time = from + x * scale;
    const last = Moments.before(device, time + Memory.NEAR * scale);
    let best = -1;
    for (let i = last; i >= 0 && device.time[i] >= time - Memory.NEAR * scale && last - i < 5000; i--) {
      if (best < 0 || Math.abs(device.change[i]) > Math.abs(device.change[best])) best = i;
    }
    if (best >= 0 && Math.abs(device.time[device.peak] - time) <= Memory.NEAR * scale) best = device.peak;
    return { time, change: best, before: Moments.before(device, time) };
  }

  listen(device, over) {
    let drag = null;
    over.classList.add("movable");
    moveByWheel(over, this);
    over.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, ...this.view, moved: false };
      over.setPointerCapture(event.pointerId);
    });
    over.addEventListener("pointermove", (event) => {
      this.mouse = event.offsetX;
      if (drag) {
        const across = event.clientX - drag.x;
        if (!drag.moved && Math.abs(across) < 4) return;
        drag.moved = true;
        Tip.hide();
        const by = (across * (drag.to - drag.from)) / this.width;
        this.move(drag.from - by, drag.to - by);
        return;
      }
      Tip.at(event, this.says(device, this.at(device, event.offsetX)));
    });
    over.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) {
        const found = this.at(device, event.offsetX);
        this.follow(device, found.change >= 0 ? found.change : found.before, found.time);
      }
      drag = null;
    });
    over.addEventListener("pointerleave", () => Tip.hide());
  }

  says(device, { time, change, before }) {
    const lines = [
      ["name", device.title],
      ["", this.trace.shown(change >= 0 ? device.time[change] : time)],
    ];
    const i = change >= 0 ? change : before;
    if (i < 0) return [...lines, ["dim", "before the first allocation that was recorded"]];
    lines.push(["", `allocated ${Show.bytes(device.allocated[i])}`]);
    if (device.reserved) {
      const unused = device.reserved[i] - device.allocated[i];
      lines.push([
        "",
        `reserved ${Show.bytes(device.reserved[i])}, ${Show.percent(unused, device.reserved[i])} of it not allocated`,
      ]);
    }
    if (change < 0) return lines;
    lines.push([
      "name",
      `${device.change[i] < 0 ? "released" : "allocated"} ${Show.bytes(Math.abs(device.change[i]))}`,
    ]);
    return [...lines, ...Moments.caller(this.trace, device, i)];
  }

  // To the timeline, with the call that made a change; without one, the call that is nearest in time.
  follow(device, i, time) {
    const call = i >= 0 ? device.call[i] - 1 : -1;
    const e = call >= 0 ? call : this.trace.nearestCall(i >= 0 ? device.time[i] : time);
    this.app.go("timeline");
    if (e >= 0) this.app.select(e, "link");
  }

  key(key) {
    const acts = {
      ...zoomKeys(this),
      f: () => {
        this.app.timeline.zoomTo(this.app.selection);
        this.draw();
      },
      p: () => this.zoomToPeak(this.devices[0]),
      0: () => this.move(this.trace.low, this.trace.high),
    };
    if (!acts[key]) return false;
    acts[key]();
    return true;
  }

  listMoments() {
    this.grid.show(Moments.table(this));
  }
}
