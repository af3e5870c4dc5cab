// @ts-check
// The page of a job whose operations are known without traces: its slowdown, and the tables of it.
import { Page } from "./page.js";
import { RanksOverview } from "./ranks-overview.js";
import { Shell, textOf, unpackedBody } from "./shell.js";
import { Tables } from "./tables.js";

class SlowdownPage extends Page {
  /** @param {Shell} shell @param {TablesBody} body */
  constructor(shell, body) {
    super(shell);
    this.tables = new Tables(shell.root(Tables), body.tables, ["slowdown"]);
    this.views = { tables: this.tables };
    this.linkViews();
  }

  follow() {
    this.show(this.asked.view);
    super.follow();
  }

  /** The search filters the table that is open. @param {string} text */
  search(text) {
    const { grid } = this.tables;
    this.shell.search.value = grid.filter.value = text;
    grid.arrange();
  }
}

/** @type {RanksHead} */
const head = JSON.parse(textOf("head"));
const shell = new Shell(head.title, [RanksOverview, Tables], [
  ["1 2", "views"],
  ["/", "filter the table by a pattern"],
]);
RanksOverview.begin(shell.root(RanksOverview), head.overview);
shell.run(async () => new SlowdownPage(shell, await unpackedBody()));
