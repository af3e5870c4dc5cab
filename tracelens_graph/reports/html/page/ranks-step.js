// @ts-check
// One step on all ranks: above in each lane a rank computes, below it waits and communicates, on the common clock.
class RanksStep {
  static LANE = [14, 34];
  static AXIS = 22;
  static KINDS = ["computes", "waits in shorter collectives", "communicates in shorter collectives"];
  static COLORS = ["computing", "waiting", "moving"];
  static PAD = 0.01;

  constructor(app) {
    this.app = app;
    this.root = el("section", {
      class: "step-lanes",
      id: "view-step",
      role: "tabpanel",
      "aria-label": "One step on all ranks",
    });
  }

  start(trace) {
    const { step } = trace.body,
      { columns } = trace;
    Object.assign(this, { step, trace });
    this.bars = ["lane", "what", "start", "dur"].map((name) => columns[`bar.${name}`]);
    this.parts = Object.fromEntries(
      ["lane", "start", "wait", "dur", "meeting", "size"].map((name) => [name, columns[`part.${name}`]]),
    );
    this.lane = Math.max(
      RanksStep.LANE[0],
      Math.min(RanksStep.LANE[1], Math.floor(560 / Math.max(step.lanes.length, 1))),
    );
    this.whole = { from: -RanksStep.PAD * step.ns, to: (1 + RanksStep.PAD) * step.ns };
    this.view = { ...this.whole };
    const what = step.step === null ? "The whole recording" : `Step ${step.step}`;
    this.title = `${what}${step.is_median ? " (the one of median duration)" : ""} on all ranks`;
    this.pane = new RankCanvas(this.title, {
      height: () => RanksStep.AXIS + step.lanes.length * this.lane + 4,
      draw: (context, width) => this.draw(context, width),
      hover: (x, y) => this.says(this.at(x, y)),
      click: (x, y) => this.chosen(this.at(x, y)),
    });
    this.list = el("div", { class: "twin" });
    const key = (name, text) => el("span", { class: "key" }, el("i", { class: `swatch c-${name}` }), text);
    this.root.append(
      el(
        "div",
        { class: "bar" },
        el("b", {}, this.title),
        el("button", { type: "button", onclick: () => this.zoom(this.whole.from, this.whole.to) }, "Whole"),
        el(
          "span",
          { class: "scale" },
          key("computing", "computes"),
          key("waiting", "waits for other ranks"),
          key("moving", "communicates"),
          el("span", { class: "key" }, el("i", { class: "diamond" }), "comes last"),
          el("span", { class: "key" }, el("i", { class: "tick" }), "a step begins"),
        ),
      ),
      this.pane.box,
      el(
        "p",
        { class: "dim" },
        "Above in each lane a rank computes, below it waits and communicates. Lines join the starts of one collective.",
      ),
      ...step.notes.map((note) => el("p", { class: "dim" }, note)),
      this.list,
    );
    this.grid = new Grid(this.list, "Collectives in the step, by rank");
    this.twin();
    this.listen();
  }

  twin() {
    const { parts, step, trace } = this,
      rows = Array.from(parts.lane, (_, k) => k),
      { texts } = trace.body;
    this.grid.show({
      ...twinOf(rows, [
        ["rank", null, "text", 0, (k) => this.app.ranks[step.lanes[parts.lane[k]]]],
        ["kind", null, "text", 0, (k) => texts[step.kinds[k]]],
        ["collective", null, "id", 0, (k) => (parts.meeting[k] ? parts.meeting[k] - 1 : null)],
        ["start", "ms", "number", 6, (k) => parts.start[k] / 1e6],
        ["waits", "ms", "number", 6, (k) => parts.wait[k] / 1e6],
        ["duration", "ms", "number", 6, (k) => parts.dur[k] / 1e6],
        ["bytes", null, "number", 0, (k) => (parts.size[k] ? parts.size[k] - 1 : null)],
        ["group", null, "text", 0, (k) => texts[step.groups[k]]],
      ]),
      click: (row) => this.chosen({ part: row }),
      isMarked: (row) => parts.meeting[row] > 0 && parts.meeting[row] - 1 === this.app.collective,
    });
  }

  x(ns) {
    const room = this.pane.width - RankCanvas.GUTTER;
    return RankCanvas.GUTTER + ((ns - this.view.from) / (this.view.to - this.view.from)) * room;
  }

