// @ts-check
// The page of a job: a rank and a collective are selected in all views, and the address says which.
import { button, el } from "./dom.js";
import { Page } from "./page.js";
import { RanksBandwidth } from "./ranks-bandwidth.js";
import { RanksCollectives } from "./ranks-collectives.js";
import { RanksOverview } from "./ranks-overview.js";
import { RanksStep } from "./ranks-step.js";
import { RanksWaits } from "./ranks-waits.js";
import { Shell, textOf, unpacked } from "./shell.js";
import { Show } from "./show.js";
import { Tables, withoutLinks } from "./tables.js";

/** @type {[string, string][]} */
const KEYS = [
  ["1 … 6", "views"],
  [", .", "the collective before and after"],
  ["w s, wheel", "zoom into the step"],
  ["a d, drag, shift and wheel", "move in the step"],
  ["0", "the whole step"],
  ["/", "search collectives by a pattern"],
  ["n N", "next collective that was found, the one before"],
  ["Esc", "select nothing, search nothing"],
];

export class RanksPage extends Page {
  // What is selected; -1 for none.
  rank = -1;
  collective = -1;

  /** @param {Shell} shell @param {RanksOverviewHead} head @param {RanksBody} body @param {Columns} columns */
  constructor(shell, head, body, columns) {
    super(shell);
    this.head = head;
    this.ranks = head.ranks;
    this.trace = { body, columns };
    withoutLinks(body.tables);
    this.waits = new RanksWaits(this, shell.root(RanksWaits), body.waits);
    this.step = new RanksStep(this, shell.root(RanksStep), body, columns);
    this.bandwidth =
      shell.views.has(RanksBandwidth.NAME)
        ? new RanksBandwidth(this, shell.root(RanksBandwidth), body.bandwidths, body.texts)
        : undefined;
    this.collectives = new RanksCollectives(this, shell.root(RanksCollectives), body, columns);
    this.tables = new Tables(shell.root(Tables), body.tables, ["rank_balance"], (table) => this.content(table));
    const { waits, step, bandwidth, collectives, tables } = this;
    this.views = { waits, step, bandwidth, collectives, tables };
    // The filter of the table is the search: whoever changes it, these are its matches.
    this.matching = collectives.grid.matching;
    collectives.grid.arranged = (note) => this.found(note);
  }

  /** A row of the collectives leads to its collective. @param {TableData} table @returns {GridContent} */
  content(table) {
    const [first] = table.columns;
    if (first?.name !== "collective") return table;
    return {
      ...table,
      click: (row) => this.selectCollective(Number(first.cells[row])),
      isMarked: (row) => first.cells[row] === this.collective,
    };
  }

  get linked() {
    return [
      ...(this.rank >= 0 ? [`rank=${this.rank}`] : []),
      ...(this.collective >= 0 ? [`collective=${this.collective}`] : []),
    ];
  }

  follow() {
    const { view, number } = this.asked,
      rank = number("rank"),
      collective = number("collective");
    if (view) this.show(view);
    else if (collective !== null) this.show("collectives");
    else if (rank !== null) this.show("waits");
    if (rank !== null && rank < this.ranks.length) this.rank = rank;
    if (collective !== null) this.selectCollective(collective);
    this.renew();
  }

  /** A second time selects none. @param {number} rank */
  selectRank(rank) {
    this.rank = rank === this.rank ? -1 : rank;
    this.renew();
  }

  /** @param {number} number */
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
    this.shownNow();
    this.details();
    this.link();
  }

  details() {
    const { rank, collective, collectives, head } = this,
      reasons = head.reasons[rank] ?? [];
    if (rank < 0 && collective < 0) {
      this.selectedBox();
      return;
    }
    const chosen = collective >= 0 && [el("b", collectives.title), el("span.dim", collectives.says)];
    this.selectedBox(
      el("div.what", rank >= 0 ? this.rankDetails(rank) : chosen),
      el("div.what", rank >= 0 && [reasons.map((why) => el("span.why", why)), chosen]),
      this.acts(
        rank >= 0 && button("Waiting", () => this.go("waits")),
        reasons.length > 0 &&
          button("Reasons", () => {
            this.tables.open("late_ranks");
            this.go("tables");
          }),
        collective >= 0 && button("Collective", () => this.go("collectives")),
        button("Step", () => this.go("step")),
      ),
    );
  }

  /** @param {number} rank */
  rankDetails(rank) {
    const { balance, balance_keys: keys } = this.head;
    /** @param {string} key */
    const of = (key) => balance[rank]?.[keys.indexOf(key)] ?? 0;
    /** @param {string} key */
    const ms = (key) => `${Show.number(of(key), 3)} ms`;
    const last = `last in ${Show.count(of("times_last"))} of ${Show.count(of("collectives"))} collectives`;
    return [
      el("b", this.ranks[rank]),
      el("span", `waits ${ms("wait_ms")}, communicates ${ms("transfer_ms")}`),
      el("span", `holds the others up ${ms("held_up_ms")}; ${last}`),
    ];
  }

  /** @param {string} text */
  search(text) {
    const { grid } = this.collectives;
    this.shell.search.value = grid.filter.value = text;
    this.matches = [];
    this.behind = 0;
    grid.arrange();
    if (this.matching.isBusy) this.say("searching …");
  }

  /** @param {string} note */
  found(note) {
    const { grid, numbers } = this.collectives,
      isFiltered = grid.filter.value !== "";
    this.matches = isFiltered ? (grid.order ?? []).map((row) => numbers[row]) : [];
    this.say(isFiltered ? `${Show.count(this.matches.length)} collectives${note && `, ${note}`}` : "");
    this.goOn();
  }

  /** @param {number} by */
  next(by) {
    if (this.isReadyFor(by)) this.nextMatch(by, this.collective, "collectives", (one) => this.selectCollective(one));
  }

  /** @param {string} key */
  key(key) {
    if (key !== "," && key !== ".") return super.key(key);
    const { grid, numbers } = this.collectives,
      order = grid.order ?? [],
      at = order.indexOf(numbers.indexOf(this.collective)) + (key === "." ? 1 : -1);
    if (at >= 0 && at < order.length) this.selectCollective(numbers[order[at]]);
    return true;
  }
}

/** @type {RanksHead} */
const head = JSON.parse(textOf("head"));
const shell = new Shell(
  head.title,
  [RanksOverview, RanksWaits, RanksStep, RanksBandwidth, RanksCollectives, Tables].filter(
    ({ NAME }) => NAME !== RanksBandwidth.NAME || head.overview.has_bandwidths,
  ),
  KEYS,
);
RanksOverview.begin(shell.root(RanksOverview), head.overview);
shell.run(async () => {
  const { body, columns } = await unpacked(head.columns);
  return new RanksPage(shell, head.overview, body, columns);
});
