// @ts-check
// The page of a job: a rank and a collective are selected in all views, and the address says which.
class RanksTables extends Tables {
  start(trace) {
    // Uids are those of several traces: none of them is a link on this page.
    for (const table of trace.body.tables)
      for (const column of table.columns) if (column.kind === "uid") column.kind = "id";
    super.start(trace);
    this.open("rank_balance");
  }

  content(table) {
    const column = table.columns.find(({ name }) => name === "collective");
    if (!column || table.columns[0] !== column) return table;
    return {
      ...table,
      click: (row) => this.app.selectCollective(column.cells[row]),
      isMarked: (row) => column.cells[row] === this.app.collective,
    };
  }

  shown() {
    this.grid.fill(true);
  }
}

class RanksPage extends Views {
  static KEYS = [
    ["1 … 6", "views"],
    [", .", "the collective before and behind"],
    ["w s, wheel", "zoom into the step"],
    ["a d, drag, shift and wheel", "move in the step"],
    ["0", "the whole step"],
    ["/", "search collectives by a pattern"],
    ["n N", "next collective that was found, the one before"],
    ["Esc", "select nothing, search nothing"],
  ];

  constructor() {
    super(RanksPage.KEYS);
    const said = this.head.overview;
    this.ranks = said.ranks;
    this.rank = -1;
    this.collective = -1;
    this.matches = [];
    this.begin(this.head.title, {
      overview: [new RanksOverview(this, said), "Overview"],
      waits: [new RanksWaits(this), "Waiting"],
      step: [new RanksStep(this), "Step"],
      bandwidth: [new RanksBandwidth(this), "Bandwidth"],
      collectives: [new RanksCollectives(this), "Collectives"],
      tables: [new RanksTables(this), "Tables"],
    });
  }

  async load() {
    this.drawAll(await this.unpacked());
  }

  shownNow(name) {
    this.views[name][0].shown?.();
  }

  get linked() {
    return [
      ...(this.rank >= 0 ? [`rank=${this.rank}`] : []),
      ...(this.collective >= 0 ? [`collective=${this.collective}`] : []),
    ];
  }

  follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const number = (name) => (/^\d{1,9}$/.test(asked.get(name) ?? "") ? Number(asked.get(name)) : -1);
    const rank = number("rank"),
      collective = number("collective");
    if (asked.has("view")) this.show(asked.get("view"));
    else if (collective >= 0) this.show("collectives");
    else if (rank >= 0) this.show("waits");
    if (rank >= 0 && rank < this.ranks.length) this.rank = rank;
    if (collective >= 0) this.selectCollective(collective);
    this.renew();
  }

  // A second time selects none.
  selectRank(rank) {
    this.rank = rank === this.rank ? -1 : rank;
    this.renew();
  }

  selectCollective(number) {
    const row = this.collectives.numbers.indexOf(number);
    if (row < 0) {
      this.say(`collective ${number} is not in the table`);
      return;
    }
    this.collective = number;
    this.collectives.open(number);
    this.collectives.grid.reveal(row);
    this.renew();
  }

  unselect() {
    this.rank = -1;
    this.collective = -1;
    this.renew();
  }

  renew() {
    this.views[this.shown][0].shown?.();
    this.details();
    this.link();
  }

  details() {
    const isShown = this.rank >= 0 || this.collective >= 0,
      box = this.selectedBox(isShown);
    if (!isShown) return;
    const { balance, balance_keys: keys } = this.head.overview,
      told = (key) => balance[this.rank]?.[keys.indexOf(key)];
    const collective =
      this.collective >= 0
        ? [el("b", {}, this.collectives.title), el("span", { class: "dim" }, this.collectives.says)]
        : [];
    box.replaceChildren(
      el(
        "div",
        { class: "what" },
        ...(this.rank >= 0
          ? [
              el("b", {}, this.ranks[this.rank]),
              el(
                "span",
                {},
                `waits ${Show.number(told("wait_ms") ?? 0, 3)} ms, communicates ${Show.number(told("transfer_ms") ?? 0, 3)} ms`,
              ),
              el(
                "span",
                {},
                `holds the others up ${Show.number(told("held_up_ms") ?? 0, 3)} ms; last in ${Show.count(told("times_last") ?? 0)} of ${Show.count(told("collectives") ?? 0)} collectives`,
              ),
            ]
          : collective),
      ),
      el(
        "div",
        { class: "what" },
        ...(this.rank >= 0
          ? [
              ...this.head.overview.reasons[this.rank].map((why) => el("span", { class: "why" }, why)),
              ...collective,
            ]
          : []),
      ),
      el(
        "div",
        { class: "acts" },
        ...(this.rank >= 0 ? [actButton("Waiting", () => this.go("waits"))] : []),
        ...(this.rank >= 0 && this.head.overview.reasons[this.rank].length
          ? [
              actButton("Reasons", () => {
                this.tables.open("late_ranks");
                this.go("tables");
              }),
            ]
          : []),
        ...(this.collective >= 0 ? [actButton("Collective", () => this.go("collectives"))] : []),
        actButton("Step", () => this.go("step")),
        actButton("Copy link", (event) => copyText(location.href, event.currentTarget)),
        actButton("✕", () => this.unselect()),
      ),
    );
  }

  search(text) {
    byId("search").value = text;
    const { grid } = this.collectives;
    this.matches = [];
    this.behind = 0;
    grid.filter.value = text;
    // The filter of the table is the search: whoever changes it, these are its matches.
    grid.arranged = (note) => {
      const isFiltered = grid.filter.value !== "";
      this.matches = isFiltered ? grid.order.map((row) => this.collectives.numbers[row]) : [];
      this.say(isFiltered ? `${Show.count(this.matches.length)} collectives${note && `, ${note}`}` : "");
      if (this.behind) this.next(this.behind);
      this.behind = 0;
    };
    grid.arrange();
    if (grid.matching.isBusy) this.say("searching …");
  }

  next(by) {
    const { isBusy } = this.collectives.grid.matching;
    this.nextMatch(by, isBusy, this.collective, (one) => this.selectCollective(one), "collectives");
  }

  recolor() {
    this.shownNow(this.shown);
  }

  get grids() {
    return [this.waits.grid, this.step.grid, this.bandwidth.grid, this.collectives.grid, this.tables.grid];
  }

  viewKey(key) {
    if (key === "," || key === ".") {
      const { grid, numbers } = this.collectives;
      if (!grid.order) return true;
      const at = grid.order.indexOf(numbers.indexOf(this.collective)) + (key === "." ? 1 : -1);
      if (at >= 0 && at < grid.order.length) this.selectCollective(numbers[grid.order[at]]);
      return true;
    }
    return this.shown === "step" && this.step.key(key);
  }
}

new RanksPage().run();