  draw(context, width) {
    const { step, parts, lane: high, view } = this,
      [lanes, whats, starts, durs] = this.bars;
    const half = high / 2,
      top = (lane) => RanksStep.AXIS + lane * high;
    const colors = RanksStep.COLORS.map(RankCanvas.color);
    step.lanes.forEach((rank, lane) => {
      if (lane % 2) {
        context.fillStyle = RankCanvas.color("panel");
        context.fillRect(RankCanvas.GUTTER, top(lane), width, high);
      }
    });
    context.save();
    context.beginPath();
    context.rect(RankCanvas.GUTTER, 0, width, RanksStep.AXIS + step.lanes.length * high + 4);
    context.clip();
    const bar = (lane, isBelow, start, dur, color) => {
      if (start + dur < view.from || start > view.to || !(dur > 0)) return;
      const x = this.x(start);
      context.fillStyle = color;
      context.fillRect(x, top(lane) + (isBelow ? half : 1), Math.max(this.x(start + dur) - x, 0.6), half - 1);
    };
    for (let k = 0; k < lanes.length; k++) bar(lanes[k], whats[k] > 0, starts[k], durs[k], colors[whats[k]]);
    for (let k = 0; k < parts.lane.length; k++) {
      bar(parts.lane[k], true, parts.start[k], parts.wait[k], colors[1]);
      bar(parts.lane[k], true, parts.start[k] + parts.wait[k], parts.dur[k] - parts.wait[k], colors[2]);
    }
    this.joins(context, top, half);
    context.strokeStyle = RankCanvas.color("text");
    context.lineWidth = 1.5;
    step.begins.forEach((begins, lane) => {
      for (const at of begins) {
        context.beginPath();
        context.moveTo(this.x(at), top(lane));
        context.lineTo(this.x(at), top(lane) + high - 1);
        context.stroke();
      }
    });
    const late = new Map(step.late),
      last = new Map();
    for (let k = 0; k < parts.lane.length; k++) {
      const meeting = parts.meeting[k] - 1;
      if (late.has(meeting) && !(parts.start[k] <= parts.start[last.get(meeting)])) last.set(meeting, k);
    }
    this.last = last;
    for (const k of last.values())
      RankCanvas.diamond(context, this.x(parts.start[k]), top(parts.lane[k]) + half * 1.5, Math.min(5, half / 2 + 1));
    context.restore();
    step.lanes.forEach((rank, lane) =>
      RankCanvas.label(context, this.app.ranks[rank], top(lane) + half, rank === this.app.rank),
    );
    this.axis(context, width);
  }

  // A line through the starts of what is one collective; that of the selected one stands out.
  joins(context, top, half) {
    const { parts } = this;
    context.lineWidth = 1;
    for (let from = 0; from < parts.lane.length;) {
      let to = from + 1;
      while (to < parts.lane.length && parts.meeting[to] === parts.meeting[from]) to++;
      if (parts.meeting[from] && to > from + 1) {
        const isChosen = parts.meeting[from] - 1 === this.app.collective;
        context.strokeStyle = RankCanvas.color(isChosen ? "accent" : "dim");
        context.globalAlpha = isChosen ? 1 : 0.45;
        context.lineWidth = isChosen ? 2.5 : 1;
        context.beginPath();
        const order = Array.from({ length: to - from }, (_, k) => from + k).sort(
          (a, b) => parts.lane[a] - parts.lane[b],
        );
        order.forEach((k, n) =>
          context[n ? "lineTo" : "moveTo"](this.x(parts.start[k]), top(parts.lane[k]) + half * 1.5),
        );
        context.stroke();
      }
      from = to;
    }
    context.globalAlpha = 1;
  }

  axis(context, width) {
    context.fillStyle = RankCanvas.color("back");
    context.fillRect(RankCanvas.GUTTER, 0, width, RanksStep.AXIS - 1);
    context.fillStyle = RankCanvas.color("dim");
    const { from, to } = this.view,
      [unit, size] = Show.UNITS.find(([, one]) => to - from >= 2 * one) || Show.UNITS[3];
    for (const mark of RankCanvas.marks(from / size, to / size, (width - RankCanvas.GUTTER) / 110)) {
      const x = this.x(mark * size);
      if (x < RankCanvas.GUTTER || x > width - 40) continue;
      context.fillRect(x, RanksStep.AXIS - 6, 1, 5);
      context.fillText(`${mark.toLocaleString("en-US")} ${unit}`, x + 3, 10);
    }
  }

  at(x, y) {
    const lane = Math.floor((y - RanksStep.AXIS) / this.lane);
    if (lane < 0 || lane >= this.step.lanes.length) return null;
    if (x < RankCanvas.GUTTER) return { rank: this.step.lanes[lane] };
    const isBelow = y - RanksStep.AXIS - lane * this.lane >= this.lane / 2;
    const ns =
      this.view.from +
      ((x - RankCanvas.GUTTER) / (this.pane.width - RankCanvas.GUTTER)) * (this.view.to - this.view.from);
    const near = (2 * (this.view.to - this.view.from)) / this.pane.width;
    const { parts } = this,
      [lanes, whats, starts, durs] = this.bars;
    if (isBelow)
      for (let k = 0; k < parts.lane.length; k++)
        if (parts.lane[k] === lane && ns >= parts.start[k] - near && ns <= parts.start[k] + parts.dur[k] + near)
          return { part: k };
    for (let k = 0; k < lanes.length; k++)
      if (lanes[k] === lane && whats[k] > 0 === isBelow && ns >= starts[k] - near && ns <= starts[k] + durs[k] + near)
        return { bar: k };
    return null;
  }

