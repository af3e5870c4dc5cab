// @ts-check
// Waiting by rank and step as a map of colours, and beside it how long each rank held up the others.
class RanksWaits {
  static ROW = [6, 26];
  static TOP = 6;
  static AXIS = 24;
  static WIDEST = 130;
  static BARS = 520;

  constructor(app) {
    this.app = app;
    this.root = el("section", {
      class: "waits",
      id: "view-waits",
      role: "tabpanel",
      "aria-label": "Waiting by rank and step",
    });
  }

  start(trace) {
    const { waits } = trace.body;
    this.waits = waits;
    this.most = Math.max(...waits.wait_ms.flat().map((one) => one ?? 0), 0);
    this.held = Math.max(...waits.all_held_up_ms, 0);
    const many = waits.rows.length;
    this.row = Math.max(RanksWaits.ROW[0], Math.min(RanksWaits.ROW[1], Math.floor(520 / Math.max(many, 1))));
    this.pane = new RankCanvas("Waiting by rank and step", {
      height: () => RanksWaits.TOP + many * this.row + RanksWaits.AXIS,
      draw: (context, width) => this.draw(context, width),
      hover: (x, y) => this.says(this.at(x, y)),
      click: (x, y) => {
        const at = this.at(x, y);
        if (at) this.app.selectRank(waits.rows[at.row]);
      },
    });
    this.list = el("div", { class: "twin" });
    this.root.append(
      el(
        "div",
        { class: "bar" },
        el("b", {}, waits.is_whole ? "Waiting by rank" : "Waiting by rank and step"),
        el("span", { class: "dim" }, "Colour: time in which a rank waits in collectives and does not compute."),
        el(
          "span",
          { class: "scale" },
          "0",
          el("i", { class: "heat", role: "img", "aria-label": "From no waiting, pale, to the most, dark" }),
          `${Show.number(this.most, 3)} ms`,
          el("span", { class: "key" }, el("i", { class: "diamond" }), "held the others up most"),
        ),
      ),
      this.pane.box,
      ...waits.notes.map((note) => el("p", { class: "dim" }, note)),
      this.list,
    );
    this.grid = new Grid(this.list, "Waiting by rank and step");
    const cells = waits.rows.flatMap((rank, row) => waits.steps.map((step, column) => ({ rank, row, step, column })));
    const value = (name) => (cell) => waits[name][cell.row][cell.column];
    this.grid.show({
      ...twinOf(cells, [
        ["rank", null, "text", 0, (cell) => this.app.ranks[cell.rank]],
        ["step", null, "text", 0, (cell) => cell.step],
        ["waits", "ms", "number", 3, value("wait_ms")],
        ["step", "ms", "number", 3, value("step_ms")],
        ["holds the others up", "ms", "number", 3, value("held_up_ms")],
      ]),
      click: (row) => this.app.selectRank(cells[row].rank),
      isMarked: (row) => cells[row].rank === this.app.rank,
    });
  }

  // Pixels of the map: left edge, width of a column; and of the bars beside it.
  places(width) {
    const left = RankCanvas.GUTTER,
      columns = this.waits.steps.length,
      room = width - left - Math.max(140, width * 0.2) - 30;
    const cell = Math.min(room / columns, RanksWaits.WIDEST),
      bars = left + cell * columns + 26;
    return { left, cell, bars, beside: Math.min(width - bars, RanksWaits.BARS) };
  }

  draw(context, width) {
    const { waits, row: high } = this,
      { left, cell, bars, beside } = this.places(width);
    const stops = [0, 1, 2, 3, 4].map((k) => RankCanvas.color(`heat-${k}`)).map(RanksWaits.rgb);
    const gap = high > 12 && cell > 6 ? 1 : 0;
    waits.rows.forEach((rank, row) => {
      const y = RanksWaits.TOP + row * high;
      if (high >= 11 || row % Math.ceil(12 / high) === 0)
        RankCanvas.label(context, this.app.ranks[rank], y + high / 2, rank === this.app.rank);
      waits.steps.forEach((_, column) => {
        const value = waits.wait_ms[row][column];
        context.fillStyle =
          value == null ? RankCanvas.color("panel") : RanksWaits.shade(stops, this.most ? value / this.most : 0);
        context.fillRect(left + column * cell, y, Math.max(cell - gap, 0.6), high - gap);
      });
      const held = waits.all_held_up_ms[row];
      context.fillStyle = RankCanvas.color("late");
      context.fillRect(bars, y + 1, this.held ? ((beside - 74) * held) / this.held : 0, Math.max(high - 3, 2));
      if (high >= 11) {
        context.fillStyle = RankCanvas.color("dim");
        context.fillText(
          Show.number(held, 3),
          bars + (this.held ? ((beside - 74) * held) / this.held : 0) + 5,
          y + high / 2,
        );
      }
      if (rank === this.app.rank) {
        context.strokeStyle = RankCanvas.color("accent");
        context.lineWidth = 2;
        context.strokeRect(left - 1, y - 1, cell * waits.steps.length + 1, high);
      }
    });
    waits.late.forEach((row, column) => {
      if (row >= 0)
        RankCanvas.diamond(
          context,
          left + (column + 0.5) * cell,
          RanksWaits.TOP + (row + 0.5) * high,
          Math.min(5, high / 2, cell / 2),
        );
    });
    const y = RanksWaits.TOP + waits.rows.length * high + 12;
    context.fillStyle = RankCanvas.color("dim");
    let free = left;
    waits.steps.forEach((step, column) => {
      const text = waits.is_whole ? step : `step ${step}`,
        x = left + column * cell + 2;
      if (x < free) return;
      context.fillText(text, x, y);
      free = x + context.measureText(text).width + 12;
    });
    context.fillText("held the others up, ms", bars, y);
  }

  static rgb(text) {
    const value = parseInt(text.slice(1), 16);
    return [value >> 16, (value >> 8) & 255, value & 255];
  }

  static shade(stops, share) {
    const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1),
      low = Math.min(Math.floor(at), stops.length - 2);
    return `rgb(${stops[low].map((value, k) => Math.round(value + (stops[low + 1][k] - value) * (at - low))).join(",")})`;
  }

  at(x, y) {
    const { left, cell, bars } = this.places(this.pane.width);
    const row = Math.floor((y - RanksWaits.TOP) / this.row),
      column = Math.floor((x - left) / cell);
    if (row < 0 || row >= this.waits.rows.length) return null;
    if (x >= bars || x < left) return { row, column: -1 };
    return column < this.waits.steps.length ? { row, column } : null;
  }

  says(at) {
    if (!at) return null;
    const { waits } = this,
      { row, column } = at,
      ms = (value) => (value == null ? "not recorded" : `${Show.number(value, 3)} ms`);
    const name = this.app.ranks[waits.rows[row]];
    if (column < 0)
      return [
        ["name", name],
        ["", `holds the others up: ${ms(waits.all_held_up_ms[row])} in all`],
      ];
    return [
      ["name", waits.is_whole ? name : `${name}, step ${waits.steps[column]}`],
      ["", `waits for other ranks: ${ms(waits.wait_ms[row][column])}`],
      ["", `holds the others up: ${ms(waits.held_up_ms[row][column])}`],
      ["dim", `of ${ms(waits.step_ms[row][column])}`],
    ];
  }

  shown() {
    this.pane.draw();
    this.grid.fill(true);
  }
}
