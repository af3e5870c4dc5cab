// @ts-check
// The flame graph of two call trees as one: width is time, colour is what became of it.
class DiffPalette extends Palette {
  constructor() {
    super(["less", "same", "more"], []);
  }

  // The colour of a change, from -1 (half the time or less) over 0 (equal) to 1 (twice as much or more).
  of(change) {
    const end = this.colors[change < 0 ? 0 : 2],
      share = Math.min(Math.abs(change), 1);
    return this.colors[1].map((value, k) => Math.round(value + (end[k] - value) * share));
  }

  static ink([r, g, b]) {
    return 0.299 * r + 0.587 * g + 0.114 * b > 130 ? "#000" : "#fff";
  }
}

class DiffFlame extends Flame {
  static WIDTHS = { both: "the larger of both", b: "time of B", a: "time of A" };
  static SIGNS = ["", "− ", "+ "];
  // Stripes, 8 pixels apart, that fall or rise.
  static STRIPE = 8;

  constructor(app) {
    super(app, "Difference flame graph of GPU time");
  }

  start(trace) {
    this.trace = trace;
    this.zoomed = -1;
    this.options = { width: "both", byTime: false, collapsed: true };
    this.read(trace.columns);
    const widths = el(
      "select",
      { "aria-label": "Width", onchange: () => this.set({ width: widths.value }) },
      ...Object.entries(DiffFlame.WIDTHS).map(([name, says]) => el("option", { value: name }, says)),
    );
    this.widths = widths;
    this.stage(
      el("label", {}, "width: ", widths),
      this.check("byTime", "in the order of calls"),
      this.check("collapsed", "collapse chains"),
      this.legend(),
    );
    this.compute();
  }

  legend() {
    const only = (side) =>
      el("span", { class: "key" }, el("i", { class: `swatch only-${side}` }), `only in ${side.toUpperCase()}`);
    return el(
      "span",
      { class: "scale" },
      el("span", {}, "½ or less"),
      el("i", { class: "ramp", role: "img", "aria-label": "Blue: B takes less; grey: equal; orange: B takes more" }),
      el("span", {}, "2 × or more"),
      only("a"),
      only("b"),
    );
  }

  // Both sides with the same frames, and which frames hold work of which place.
  read(columns) {
    const read = (part) => columns[`diff.${part}`];
    const parent = Int32Array.from(read("parent"), (value) => value - 1),
      name = read("name"),
      first = read("first");
    this.sides = [0, 1].map(() => Stacks.empty(parent, name, first, parent.length));
    const frame = read("frame"),
      side = read("side"),
      place = read("place"),
      ns = read("ns"),
      count = read("count"),
      uid = read("uid");
    this.parts = { frame, side, place, ns, count };
    this.framesOf = new Map();
    for (let i = 0; i < frame.length; i++) {
      const made = this.sides[side[i]],
        at = frame[i];
      made.own[at] += ns[i];
      made.count[at] += count[i];
      if (ns[i] > made.most[at]) [made.most[at], made.uid[at]] = [ns[i], uid[i]];
      if (!this.framesOf.has(place[i])) this.framesOf.set(place[i], new Set());
      this.framesOf.get(place[i]).add(at);
    }
    this.sides.forEach(Stacks.summed);
  }

  compute() {
    const [a, b] = this.sides,
      { width } = this.options;
    const made = Stacks.empty(a.parent, a.name, a.first, a.n);
    for (let frame = 0; frame < a.n; frame++) {
      made.own[frame] =
        width === "a" ? a.own[frame] : width === "b" ? b.own[frame] : Math.max(a.own[frame], b.own[frame]);
    }
    this.made = Stacks.summed(made);
    this.widths.value = width;
    this.refresh();
  }

  // 1: only in A, 2: only in B, 0: in both.
  only(frame) {
    const [a, b] = this.sides;
    return !b.count[frame] ? 1 : !a.count[frame] ? 2 : 0;
  }

