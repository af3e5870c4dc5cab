// @ts-check
// Collectives, and of the one that is chosen how each rank's time in it splits into waiting and communication.
class RanksCollectives {
  static PARTS = [
    ["not there yet", "absent", "start"],
    ["waits for the last rank", "waiting", "wait"],
    ["communicates", "moving", "transfer"],
    ["stays longer than the first", "skew", "skew"],
  ];

  constructor(app) {
    this.app = app;
    this.root = el("section", {
      class: "collectives",
      id: "view-collectives",
      role: "tabpanel",
      "aria-label": "Collectives",
    });
  }

  start(trace) {
    this.trace = trace;
    const { columns, body } = trace;
    this.split = Object.fromEntries(
      ["meeting", "rank", "start", "wait", "transfer", "skew"].map((name) => [name, columns[`split.${name}`]]),
    );
    this.table = body.tables.find((one) => one.name === "rank_collectives");
    for (const column of this.table.columns) if (column.kind === "text") column.texts = body.texts;
    this.numbers = this.table.columns.find((column) => column.name === "collective").cells;
    this.list = el("div", { class: "twin" });
    this.one = el("div", { class: "one-collective", tabIndex: 0 });
    this.root.append(
      el("div", { class: "bar" }, el("b", {}, "Collectives, those with most waiting first")),
      this.list,
      this.one,
    );
    this.grid = new Grid(this.list, "Collectives");
    this.grid.show({
      ...this.table,
      notes: [],
      click: (row) => this.app.selectCollective(this.numbers[row]),
      isMarked: (row) => this.numbers[row] === this.app.collective,
    });
    this.open(this.numbers[0] ?? -1);
  }

  // First and last part of a collective, in the order of ranks.
  partsOf(number) {
    const { meeting } = this.split;
    let low = 0,
      high = meeting.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (meeting[middle] < number) low = middle + 1;
      else high = middle;
    }
    const found = [];
    while (low < meeting.length && meeting[low] === number) found.push(low++);
    return found;
  }

  open(number) {
    const row = this.numbers.indexOf(number);
    this.number = number;
    if (row < 0) {
      this.one.replaceChildren(el("p", { class: "dim" }, "The ranks share no collective."));
      return;
    }
    const cell = (name) => {
      const column = this.table.columns.find((one) => one.name === name);
      return column ? this.grid.text(column, row) : "";
    };
    const parts = this.partsOf(number);
    const rows = parts.map((k) => ({
      name: this.app.ranks[this.split.rank[k]],
      says: `waits ${Show.span(this.split.wait[k])}`,
      parts: RanksCollectives.PARTS.map(([label, name, key]) => ({
        label,
        class: name,
        ns: this.split[key][k],
      })).filter((part) => part.ns),
    }));
    this.title = `Collective ${number}: ${cell("kind")}`;
    this.says = [
      cell("group") && `group ${cell("group")}`,
      cell("step") && `step ${cell("step")}`,
      `${cell("ranks")} ranks`,
      `waiting ${cell("wait_us")} µs in all`,
      `latency ${cell("latency_us")} µs`,
    ]
      .filter(Boolean)
      .join(" · ");
    this.one.replaceChildren(
      el("h2", {}, this.title),
      el("p", { class: "dim" }, this.says),
      rows.length
        ? Bars.rows(
            "Each rank's time from the first start on",
            rows,
            Bars.legend(
              RanksCollectives.PARTS.map(([label, name]) => ({ label, class: name })),
              () => [],
            ),
          )
        : el(
            "p",
            { class: "dim" },
            "Its ranks are not on this page, which has those of the collectives with most waiting.",
          ),
    );
  }

  shown() {
    this.grid.fill(true);
  }
}