  says(at) {
    if (!at) return null;
    const { parts, step, trace } = this;
    if (at.rank !== undefined) return [["name", this.app.ranks[at.rank]]];
    if (at.bar !== undefined) {
      const [lanes, whats, , durs] = this.bars;
      return [
        ["name", this.app.ranks[step.lanes[lanes[at.bar]]]],
        ["", `${RanksStep.KINDS[whats[at.bar]]}: ${Show.span(durs[at.bar])}`],
      ];
    }
    const k = at.part,
      { texts } = trace.body,
      rank = this.app.ranks[step.lanes[parts.lane[k]]];
    const sequence = step.sequences[k] == null ? "" : ` #${Show.count(step.sequences[k])}`,
      bytes = parts.size[k] ? `, ${RanksBandwidth.bytes(parts.size[k] - 1)}` : "";
    const late = new Map(step.late).get(parts.meeting[k] - 1);
    return [
      ["name", `${texts[step.kinds[k]]}${sequence}${bytes}`],
      ...(texts[step.groups[k]] ? [["dim", texts[step.groups[k]]]] : []),
      [
        "",
        parts.meeting[k]
          ? `${rank} waits ${Show.span(parts.wait[k])}, then takes ${Show.span(parts.dur[k] - parts.wait[k])}`
          : `${rank} takes ${Show.span(parts.dur[k])}; not matched with other ranks`,
      ],
      ...(late && this.last?.get(parts.meeting[k] - 1) === k
        ? [["", `comes last, ${Show.span(late)} after the median of the others`]]
        : []),
    ];
  }

  chosen(at) {
    if (!at || this.dragged) return;
    if (at.rank !== undefined) this.app.selectRank(at.rank);
    else if (at.part !== undefined && this.parts.meeting[at.part])
      this.app.selectCollective(this.parts.meeting[at.part] - 1);
  }

  zoom(from, to) {
    const least = Math.min(100, this.whole.to - this.whole.from),
      span = Math.min(Math.max(to - from, least), this.whole.to - this.whole.from);
    const begin = Math.max(this.whole.from, Math.min((from + to) / 2 - span / 2, this.whole.to - span));
    this.view = { from: begin, to: begin + span };
    this.pane.draw();
  }

  // Zoom by a factor about a share of the width; move by a share.
  by(factor, about = 0.5) {
    const { from, to } = this.view,
      at = from + about * (to - from);
    this.zoom(at - (at - from) * factor, at + (to - at) * factor);
  }

  move(share) {
    const { from, to } = this.view,
      by = share * (to - from);
    this.zoom(from + by, to + by);
  }

  key(key) {
    if (key === "w" || key === "s") this.by(key === "w" ? 0.7 : 1 / 0.7);
    else if (key === "a" || key === "ArrowLeft") this.move(-0.2);
    else if (key === "d" || key === "ArrowRight") this.move(0.2);
    else if (key === "0") this.zoom(this.whole.from, this.whole.to);
    else return false;
    return true;
  }

  listen() {
    const { canvas } = this.pane;
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (event.shiftKey) this.move(Math.sign(event.deltaY || event.deltaX) * 0.1);
        else if (event.offsetX > RankCanvas.GUTTER)
          this.by(
            event.deltaY < 0 ? 0.8 : 1.25,
            (event.offsetX - RankCanvas.GUTTER) / (this.pane.width - RankCanvas.GUTTER),
          );
        else return;
        event.preventDefault();
      },
      { passive: false },
    );
    let grabbed = null;
    canvas.addEventListener("pointerdown", (event) => {
      grabbed = { x: event.clientX, ...this.view };
      this.dragged = false;
      canvas.setPointerCapture?.(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!grabbed || !event.buttons) return;
      const by = ((event.clientX - grabbed.x) / (this.pane.width - RankCanvas.GUTTER)) * (grabbed.to - grabbed.from);
      if (Math.abs(event.clientX - grabbed.x) > 3) this.dragged = true;
      if (this.dragged) this.zoom(grabbed.from - by, grabbed.to - by);
    });
    canvas.addEventListener("pointerup", () => (grabbed = null));
  }

  shown() {
    this.pane.draw();
    this.grid.fill(true);
  }
}