  change(frame) {
    const [a, b] = this.sides,
      only = this.only(frame);
    if (only) return only === 1 ? -1 : 1;
    if (a.total[frame] === b.total[frame]) return 0;
    if (!a.total[frame] || !b.total[frame]) return a.total[frame] ? -1 : 1;
    return Math.max(-1, Math.min(1, Math.log2(b.total[frame] / a.total[frame])));
  }

  difference(frame) {
    return this.sides[1].total[frame] - this.sides[0].total[frame];
  }

  isApart() {
    return false;
  }

  palette() {
    return new DiffPalette();
  }

  draw() {
    const { sides } = this;
    const joins = (frame, kid) =>
      sides.every((one) => one.total[frame] === one.total[kid] && one.count[frame] === one.count[kid]);
    this.options.joins = joins;
    super.draw();
    this.outline();
  }

  fill(context, palette, box, x, y, width, height) {
    const frame = box.chain[box.chain.length - 1],
      only = this.only(frame);
    const color = palette.of(this.change(frame));
    context.fillStyle = `rgb(${color.join(",")})`;
    context.fillRect(x, y, width, height);
    if (only && width > 3) this.stripe(context, palette, only === 1 ? 1 : -1, x, y, width, height);
    return DiffPalette.ink(color);
  }

  stripe(context, palette, way, x, y, width, height) {
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.globalAlpha *= 0.32;
    context.strokeStyle = palette.backCss;
    context.lineWidth = 2;
    context.beginPath();
    for (let at = x - height; at < x + width + height; at += DiffFlame.STRIPE) {
      context.moveTo(at, way > 0 ? y : y + height);
      context.lineTo(at + height, way > 0 ? y + height : y);
    }
    context.stroke();
    context.restore();
  }

  fitted(context, chain, room) {
    const sign = DiffFlame.SIGNS[this.only(chain[chain.length - 1])];
    return sign + super.fitted(context, chain, room - 8 * sign.length);
  }

  // Whether a frame is the selected one, or holds work of the selected place.
  isChosen(frame) {
    return this.app.place ? !!this.framesOf.get(this.app.place - 1)?.has(frame) : frame === this.app.frame;
  }

  outline() {
    if (!this.width || !this.boxes) return;
    const context = this.canvas.getContext("2d"),
      { textCss } = this.palette();
    context.strokeStyle = textCss;
    context.lineWidth = 2;
    for (const { chain, x, width, row } of this.boxes) {
      if (!chain.some((frame) => this.isChosen(frame))) continue;
      const left = x * this.width;
      context.strokeRect(left + 1, row * Flame.ROW + 1, Math.max(width * this.width - 3, 1), Flame.ROW - 3);
    }
  }

  // Zoom to the lowest frame around all work of a place.
  revealPlace(number) {
    let common = null;
    for (const frame of this.framesOf.get(number - 1) || []) {
      const path = this.path(this.made.parent[frame]);
      if (!common) common = path;
      else {
        const end = common.findIndex((one, k) => path[k] !== one);
        if (end >= 0) common = common.slice(0, end);
      }
    }
    this.zoomed = common?.length ? common[common.length - 1] : -1;
    this.draw();
    this.listFrames();
  }

  reveal(frame) {
    this.zoomed = this.made.total[frame] > 0 ? frame : -1;
    this.draw();
    this.listFrames();
  }

  // Work in a frame by place: {place, ns: [a, b]}, the largest change first.
  placesIn(frame) {
    const inside = new Uint8Array(this.made.n),
      found = new Map(),
      { parts } = this;
    inside[frame] = 1;
    for (let at = frame + 1; at < this.made.n; at++) {
      const above = this.made.parent[at];
      if (above >= 0 && inside[above]) inside[at] = 1;
    }
    for (let i = 0; i < parts.frame.length; i++) {
      if (!inside[parts.frame[i]]) continue;
      const number = parts.place[i] + 1;
      if (!found.has(number)) found.set(number, [0, 0]);
      found.get(number)[parts.side[i]] += parts.ns[i];
    }
    return [...found]
      .map(([place, ns]) => ({ place, ns }))
      .sort((one, other) => Math.abs(other.ns[1] - other.ns[0]) - Math.abs(one.ns[1] - one.ns[0]));
  }

