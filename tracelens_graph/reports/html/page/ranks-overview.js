// @ts-check
// The first view of a job: what a step is made of, which rank holds up the others, and why.
class RanksOverview {
  static MOST = 64;

  constructor(app, said) {
    this.app = app;
    this.said = said;
    this.root = el("section", { class: "overview", id: "view-overview", role: "tabpanel", "aria-label": "Overview" });
    this.root.append(
      ...[
        el(
          "div",
          { class: "headline" },
          el("h2", {}, said.headline),
          el("p", { class: "dim" }, said.head),
          ...said.late.map((line) => el("p", { class: "late" }, line)),
          said.late_rank >= 0 || said.commands.length ? this.more(said) : null,
        ),
        said.times.length ? this.times(said.times) : null,
        said.balance.length ? this.balance(said) : null,
        said.notes.length ? el("div", { class: "notes" }, ...said.notes.map((note) => el("p", {}, note))) : null,
      ].filter(Boolean),
    );
  }

  // The rank that the others wait for, and what to ask next.
  more({ late_rank: late, ranks, commands }) {
    return el(
      "p",
      { class: "ask" },
      late >= 0
        ? el("a", { href: `#view=waits&rank=${late}`, class: "node" }, `show ${ranks[late]}, and why it is late`)
        : null,
      ...commands.map(command),
    );
  }

  times(times) {
    const number = (value, digits = 3) =>
      el("td", { class: "number" }, value == null ? "" : Show.number(value, digits));
    const most = Math.max(...times.map((row) => row.mean_ms ?? 0));
    return plainTable(
      "Of a step on a rank: computing, exposed, copying and idle are the whole of it",
      ["", "mean ms", "%", "", "most ms", "on", "least ms", "on"].map((text, k) => [text, [1, 2, 4, 6].includes(k)]),
      times.map((row) => {
        const bar = el("div", { class: "share-bar" }, el("i", { class: row.time.includes("wait") ? "waiting" : "" }));
        bar.firstChild.style.width = `${most ? (100 * (row.mean_ms ?? 0)) / most : 0}%`;
        return el(
          "tr",
          { title: row.meaning },
          el("th", { scope: "row" }, row.time),
          number(row.mean_ms),
          number(row.percent, 1),
          el("td", {}, bar),
          number(row.most_ms),
          el("td", {}, row.most_trace),
          number(row.least_ms),
          el("td", {}, row.least_trace),
        );
      }),
    );
  }

  // Each rank's collectives to one scale, and how long it held up the others; of many ranks those that did most.
  balance({ balance, balance_keys: keys, ranks }) {
    const of = (row, key) => row[keys.indexOf(key)] ?? 0;
    const ns = (row, key) => Math.round(of(row, key) * 1e6);
    const all = balance.map((row, rank) => ({ row, rank }));
    const shown = [...all]
      .sort((a, b) => of(b.row, "held_up_ms") - of(a.row, "held_up_ms") || a.rank - b.rank)
      .slice(0, RanksOverview.MOST)
      .sort((a, b) => a.rank - b.rank);
    const parts = (row) =>
      [
        ["waits for other ranks", "waiting", "wait_ms"],
        ["communicates", "moving", "transfer_ms"],
        ["stays longer than the first", "skew", "end_skew_ms"],
      ].map(([label, name, key]) => ({ label, class: name, ns: ns(row, key) }));
    const most = Math.max(...shown.map(({ row }) => Bars.total(parts(row))), 1),
      held = Math.max(...shown.map(({ row }) => of(row, "held_up_ms")), 0);
    return el(
      "figure",
      {},
      el("figcaption", {}, "Ranks: time in collectives, and how long each holds up the others"),
      el(
        "div",
        { class: "balance" },
        ...["", "in collectives", "ms", "holds the others up", "ms"].map((text) => el("span", { class: "dim" }, text)),
        ...shown.flatMap(({ row, rank }) => {
          const whole = Bars.total(parts(row));
          const track = el("div", { class: "track" }, Bars.stack(parts(row), whole || 1));
          track.firstChild.style.width = `${(100 * whole) / most}%`;
          const bar = el("div", { class: "share-bar", "aria-hidden": "true" }, el("i", { class: "late" }));
          bar.firstChild.style.width = `${held ? (100 * of(row, "held_up_ms")) / held : 0}%`;
          return [
            el("a", { href: `#view=waits&rank=${rank}` }, ranks[rank]),
            track,
            el("span", { class: "number" }, Show.number(whole / 1e6, 3)),
            bar,
            el("span", { class: "number" }, Show.number(of(row, "held_up_ms"), 3)),
          ];
        }),
      ),
      Bars.legend(parts(balance[0]), () => []),
      all.length > shown.length
        ? el(
            "p",
            { class: "dim" },
            `${Show.count(shown.length)} of ${Show.count(all.length)} ranks: those that hold up the others most. All are in the table rank_balance.`,
          )
        : null,
    );
  }

  start() {}
}
