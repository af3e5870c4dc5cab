// @ts-check
// Bus bandwidth against the size of the message, one mark per collective.
class RanksBandwidth {
  static SHAPES = ["circle", "square", "diamond"];
  static COLORS = 7;
  static UNITS = ["B", "KB", "MB", "GB", "TB"];
  static AREA = { left: 74, top: 14, right: 16, bottom: 44, width: 1200, height: 470 };

  constructor(app) {
    this.app = app;
    this.root = el("section", {
      class: "bandwidth",
      id: "view-bandwidth",
      role: "tabpanel",
      "aria-label": "Bandwidth by size",
    });
  }

  // A size in powers of 1,000, three digits of it, as the tables have it.
  static bytes(value) {
    let at = 0;
    for (; value >= 999.5 && at < RanksBandwidth.UNITS.length - 1; at++) value /= 1000;
    return `${value.toLocaleString("en-US", { maximumSignificantDigits: 3 })} ${RanksBandwidth.UNITS[at]}`;
  }

  start(trace) {
    const { bandwidths } = trace.body,
      key = (point, name) => point[bandwidths.keys.indexOf(name)];
    this.key = key;
    this.points = bandwidths.kinds.flatMap(({ kind, points }, place) =>
      points.map((point) => ({ kind, place, point })),
    );
    this.list = el("div", { class: "twin" });
    this.root.append(
      el(
        "div",
        { class: "bar" },
        el("b", {}, "Bus bandwidth by size of the message"),
        el(
          "span",
          { class: "dim" },
          "One mark per collective. Waiting does not count: the time is that of the rank that comes last.",
        ),
      ),
      ...(this.points.length
        ? [this.legend(bandwidths), this.picture(bandwidths)]
        : [
            el("p", {}, "No collective has a known size and bandwidth."),
            el(
              "p",
              { class: "dim" },
              "Sizes are arguments of collectives, which PyTorch 2.2 and newer record with ops: profile with ProfilerActivity.CPU beside CUDA.",
            ),
          ]),
      ...bandwidths.notes.map((note) => el("p", { class: "dim" }, note)),
      this.list,
    );
    this.grid = new Grid(this.list, "Collectives with known size and bandwidth");
    const of =
      (name) =>
      ({ point }) =>
        key(point, name);
    this.grid.show({
      ...twinOf(this.points, [
        ["kind", null, "text", 0, ({ kind }) => kind],
        ["collective", null, "id", 0, of("collective")],
        ["step", null, "id", 0, of("step")],
        ["ranks", null, "number", 0, of("ranks")],
        ["bytes", null, "number", 0, of("message_bytes")],
        ["latency", "us", "number", 3, of("latency_us")],
        ["bus bandwidth", "GB/s", "number", 3, of("busbw_gb_s")],
        ["of the links", "%", "number", 1, of("percent_of_peak")],
      ]),
      click: (row) => this.app.selectCollective(key(this.points[row].point, "collective")),
      isMarked: (row) => key(this.points[row].point, "collective") === this.app.collective,
    });
  }

  legend({ kinds }) {
    return el(
      "ul",
      { class: "legend" },
      ...kinds.map(({ kind, points }, place) => {
        const mark = svg(
          "svg",
          { class: "mark", viewBox: "-6 -6 12 12", "aria-hidden": "true" },
          this.mark(place, 0, 0),
        );
        return el("li", { class: "key" }, mark, `${kind} (${Show.count(points.length)})`);
      }),
    );
  }

