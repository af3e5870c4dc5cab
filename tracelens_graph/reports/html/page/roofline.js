// @ts-check
// The roofline: operations by their arguments, below what the device could do.
class Roofline {
  // Width of a letter of a label, at most.
  static LETTER = 6.8;

  constructor(app) {
    this.app = app;
    this.root = el("section", { class: "roofline", id: "view-roofline", role: "tabpanel", "aria-label": "Roofline" });
  }

  start(trace) {
    this.trace = trace;
    const found = trace.body.roofline;
    if (!found || !found.points.length) {
      this.root.append(
        el(
          "p",
          { class: "dim" },
          found
            ? "No roofline: no operation with a model computes anything. Models need shapes (record_shapes=True)."
            : "No roofline: the trace does not tell a device whose rates are known. report --arch NAME names one.",
        ),
      );
      return;
    }
    this.picture = el("div", { class: "picture" });
    this.list = el("div", { class: "twin" });
    this.root.append(el("h2", {}, `Operations under the roofline of ${found.device}`), this.picture, this.list);
    this.drawPicture(found);
    this.listPoints(found);
  }

  drawPicture({ roofs, points, bandwidth, more, unplaced }) {
    const width = 1120,
      height = 520,
      left = 64,
      right = Roofline.LETTER * Math.max(...roofs.map((one) => Roofline.name(one).length), 20) + 12,
      top = 16,
      bottom = 46;
    const ends = (values) => [Math.log10(Math.min(...values) / 2.5), Math.log10(Math.max(...values) * 2.5)];
    const across = ends([...points.map((one) => one.x), ...roofs.map((one) => one.ridge)]);
    const upwards = ends([...points.map((one) => one.y), ...roofs.map((one) => one.tflops)]);
    const x = (value) => left + ((Math.log10(value) - across[0]) / (across[1] - across[0])) * (width - left - right);
    const y = (value) =>
      height - bottom - ((Math.log10(value) - upwards[0]) / (upwards[1] - upwards[0])) * (height - top - bottom);
    const made = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: "xMinYMid meet",
      role: "group",
      "aria-label": "Roofline; the table below it says the same",
    });
    const text = (value, at, props = {}) => svg("text", { x: at[0], y: at[1], ...props }, value);
    const line = (x1, y1, x2, y2, name) => svg("line", { x1, y1, x2, y2, class: name });
    for (let k = Math.ceil(across[0]); k <= across[1]; k++) {
      made.append(
        line(x(10 ** k), top, x(10 ** k), height - bottom, "grid"),
        text(Roofline.power(k), [x(10 ** k), height - bottom + 18], { "text-anchor": "middle" }),
      );
    }
    for (let k = Math.ceil(upwards[0]); k <= upwards[1]; k++) {
      made.append(
        line(left, y(10 ** k), width - right, y(10 ** k), "grid"),
        text(Roofline.power(k), [left - 8, y(10 ** k) + 4], { "text-anchor": "end" }),
      );
    }
    made.append(
      text("FLOPs per byte", [(left + width - right) / 2, height - 8], { "text-anchor": "middle" }),
      text("TFLOP/s", [left + 6, top + 10]),
    );
    let free = 0;
    if (roofs.length && bandwidth) {
      const most = roofs.reduce((best, one) => (one.tflops > best.tflops ? one : best));
      const begin = Math.max(10 ** across[0], (10 ** upwards[0] * 1e3) / bandwidth);
      made.append(line(x(begin), y((begin * bandwidth) / 1e3), x(most.ridge), y(most.tflops), "roof"));
      const middle = Math.sqrt(begin * most.ridge);
      made.append(
        text(`memory ${Show.number(bandwidth / 1e3, 2)} TB/s`, [x(middle) - 10, y((middle * bandwidth) / 1e3)], {
          "text-anchor": "end",
          class: "label",
        }),
      );
      for (const roof of roofs) {
        made.append(line(x(roof.ridge), y(roof.tflops), width - right, y(roof.tflops), "roof"));
        const at = Math.max(y(roof.tflops) + 4, free);
        made.append(
          text(Roofline.name(roof), [width - right + 6, at], {
            class: "label",
          }),
        );
        free = at + 16;
      }
    }
    const greatest = Math.max(...points.map((one) => one.us)),
      { texts } = this.trace.body;
    for (const one of [...points].sort((a, b) => b.us - a.us)) {
      const says = this.says(one, texts);
      const radius = Math.max(3, 22 * Math.sqrt(one.us / greatest));
      made.append(
        svg("circle", {
          cx: x(one.x),
          cy: y(one.y),
          r: radius,
          class: `point c-${one.class}`,
          tabindex: 0,
          role: "button",
          "aria-label": says.join(", "),
          onclick: () => this.app.selectUid(one.uid, "roofline"),
          onkeydown: (event) => {
            if (event.key !== "Enter") return;
            event.stopPropagation(); // on the page it would lead on to the next match
            this.app.selectUid(one.uid, "roofline");
          },
          onpointermove: (event) =>
            Tip.at(
              event,
              says.map((said, k) => [k ? "" : "name", said]),
            ),
          onpointerleave: () => Tip.hide(),
        }),
      );
    }
    const used = [...new Set(points.map((one) => one.class))];
    const notes = [
      more ? `${Show.count(more)} more operations are not drawn. ` : "",
      unplaced
        ? `${Show.count(unplaced)} with a model compute nothing, or their bytes or time are not known: they are in the table unified_perf_summary.`
        : "",
    ];
    this.picture.append(
      made,
      el(
        "div",
        { class: "legend" },
        "area: GPU time ",
        ...used.map((of) => el("span", { class: "key" }, el("i", { class: `swatch c-${of}` }), of)),
      ),
      el("p", { class: "dim" }, ...notes),
    );
  }

  static name(roof) {
    return `${roof.label.replaceAll("_", " ")}: ${Show.number(roof.tflops, 1)} TFLOP/s, ridge ${Show.number(roof.ridge, 1)}`;
  }

  static power(k) {
    return k >= 0 && k < 4
      ? Show.count(10 ** k)
      : k < 0 && k > -4
        ? String(10 ** k)
        : `10${[...String(k)].map((digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)]).join("")}`;
  }

  says(one, texts) {
    return [
      texts[one.name],
      texts[one.shapes],
      texts[one.types],
      `${Show.count(one.calls)} calls, ${Show.span(one.us * 1e3)} (${one.percent.toFixed(2)} %)`,
      `${Show.number(one.x, 2)} FLOPs per byte, ${Show.number(one.y, 3)} TFLOP/s`,
      one.roof == null ? "no roof" : `${one.roof.toFixed(1)} % of the roof; ${one.bound} bounds`,
      one.won_us == null ? "" : `at the roof it would take ${Show.span(one.won_us * 1e3)} less`,
    ].filter(Boolean);
  }

  listPoints({ points }) {
    const { texts } = this.trace.body;
    new Grid(this.list, "Operations").show({
      columns: [
        { heading: "operation", kind: "text", cells: points.map((one) => texts[one.name]) },
        { heading: "time", unit: "ms", kind: "number", digits: 3, cells: points.map((one) => one.us / 1e3) },
        {
          heading: "could be won",
          unit: "ms",
          kind: "number",
          digits: 3,
          cells: points.map((one) => (one.won_us == null ? null : one.won_us / 1e3)),
        },
        { heading: "of the roof", unit: "%", kind: "number", digits: 1, cells: points.map((one) => one.roof) },
        { heading: "bound", kind: "text", cells: points.map((one) => one.bound) },
        { heading: "FLOPs/byte", kind: "number", digits: 2, cells: points.map((one) => one.x) },
        { heading: "TFLOP/s", kind: "number", digits: 3, cells: points.map((one) => one.y) },
        { heading: "calls", kind: "number", digits: 0, cells: points.map((one) => one.calls) },
        { heading: "uid", kind: "uid", cells: points.map((one) => one.uid) },
        { heading: "category", kind: "text", cells: points.map((one) => texts[one.category]) },
        { heading: "shapes", kind: "text", cells: points.map((one) => texts[one.shapes]) },
        { heading: "types", kind: "text", cells: points.map((one) => texts[one.types]) },
      ],
      rows: points.length,
      notes: [],
      click: (row) => this.app.selectUid(points[row].uid, "roofline"),
    });
  }
}