  chosen(frame) {
    this.app.selectFrame(frame);
  }

  tellMatched() {
    const { trace } = this;
    const ns = trace.lit ? this.sides.map((one) => Stacks.matched(one, trace.lit)) : [0, 0];
    this.matchedNs = ns;
    const here = this.zoomed < 0 ? [] : this.sides.map((one) => Stacks.matched(one, trace.lit ?? [], this.zoomed));
    const inFrame = here.length ? `${DiffShow.both(...here)} in this frame, in all ` : "";
    this.matched.textContent = trace.lit ? `matched: ${inFrame}${DiffShow.both(...ns)}` : "";
  }

  wholeSays() {
    return `GPU time ${DiffShow.both(...this.sides.map((one) => one.sum))}`;
  }

  shareSays(frame) {
    return DiffShow.change(this.difference(frame));
  }

  // What is said of a frame, line by line.
  tells(frame) {
    const [a, b] = this.sides,
      only = this.only(frame);
    return [
      [
        "",
        only
          ? `only in ${this.app.letters[only - 1]}: ${Show.span(this.sides[only - 1].total[frame])}`
          : DiffShow.both(a.total[frame], b.total[frame]),
      ],
      [
        "dim",
        a.count[frame] === b.count[frame]
          ? `${Show.count(a.count[frame])} GPU ${a.count[frame] === 1 ? "event" : "events"} on either side`
          : `${Show.count(a.count[frame])} -> ${Show.count(b.count[frame])} GPU events`,
      ],
    ];
  }

  says(box) {
    const { names } = this.trace.body;
    return [
      ...Flame.few(box.chain).map((one) => ["name", one < 0 ? "…" : names[this.made.name[one]]]),
      ...this.tells(box.chain[0]),
    ];
  }

  listFrames() {
    super.listFrames();
    this.grid.content.isMarked = (row) => this.isChosen(this.inside[row][0]);
    this.grid.fill(true);
  }

  frameColumns(inside) {
    this.inside = inside;
    const { made, trace } = this,
      [a, b] = this.sides;
    const ms = (heading, value, more = {}) => ({
      heading,
      unit: "ms",
      kind: "number",
      digits: 3,
      ...more,
      cells: inside.map(([frame]) => value(frame) / 1e6),
    });
    const whole = (heading, value) => ({ heading, kind: "number", digits: 0, cells: inside.map(value) });
    const uid = (heading, one) => ({
      heading,
      kind: "id",
      cells: inside.map(([frame]) => (one.uid[frame] < 0 ? null : one.uid[frame])),
    });
    return [
      { heading: "frame", kind: "text", cells: inside.map(([frame]) => trace.body.names[made.name[frame]]) },
      ms("A", (frame) => a.total[frame]),
      ms("B", (frame) => b.total[frame]),
      ms("change", (frame) => this.difference(frame), { number: DiffShow.signed }),
      {
        heading: "change",
        unit: "%",
        kind: "number",
        digits: 1,
        number: DiffShow.signed,
        cells: inside.map(([frame]) => (a.total[frame] ? (100 * this.difference(frame)) / a.total[frame] : null)),
      },
      { heading: "only in", kind: "text", cells: inside.map(([frame]) => ["", "A", "B"][this.only(frame)]) },
      whole("events A", ([frame]) => a.count[frame]),
      whole("events B", ([frame]) => b.count[frame]),
      uid("longest in A", a),
      uid("longest in B", b),
      whole("depth", ([, depth]) => depth),
    ];
  }
}