  mark(place, x, y, props = {}) {
    const shape = RanksBandwidth.SHAPES[Math.floor(place / RanksBandwidth.COLORS) % RanksBandwidth.SHAPES.length],
      given = { ...props, class: `point k-${place % RanksBandwidth.COLORS} ${props.class ?? ""}` };
    if (shape === "circle") return svg("circle", { cx: x, cy: y, r: 4.5, ...given });
    if (shape === "square") return svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8, ...given });
    return svg("path", { d: `M${x} ${y - 5.5}L${x + 5.5} ${y}L${x} ${y + 5.5}L${x - 5.5} ${y}Z`, ...given });
  }

  picture({ peaks, device }) {
    const { left, top, right, bottom, width, height } = RanksBandwidth.AREA,
      values = (name) => this.points.map(({ point }) => this.key(point, name));
    /** @type {(all: number[]) => [number, number]} */
    const ends = (all) => [Math.log10(Math.min(...all) / 2), Math.log10(Math.max(...all) * 2)];
    const across = ends(values("message_bytes")),
      up = ends([...values("busbw_gb_s"), ...peaks]);
    const x = (value) => left + ((Math.log10(value) - across[0]) / (across[1] - across[0])) * (width - left - right);
    const y = (value) => height - bottom - ((Math.log10(value) - up[0]) / (up[1] - up[0])) * (height - top - bottom);
    const made = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": "Bus bandwidth by size of the message. The table below says the same.",
    });
    const text = (props, words) => svg("text", props, words);
    // Powers of ten; of few the doubles and fives between them, too.
    const marks = ([from, to]) => {
      const found = [];
      for (let power = Math.floor(from); power <= to; power++)
        for (const k of to - from > 2.5 ? [1] : [1, 2, 5]) found.push(k * 10 ** power);
      return found.filter((one) => Math.log10(one) >= from && Math.log10(one) <= to);
    };
    for (const mark of marks(across))
      made.append(
        svg("line", { x1: x(mark), x2: x(mark), y1: top, y2: height - bottom, class: "grid" }),
        text({ x: x(mark), y: height - bottom + 18, "text-anchor": "middle" }, RanksBandwidth.bytes(mark)),
      );
    for (const mark of marks(up))
      made.append(
        svg("line", { x1: left, x2: width - right, y1: y(mark), y2: y(mark), class: "grid" }),
        text(
          { x: left - 8, y: y(mark) + 4, "text-anchor": "end" },
          mark.toLocaleString("en-US", { maximumSignificantDigits: 3 }),
        ),
      );
    made.append(
      text({ x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "size of the message"),
      text(
        { x: 0, y: 0, transform: `translate(16 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" },
        "bus bandwidth, GB/s",
      ),
    );
    for (const peak of peaks)
      made.append(
        svg("line", { x1: left, x2: width - right, y1: y(peak), y2: y(peak), class: "roof" }),
        text(
          { x: width - right - 4, y: y(peak) - 6, "text-anchor": "end", class: "label" },
          `links${device ? ` of ${device}` : ""}: ${Show.number(peak, 0)} GB/s`,
        ),
      );
    this.marks = this.points.map(({ kind, place, point }) =>
      this.mark(place, x(this.key(point, "message_bytes")), y(this.key(point, "busbw_gb_s")), {
        onpointermove: (event) => Tip.at(event, this.says(kind, point)),
        onpointerleave: () => Tip.hide(),
        onclick: () => this.app.selectCollective(this.key(point, "collective")),
      }),
    );
    made.append(...this.marks);
    return el("div", { class: "picture" }, made);
  }

  says(kind, point) {
    const share = this.key(point, "percent_of_peak"),
      step = this.key(point, "step");
    return [
      ["name", `${kind}, ${Show.count(this.key(point, "ranks"))} ranks`],
      [
        "",
        `${RanksBandwidth.bytes(this.key(point, "message_bytes"))} in ${Show.number(this.key(point, "latency_us"), 1)} µs`,
      ],
      [
        "",
        `${Show.number(this.key(point, "busbw_gb_s"), 3)} GB/s on the bus${share == null ? "" : `, ${Show.number(share, 1)} % of the links`}`,
      ],
      ["dim", `collective ${this.key(point, "collective")}${step == null ? "" : `, step ${step}`}`],
    ];
  }

  shown() {
    this.marks?.forEach((mark, k) =>
      mark.classList.toggle("chosen", this.key(this.points[k].point, "collective") === this.app.collective),
    );
    this.grid.fill(true);
  }
}
